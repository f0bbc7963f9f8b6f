"""Each kind of event that graphs mark is found once and by name, and many are merged into a few marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dashboards import marks
from tests.dashboards.promtool import assert_answers
from tests.dashboards.queries import Shown

HOST = 'platform="xen",host="xen1"'


def of(vserver: str) -> str:
    return f'{HOST},vserver="{vserver}",role="guest"'


# A sample a minute, the change in the fourth.
CHANGES = {
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
    *("changed: cap changed", "given: cap set", "taken: cap removed", "heavier: weight changed"),
    *("vCPUs changed", "new started", "gone ended", "again restarted"),
]
ALERTS = {
    f'ALERTS{{host="{host}",alertname="{name}",alertstate="{state}",severity="{severity}",app="{app}"}}': "_x3 1x6"
    for host, name, state, severity, app in (
        ("xen1", "CapBindsLong", "firing", "warning", "changed"),
        ("xen1", "CapBindsLong", "firing", "warning", "taken"),
        ("xen1", "GuestCrashed", "pending", "critical", ""),
        ("xen1", "Watchdog", "firing", "none", ""),
        ("xen2", "HostDown", "firing", "critical", ""),
    )
}


def test_every_change_is_marked_once_and_by_name(tmp_path: Path) -> None:
    assert_marks(tmp_path, marks.changes(), 3600, {3: MARKED, 5: []})


def test_alerts_are_marked_where_they_begin_to_fire(tmp_path: Path) -> None:
    assert_marks(tmp_path, marks.alerts(), 3600, {3: ["CapBindsLong"], 5: []})
    assert_marks(tmp_path, marks.alerts(any_hosts=True), 3600, {3: ["xen1 CapBindsLong", "xen2 HostDown"], 5: []})


def test_beyond_an_hour_a_fifth_of_the_range_has_one_mark_and_alerts_another_than_changes(tmp_path: Path) -> None:
    assert_marks(tmp_path, marks.changes(), 7200, {3: [], 24: ["Starts, ends and reallocations: 8"], 25: []})
    assert_marks(tmp_path, marks.alerts(), 7200, {12: ["Alerts: 1"], 24: [], 36: []})


def test_a_host_with_many_changes_within_the_hour_has_as_few_marks(tmp_path: Path) -> None:
    many = {f"vserver:cpu_usage:rate{{{of(f'job-{number}')}}}": "_x3 1x6" for number in range(20)}
    expected = {3: [], 12: ["Starts, ends and reallocations: 28"], 13: []}
    assert_marks(tmp_path, marks.changes(), 3600, expected, many)


def assert_marks(
    folder: Path,
    annotation: marks.Marks,
    range_seconds: int,
    expected: Mapping[int, list[str]],
    more: Mapping[str, str] | None = None,
) -> None:
    """Fail unless these are marked at these minutes, on a graph of so many seconds."""
    fields = annotation.to_json()
    target = fields["target"]
    assert fields["titleFormat"] == "{{what}}"
    assert isinstance(target, dict)
    variables = {**Shown(range_seconds, step=60).variables(), "hosts": "xen1|xen2"}
    history = {**CHANGES, **ALERTS, **(more or {})}
    for minute, events in expected.items():
        wanted = {f'{{what="{what}"}}': 1.0 for what in events}
        assert_answers(folder, f"group by (what) ({target['expr']})", minute, wanted, history, variables=variables)
