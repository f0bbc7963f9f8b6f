"""What advise makes of records of disks and of Dom0."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from advise.past import LITTLE_WAITING
from advise.reading import Place, Reading
from advise.seen import see
from deploy.api import Api
from tests.report.recordings import backfilled

PRESENT = 900


def records(end: int, *series: tuple[str, str, Iterable[float]]) -> Iterator[str]:
    """OpenMetrics of records of these names and labels, one value a minute for 20 minutes, repeating theirs."""
    for name in dict.fromkeys(name for name, _, _ in series):
        yield f"# TYPE {name} gauge\n"
        for of, labels, values in series:
            its = [*values]
            for number in range(20 if of == name else 0):
                yield f"{name}{{{labels}}} {its[number % len(its)]} {end - 60 * (19 - number)}\n"


def test_a_disk_that_serves_more_than_a_second_per_second_serves_several_at_once(tmp_path: Path) -> None:
    end = int(time.time()) - 60
    series: list[tuple[str, str, Iterable[float]]] = []
    for host, own in (("a", {"x": 0.3, "y": 0.4}), ("b", {"v": 0.8, "w": 0.5})):
        on = f'host="{host}",platform="cgroup"'
        series += [("host:cpu_usage:rate", on, [0.5]), ("host:cpu_capacity:cpus", on, [1])]
        for guest, seconds in own.items():
            labels = f'{on},vserver="{guest}",role="guest"'
            delay = f'{labels},resource="disk",reason='
            series += [
                ("vserver:cpu_usage:rate", labels, [0.1]),
                ("vserver:delay:rate", f'{delay}"device"', [seconds]),
                ("vserver:delay:rate", f'{delay}"neighbour"', [seconds / 10]),
            ]
    with backfilled(tmp_path, *records(end, *series)) as prometheus:
        seen = see(Reading(Api(prometheus.url), end, PRESENT, 1200))
    busy = {place.host: host.disk_busy for place, host in seen.hosts.items()}
    assert busy == {"a": pytest.approx(0.7), "b": None}
    found = {guest.name: (guest.disk_own, guest.disk_waits) for guest in seen.guests}
    assert found["x"] == pytest.approx((0.3, 0.03))
    assert found["v"] == pytest.approx((0.8, 0.08))


def test_a_guests_share_of_dom0_is_that_of_all_guests_over_the_present(tmp_path: Path) -> None:
    """0.2 CPUs of Dom0 for 0.5 and 1.5 CPUs of guests in turn are 0.2 for each CPU, not the mean of ratios, 0.27."""
    end = int(time.time()) - 60
    on = 'host="x",platform="xen"'
    series: list[tuple[str, str, Iterable[float]]] = [
        ("host:cpu_usage:rate", on, [0.7, 1.7]),
        ("host:cpu_capacity:cpus", on, [4]),
        ("host:overhead_cpu:rate", on, [0.2]),
        ("host:guests_cpu_usage:rate", on, [0.5, 1.5]),
        ("vserver:cpu_usage:rate", f'{on},vserver="web",role="guest"', [0.5]),
    ]
    with backfilled(tmp_path, *records(end, *series)) as prometheus:
        seen = see(Reading(Api(prometheus.url), end, PRESENT, 1200))
    [guest] = seen.guests
    assert guest.place == Place("x", "xen")
    assert guest.overhead == pytest.approx(0.1, rel=0.05)


def test_waits_of_some_guests_are_compared_with_what_those_should_wait(tmp_path: Path) -> None:
    """On a CPU half in use, 0.3 CPUs' worth of guests should wait 0.3 CPUs, and waits 0.6: twice as long.

    That 0.2 more are used by one whose waiting isn't measured says nothing.
    """
    end = int(time.time()) - 60
    on = 'host="a",platform="cgroup"'
    measured, other = (f'{on},vserver="{name}",role="guest"' for name in ("x", "y"))
    series: list[tuple[str, str, Iterable[float]]] = [
        ("host:cpu_usage:rate", on, [0.5]),
        ("host:cpu_capacity:cpus", on, [1]),
        ("vserver:cpu_usage:rate", measured, [0.3]),
        ("vserver:cpu_wait:rate", measured, [0.6]),
        ("vserver:cpu_usage:rate", other, [0.2]),
    ]
    with backfilled(tmp_path, *records(end, *series)) as prometheus:
        seen = see(Reading(Api(prometheus.url), end, PRESENT, 1200))
    assert seen.hosts[Place("a", "cgroup")].bursts == pytest.approx((0.6 + LITTLE_WAITING) / (0.3 + LITTLE_WAITING))
