"""Each kind of event that graphs mark is found once and by name, and many are merged into a few marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dashboards import marks
from tests.dashboards.promtool import assert_answers
from tests.dashboards.queries import Shown

HOST = 'platform="xen",host="xen1"'
CHANGED_AT = 3
AFTER = 5  # with nothing new since


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
    'ALERTS{host="xen1",alertname="CapBindsLong",alertstate="firing",severity="warning",vserver="changed"}': "_x3 1x6",
    'ALERTS{host="xen1",alertname="CapBindsLong",alertstate="firing",severity="warning",vserver="taken"}': "_x3 1x6",
    'ALERTS{host="xen1",alertname="GuestCrashed",alertstate="pending",severity="critical"}': "_x3 1x6",
    'ALERTS{host="xen1",alertname="Watchdog",alertstate="firing",severity="none"}': "_x3 1x6",
    'ALERTS{host="xen2",alertname="HostDown",alertstate="firing",severity="critical"}': "_x3 1x6",
}


def test_every_change_is_marked_once_and_by_name(tmp_path: Path) -> None:
    expected = {CHANGED_AT: MARKED, AFTER: []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=3600)


def test_alerts_are_marked_where_they_begin_to_fire(tmp_path: Path) -> None:
    expected = {CHANGED_AT: ["CapBindsLong"], AFTER: []}
    assert_marks(tmp_path, marks.alerts(), expected, range_seconds=3600)
    of_any = {CHANGED_AT: ["xen1 CapBindsLong", "xen2 HostDown"], AFTER: []}
    assert_marks(tmp_path, marks.alerts(any_hosts=True), of_any, range_seconds=3600)


def test_beyond_an_hour_a_fifth_of_the_range_has_one_mark(tmp_path: Path) -> None:
    expected = {CHANGED_AT: [], 24: ["Starts, ends and reallocations: 8"], 25: []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=7200)


def test_marks_of_alerts_do_not_stand_where_those_of_changes_do(tmp_path: Path) -> None:
    expected = {12: ["Alerts: 1"], 24: [], 36: []}
    assert_marks(tmp_path, marks.alerts(), expected, range_seconds=7200)


def test_a_host_with_many_changes_within_the_hour_has_as_few_marks(tmp_path: Path) -> None:
    many = {f"vserver:cpu_usage:rate{{{of(f'job-{number}')}}}": "_x3 1x6" for number in range(20)}
    expected = {CHANGED_AT: [], 12: ["Starts, ends and reallocations: 28"], 13: []}
    assert_marks(tmp_path, marks.changes(), expected, range_seconds=3600, more=many)


def assert_marks(
    folder: Path,
    annotation: marks.Marks,
    expected: Mapping[int, list[str]],
    *,
    range_seconds: int,
    more: Mapping[str, str] | None = None,
) -> None:
    """Fail unless these are marked at these minutes since the beginning of SERIES, on a graph of so many seconds."""
    fields = annotation.to_json()
    assert fields["titleFormat"] == "{{what}}"
    target = fields["target"]
    assert isinstance(target, dict)
    variables = {**Shown(range_seconds, step=60).variables(), "hosts": "xen1|xen2"}
    for minute, events in expected.items():
        marked = {f'{{what="{what}"}}': 1.0 for what in events}
        given = {**SERIES, **ALERTS, **(more or {})}
        assert_answers(folder, f"group by (what) ({target['expr']})", minute, marked, given, variables=variables)
