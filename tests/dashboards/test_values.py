"""What panels show of hosts with known numbers: the value of each tile, cell and line, its unit and its colours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dashboards import palette
from tests.dashboards import history
from tests.dashboards.queries import FOLDER, fill_in, panels
from tests.dashboards.values import CHOSEN, VIEWS, By, Values
from tests.rules.promtool import asks, evaluate
from tests.rules.test_rules import RULE_FILES

LOOKS = yaml.safe_load((Path(__file__).parent / "looks.yml").read_text())


class Query(NamedTuple):
    """One query of a panel: its row in values.py, the labels that are shown beside its value, and how that looks."""

    row: str
    expr: str
    labels: list[str]
    unit: str
    steps: str


def queries(page: str) -> Iterator[Query]:
    for panel in panels(json.loads((FOLDER / f"{page}.json").read_text())):
        several = len(panel.get("targets", [])) > 1
        for target in panel.get("targets", []):
            row = f"{panel['title']}: {target['refId']}" if several else panel["title"]
            labels = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
            if panel["type"] == "table":
                transformations = {each["id"]: each["options"] for each in panel["transformations"]}
                if matrix := transformations.get("groupingToMatrix"):
                    labels = [matrix["rowField"], matrix["columnField"]]
                else:
                    column = f"Value #{target['refId']}" if several else "Value"
                    row = f"{panel['title']}: {transformations['organize']['renameByName'][f'{column} (lastNotNull)']}"
                    shown = transformations["filterFieldsByName"]["include"]["names"]
                    labels = [label for label in shown if label != "Time" and not label.startswith("Value")]
            defaults = panel["fieldConfig"]["defaults"]
            own = {
                each["id"]: each["value"]
                for override in panel["fieldConfig"]["overrides"]
                if override["matcher"]["options"] == row.rpartition(": ")[2]
                for each in override["properties"]
            }
            unit = own.get("unit") or defaults["unit"]
            yield Query(row, target["expr"], labels, unit, steps({**defaults, **own}))


def steps(field: Mapping[str, Any]) -> str:
    """The colours of a value, in words, as "OK, warning from 0.25": none, if it is not judged."""
    words = {palette.FINE: "OK", palette.WARNING: "warning", palette.CRITICAL: "critical", palette.PLAIN: "line"}
    found = [
        words[step["color"]] + (f" from {step['value']:g}" if step["value"] is not None else "")
        for step in field.get("thresholds", {}).get("steps", [])
        if step["color"] != palette.NONE
    ]
    for mapping in field.get("mappings", []):
        if mapping["type"] == "range" and "color" in mapping["options"]["result"]:
            result = mapping["options"]["result"]
            found.append(f"{result['text']} ({words[result['color']]}) from {mapping['options']['from']:g}")
    return ", ".join(found)


def variables(page: str) -> Iterator[Query]:
    """Those that a query orders: what each value is ordered by."""
    for variable in json.loads((FOLDER / f"{page}.json").read_text())["templating"]["list"]:
        found = re.fullmatch(r"query_result\((.+)\)", str(variable.get("query")))
        if found and (ordered := re.fullmatch(r"sort_desc\((.+)\)", found[1])):
            (label,) = re.findall(r'(\w+)="', variable["regex"])
            yield Query(f"${variable['name']}", ordered[1], [label], "", "")


def test_each_panel_shows_what_is_true(tmp_path: Path) -> None:
    """All at once: most of the time goes into the rules' history."""
    cases = [
        case(query, {**CHOSEN, **view.chosen}, view.rows[query.row], view.page)
        for view in VIEWS
        for query in [*queries(view.page), *variables(view.page)]
        if query.row in view.rows
    ]
    evaluate(
        tmp_path / "values.yml",
        records(tmp_path),
        interval=history.STEP_SECONDS,
        evaluation=history.STEP_SECONDS,
        given=history.series().items(),
        expected=cases,
    )


def test_each_query_has_a_row() -> None:
    for page in sorted(path.stem for path in FOLDER.glob("*.json")):
        assert_rows(page)


def assert_rows(page: str) -> None:
    rows = {row for view in VIEWS if view.page == page for row in view.rows}
    asked = {query.row for query in queries(page)}
    assert rows <= asked | {variable.row for variable in variables(page)}
    assert {row for row in asked - rows if not row.endswith(": Named since")} == set(), "test_neighbours.py has that"


def test_each_value_has_its_unit_and_colours() -> None:
    for page in LOOKS:
        assert_looks(page)


def assert_looks(page: str) -> None:
    units = {row: unit for unit, rows in LOOKS[page]["units"].items() for row in rows}
    judged = {row: steps for steps, rows in LOOKS[page].get("judged", {}).items() for row in rows}
    assert {query.row: query.unit for query in queries(page) if query.unit != "none"} == units
    assert {query.row: query.steps for query in queries(page) if query.steps} == judged


def case(query: Query, chosen: Mapping[str, str], row: Values | By, page: str) -> dict[str, Any]:
    """A case of promtool's: values by what is shown beside them."""
    labels, values = row if isinstance(row, By) else (query.labels, row)
    joined = ", ".join(['"key"', '" "', *(f'"{label}"' for label in labels)])
    named = f'label_replace(label_join({fill_in(query.expr, chosen)}, {joined}), "key", "$1", "key", " *(.*?) *")'
    wanted = {
        f"{{key={json.dumps(name, ensure_ascii=False)}}}" if name else "{}": value
        for name, value in (values if isinstance(values, Mapping) else {"": values}).items()
    }
    asked = asks(f"sum by (key) ({named})", f"{history.MINUTES}m", wanted)
    return {**asked, "expr": f"# {page}, {query.row}\n{asked['expr']}"}


def records(folder: Path) -> list[Path]:
    """The project's rules without its alerts, as those of the history are known."""
    files = []
    for number, file in enumerate(RULE_FILES):
        groups = yaml.safe_load(file.read_text())["groups"]
        for group in groups:
            group["rules"] = [rule for rule in group["rules"] if "record" in rule]
        files.append(folder / f"{number}.yml")
        files[-1].write_text(json.dumps({"groups": groups}))
    return files
