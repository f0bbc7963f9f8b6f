"""What panels show of hosts with known numbers: the value of each tile, cell and line, its unit and its colours."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dashboards import palette
from tests.dashboards import history
from tests.dashboards.queries import FOLDER, fill_in, panels
from tests.dashboards.values import CHOSEN, VIEWS, By, Values
from tests.rules.test_rules import RULE_FILES
from tests.support.program import program_path

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


def test_each_panel_shows_what_is_true(tmp_path: Path) -> None:
    """All at once: most of the time goes into the rules' history."""
    cases = [
        case(query, {**CHOSEN, **view.chosen}, view.rows[query.row], view.page)
        for view in VIEWS
        for query in queries(view.page)
        if query.row in view.rows
    ]
    groups, files = records(tmp_path)
    document = {
        "rule_files": files,
        "evaluation_interval": f"{history.STEP_SECONDS}s",
        "group_eval_order": groups,  # any, but the same each time
        "tests": [
            {
                "interval": f"{history.STEP_SECONDS}s",
                "input_series": [{"series": name, "values": values} for name, values in history.series().items()],
                "promql_expr_test": cases,
            }
        ],
    }
    (tmp_path / "values.yml").write_text(json.dumps(document))
    command = [str(program_path("promtool")), "test", "rules", str(tmp_path / "values.yml")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_query_has_a_row() -> None:
    for page in sorted(path.stem for path in FOLDER.glob("*.json")):
        assert_rows(page)


def assert_rows(page: str) -> None:
    rows = {row for view in VIEWS if view.page == page for row in view.rows}
    asked = {query.row for query in queries(page)}
    assert rows <= asked
    assert {row for row in asked - rows if not row.endswith(": Named since")} == set(), "test_neighbours.py has that"


@pytest.mark.parametrize("page", LOOKS)
def test_each_value_has_its_unit_and_colours(page: str) -> None:
    units = {row: unit for unit, rows in LOOKS[page]["units"].items() for row in rows}
    judged = {row: steps for steps, rows in LOOKS[page].get("judged", {}).items() for row in rows}
    assert {query.row: query.unit for query in queries(page) if query.unit != "none"} == units
    assert {query.row: query.steps for query in queries(page) if query.steps} == judged


def case(query: Query, variables: Mapping[str, str], row: Values | By, page: str) -> dict[str, Any]:
    """A case of promtool's: values by what is shown beside them, rounded to five digits of the smallest."""
    labels, values = row if isinstance(row, By) else (query.labels, row)
    wanted = values if isinstance(values, Mapping) else {"": values}
    smallest = min((abs(value) for value in wanted.values() if value), default=1.0)
    to = float(f"1e{math.floor(math.log10(smallest)) - 4}")
    joined = ", ".join(['"key"', '" "', *(f'"{label}"' for label in labels)])
    named = f'label_replace(label_join({fill_in(query.expr, variables)}, {joined}), "key", "$1", "key", " *(.*?) *")'
    return {
        "expr": f"# {page}, {query.row}\nround(sum by (key) ({named}), {to:g})",
        "eval_time": f"{history.MINUTES}m",
        "exp_samples": [
            {"labels": f"{{key={json.dumps(name, ensure_ascii=False)}}}" if name else "{}", "value": rounded(value, to)}
            for name, value in wanted.items()
        ],
    }


def rounded(value: float, to: float) -> float:
    """As PromQL's round()."""
    return math.floor(value * (1 / to) + 0.5) / (1 / to)


def records(folder: Path) -> tuple[list[str], list[str]]:
    """The project's rules without its alerts, as those of the history are known: names of groups, and files."""
    names, files = [], []
    for number, file in enumerate(RULE_FILES):
        groups = yaml.safe_load(file.read_text())["groups"]
        for group in groups:
            group["rules"] = [rule for rule in group["rules"] if "record" in rule]
            names.append(group["name"])
        copy = folder / f"{number}.yml"
        copy.write_text(json.dumps({"groups": groups}))
        files.append(str(copy))
    return names, files
