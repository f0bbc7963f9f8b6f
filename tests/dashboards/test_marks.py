"""Each kind of event that graphs mark is found once and by name, and many are merged into a few marks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from dashboards import marks
from tests.support.program import program_path

HOST = 'platform="xen",host="h1"'
STEP = "1m"
CHANGED_AT = "3m"
AFTER = "5m"  # with nothing new since


def of(vserver: str) -> str:
    return f'{HOST},vserver="{vserver}",role="guest"'


# A sample a minute, the change in the fourth.
SERIES = {
    f"host:cpu_capacity:cpus{{{HOST}}}": "4x9",
    f"host:vcpu_overcommit:ratio{{{HOST}}}": "2x2 3x6",
    **{f"vserver:cpu_usage:rate{{{of(name)}}}": "1x9" for name in ("changed", "given", "taken", "heavier", "again")},
    f"vserver:cpu_limit:cpus{{{of('changed')}}}": "1x2 2x6",
    f"vserver:cpu_limit:cpus{{{of('given')}}}": "_x3 1x6",
    f"vserver:cpu_limit:cpus{{{of('taken')}}}": "1x2 stale _x6",
    f"vserver:cpu_weight:shares{{{of('heavier')}}}": "256x2 512x6",
    f"vserver:cpu_usage:rate{{{of('new')}}}": "_x3 1x6",
    f"vserver:cpu_usage:rate{{{of('gone')}}}": "1x2 stale _x6",
    f"vserver:starts:count1h{{{of('again')}}}": "0x2 1x6",
}
MARKED = [
    "changed: cap changed",
    "given: cap set",
    "taken: cap removed",
    "heavier: weight changed",
    "vCPUs changed",
    "new started",
    "gone ended",
    "again restarted",
]
ALERTS = {
    'ALERTS{host="h1",alertname="CapBindsLong",alertstate="firing",severity="warning",vserver="changed"}': "_x3 1x6",
    'ALERTS{host="h1",alertname="CapBindsLong",alertstate="firing",severity="warning",vserver="taken"}': "_x3 1x6",
    'ALERTS{host="h1",alertname="GuestCrashed",alertstate="pending",severity="critical"}': "_x3 1x6",
    'ALERTS{host="h1",alertname="Watchdog",alertstate="firing",severity="none"}': "_x3 1x6",
    'ALERTS{host="h2",alertname="HostDown",alertstate="firing",severity="critical"}': "_x3 1x6",
}


def test_every_change_is_marked_once_and_by_name(tmp_path: Path) -> None:
    expected = {CHANGED_AT: MARKED, AFTER: []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=3600)


def test_alerts_are_marked_where_they_begin_to_fire(tmp_path: Path) -> None:
    expected = {CHANGED_AT: ["CapBindsLong"], AFTER: []}
    assert_marks(tmp_path, marks.alerts(), expected, range_seconds=3600)
    of_any = {CHANGED_AT: ["h1 CapBindsLong", "h2 HostDown"], AFTER: []}
    assert_marks(tmp_path, marks.alerts(any_hosts=True), of_any, range_seconds=3600)


def test_beyond_an_hour_a_fifth_of_the_range_has_one_mark(tmp_path: Path) -> None:
    expected = {CHANGED_AT: [], "24m": ["Starts, ends and reallocations: 8"], "25m": []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=7200)


def test_marks_of_alerts_do_not_stand_where_those_of_changes_do(tmp_path: Path) -> None:
    expected = {"12m": ["Alerts: 1"], "24m": [], "36m": []}
    assert_marks(tmp_path, marks.alerts(), expected, range_seconds=7200)


def test_a_host_with_many_changes_within_the_hour_has_as_few_marks(tmp_path: Path) -> None:
    many = {f"vserver:cpu_usage:rate{{{of(f'job-{number}')}}}": "_x3 1x6" for number in range(20)}
    expected = {CHANGED_AT: [], "12m": ["Starts, ends and reallocations: 28"], "13m": []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=3600, more=many)


def assert_marks(
    folder: Path,
    annotation: marks.Marks,
    expected: Mapping[str, list[str]],
    *,
    range_seconds: int,
    more: Mapping[str, str] | None = None,
) -> None:
    """Fail unless these are marked at these times since the beginning of SERIES, on a graph of so many seconds."""
    fields = annotation.to_json()
    assert fields["titleFormat"] == "{{what}}"
    target = fields["target"]
    assert isinstance(target, dict)
    expr = str(target["expr"])
    for variable, value in {
        "$host_platform": "xen",
        "$hosts": "h1|h2",
        "$host": "h1",
        "${__range_s}": str(range_seconds),
        "$__range_s": str(range_seconds),
        "$__range": f"{range_seconds}s",
        "$__interval_ms": "60000",
        "$__interval": STEP,
    }.items():
        expr = expr.replace(variable, value)
    tests = [
        {
            "expr": f"group by (what) ({expr})",
            "eval_time": moment,
            "exp_samples": [{"labels": f'{{what="{what}"}}', "value": 1} for what in events],
        }
        for moment, events in expected.items()
    ]
    series = [{"series": name, "values": values} for name, values in {**SERIES, **ALERTS, **(more or {})}.items()]
    file = folder / "marks.yml"
    file.write_text(yaml.safe_dump({"tests": [{"interval": STEP, "input_series": series, "promql_expr_test": tests}]}))
    run = subprocess.run(
        [program_path("promtool"), "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
