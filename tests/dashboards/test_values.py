"""Panels of hosts with known numbers: the value, unit and colours of each tile, cell and line."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dashboards import palette
from tests.dashboards import history
from tests.dashboards.queries import FOLDER, Shown, fill_in, panels, read
from tests.rules.promtool import asks, evaluate, number
from tests.rules.test_rules import RULE_FILES

VIEWS = yaml.load(Path(__file__).with_name("values.yml").read_text(), yaml.CSafeLoader)
LOOKS = yaml.safe_load(Path(__file__).with_name("looks.yml").read_text())
PAGES = {path.stem: read(path) for path in sorted(FOLDER.glob("*.json"))}
# Values of variables that a view doesn't set.
CHOSEN = {
    **Shown(span=600, step=15).variables(),
    **dict.fromkeys(("platform", "hosts", "app", "vserver", "run", "test"), ".*"),
    **dict.fromkeys(("most_overhead", "most_used", "most_misses", "most_burn"), ".*"),
    **dict.fromkeys(("kind", "other_kind"), "perf_profile_samples_total"),
    "baseline": "base",
    "for": "cpu",
}


class Query(NamedTuple):
    """One panel query: its row in values.yml, the labels shown with its value, and the formatting."""

    row: str
    expr: str
    labels: list[str]
    unit: str = ""
    steps: str = ""


def queries(page: str) -> Iterator[Query]:
    for panel in panels(PAGES[page]):
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
            field = dict(panel["fieldConfig"]["defaults"])
            for override in panel["fieldConfig"]["overrides"]:
                if override["matcher"]["options"] == row.rpartition(": ")[2]:
                    field |= {each["id"]: each["value"] for each in override["properties"]}
            yield Query(row, target["expr"], labels, field["unit"], steps(field))


def steps(field: Mapping[str, Any]) -> str:
    """The colours of a value in words, such as "OK, warning from 0.25"; "" if it isn't coloured."""
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
    """The sort key of each value, for queries with an order."""
    for variable in PAGES[page]["templating"]["list"]:
        if found := re.fullmatch(r"query_result\(sort_desc\((.+)\)\)", str(variable.get("query"))):
            yield Query(f"${variable['name']}", found[1], re.findall(r'(\w+)="', variable["regex"]))


def test_each_panel_shows_what_is_true(tmp_path: Path) -> None:
    """One run for all panels: most of the time goes into evaluating the rules' history."""
    cases = [
        case(query, {**CHOSEN, **view["chosen"]}, view["rows"][query.row], view["page"])
        for view in VIEWS
        for query in [*queries(view["page"]), *variables(view["page"])]
        if query.row in view["rows"]
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
    for page in PAGES:
        rows = {row for view in VIEWS if view["page"] == page for row in view["rows"]}
        asked = {query.row for query in queries(page)}
        assert rows <= asked | {variable.row for variable in variables(page)}
        assert {row for row in asked - rows if not row.endswith(": Last named since")} == set(), "panels.yml has it"


def test_each_value_has_its_unit_and_colours() -> None:
    for page, looks in LOOKS.items():
        units = {row: unit for unit, rows in looks["units"].items() for row in rows}
        judged = {row: steps for steps, rows in looks.get("judged", {}).items() for row in rows}
        assert {query.row: query.unit for query in queries(page) if query.unit != "none"} == units
        assert {query.row: query.steps for query in queries(page) if query.steps} == judged


def case(query: Query, chosen: Mapping[str, str], row: Any, page: str) -> dict[str, Any]:
    """A promtool test case: values by the labels shown next to them."""
    *labels, values = row if isinstance(row, list) else [*query.labels, row]
    joined = ", ".join(['"key"', '" "', *(f'"{label}"' for label in labels)])
    named = f'label_replace(label_join({fill_in(query.expr, chosen)}, {joined}), "key", "$1", "key", " *(.*?) *")'
    wanted = {
        f"{{key={json.dumps(name.replace('auction-N', site), ensure_ascii=False)}}}" if name else "{}": number(value)
        for name, value in (values if isinstance(values, dict) else {"": values}).items()
        for site in (f"auction-{each}" for each in history.SITES)
    }
    asked = asks(f"sum by (key) ({named})", f"{history.MINUTES}m", wanted)
    return {**asked, "expr": f"# {page}, {query.row}\n{asked['expr']}"}


def records(folder: Path) -> list[Path]:
    """The project's rules without alerts; the history's alerts are given."""
    files = []
    for place, file in enumerate(RULE_FILES):
        groups = yaml.safe_load(file.read_text())["groups"]
        for group in groups:
            group["rules"] = [rule for rule in group["rules"] if "record" in rule]
        files.append(folder / f"{place}.yml")
        files[-1].write_text(json.dumps({"groups": groups}))
    return files
