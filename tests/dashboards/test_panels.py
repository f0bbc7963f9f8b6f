"""Panel results for changing values, computed by promtool: panels.yml has histories and expected results."""

import json
import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import yaml

from dashboards import marks
from dashboards.signals import Signal, host, neighbours
from tests.dashboards.promtool import VARIABLES, assert_answers
from tests.dashboards.queries import Shown, fill_in
from tests.rules.promtool import number
from tests.rules.test_rules import run

HOST = 'host="xen1",platform="xen"'
MARKS = {
    "marks.changes": marks.changes(),
    "marks.alerts": marks.alerts(),
    "marks.alerts any": marks.alerts(any_hosts=True),
    "marks.of_lab": marks.of_lab(),
}


def query(name: re.Match[str]) -> str:
    """The query of annotations, of a signal, or of a listed or computed panel by its title."""
    module, _, rest = name[1].partition(".")
    if module == "marks":
        fields: Any = MARKS[name[1]].to_json()
        expr = fields["target"]["expr"]
        return f"group by (what) ({expr})" if fields["titleFormat"] == "{{what}}" else str(expr)
    attribute, _, of_list = rest.partition(" ")
    found = reduce(getattr, attribute.split("."), cast(Any, import_module(f"dashboards.signals.{module}")))
    found = found() if callable(found) else found
    (signal,) = (each for each in found if each.name == of_list) if of_list else [found]
    assert isinstance(signal, Signal)
    return signal.expr


def case(asked: dict[str, Any]) -> dict[str, Any]:
    chosen = asked.get("with", {})
    shown = Shown(chosen["range"], step=60).variables() | {"hosts": "xen1|xen2"} if "range" in chosen else chosen
    expr = fill_in(re.sub("<(.+?)>", query, asked["query"]), {**VARIABLES, **shown})
    gives = {labels.replace("HOST", HOST): number(value) for labels, value in asked["gives"].items()}
    samples = [{"labels": labels, "value": value} for labels, value in gives.items()]
    return {"expr": f"# {asked['query']}\n{expr}", "eval_time": f"{asked['minute']}m", "exp_samples": samples}


def test_panels_show_what_has_become_of_values(tmp_path: Path) -> None:
    tests = [
        {
            "name": test["name"],
            "interval": "1m",
            "input_series": [
                {"series": series.replace("HOST", HOST), "values": str(values)}
                for series, values in test["series"].items()
            ],
            "promql_expr_test": [case(asked) for asked in test["asked"]],
        }
        for test in yaml.safe_load(Path(__file__).with_name("panels.yml").read_text())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": tests}))
    run("promtool", "test", "rules", file)


def test_a_host_with_many_changes_has_few_marks_and_alerts_have_others(tmp_path: Path) -> None:
    history = {f"host:cpu_capacity:cpus{{{HOST}}}": "4x30"}
    for each in range(28):
        history[f'vserver:cpu_usage:rate{{{HOST},vserver="job-{each}",role="guest"}}'] = "_x3 1x27"
        history[f'ALERTS{{host="xen1",alertname="A{each}",alertstate="firing",severity="warning"}}'] = "_x3 1x27"
    changes, alerts = {'{what="Starts, ends and reallocations: 28"}': 1.0}, {'{what="Alerts: 28"}': 1.0}
    for name, marked in (("changes", {12: changes}), ("alerts", {18: alerts})):
        expr = re.sub("<(.+?)>", query, f"<marks.{name}>")
        for minute in (12, 13, 18):
            shown = Shown(3600, step=60).variables()
            assert_answers(tmp_path, expr, minute, marked.get(minute, {}), history, variables=shown)


def test_of_a_hundred_containers_the_matrix_has_those_that_matter(tmp_path: Path) -> None:
    """Each container waits for eight others: container-0 delays everyone, and the last containers wait longest."""
    history = {}
    for victim in range(100):
        waits = {f"container-{(victim + 7 * step) % 100}": 0.001 * (victim + 10) for step in range(1, 8)}
        for name, wait in {**waits, "container-0" if victim else "container-1": 0.1}.items():
            labels = f'{HOST},vserver="container-{victim}",role="guest",resource="cpu",reason="neighbour",by="{name}"'
            history[f"vserver:delay:rate{{{labels}}}"] = f"{wait}x5"
    matrix = f"({neighbours.MATRIX.expr} or {neighbours.TOTALS.expr})"
    three_minutes = {"__range": "179s", "__range_ms": "180000"}
    for expr in (f"count(count by (vserver) {matrix})", f"count({matrix} and {column('container-0')})"):
        assert_answers(tmp_path, expr, 3, {"{}": neighbours.ROWS}, history, variables=three_minutes)
    # The last container's wait for container-0 and for its seven other neighbours.
    total = (
        f'{matrix} and {column("(total)")} and on (vserver) label_replace(vector(1), "vserver", "container-99", "", "")'
    )
    assert_answers(
        tmp_path, f"round(sum({total}), 0.001)", 3, {"{}": 0.1 + 7 * 0.109}, history, variables=three_minutes
    )
    named = neighbours.COLUMNS + 1  # plus the total
    assert_answers(
        tmp_path, f"count(count by (ran) {matrix}) <= bool {named}", 3, {"{}": 1}, history, variables=three_minutes
    )


def column(name: str) -> str:
    return f'on (ran) label_replace(vector(1), "ran", "{name}", "", "")'


def test_the_alert_about_overhead_fires_from_where_panels_warn() -> None:
    """The panel's ratio divides two sums over the alert's five minutes."""
    file = Path(__file__).resolve().parents[2] / "alerts" / "rules" / "overhead.yml"
    rules = [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]
    (alert,) = (rule["expr"] for rule in rules if rule.get("alert") == "HostOverheadHigh")
    for signal, compared in {
        host.OVERHEAD_RATIO: "sum_over_time(host:overhead_cpu:rate[5m]) / (sum_over_time(host:cpu_usage:rate[5m]) > 0)",
        host.OVERHEAD_CPU: "avg_over_time(host:overhead_cpu:rate[5m])",
    }.items():
        (found,) = re.findall(rf"{re.escape(compared)}\s+> ([0-9.]+)", alert)
        assert float(found) == signal.high
