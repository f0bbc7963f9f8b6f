"""Guests of known load in the vocabulary: kvm-exporter's counters through the project's own Prometheus and rules."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.kvm.conftest import QUOTA_CPUS, require_quota
from tests.kvm.guests import Guest
from tests.support import Prometheus

pytestmark = pytest.mark.system

POINTS = 0.05  # of a CPU: scrapes on a busy machine are not quite where Prometheus thinks
MINUTE = 65  # after it all rates are of guests at their loads
RUN = "sum by (guest) (rate(kvm_vcpu_run_seconds_total[1m]))"


@pytest.fixture(scope="module")
def prometheus(lab: dict[str, Guest], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """The project's Prometheus, which scrapes an exporter of its own, as often as it is configured to."""
    assert lab
    folder = tmp_path_factory.mktemp("prometheus")
    with RunningExporter(folder, package="virtscope.kvm") as exporter:
        group = {"targets": [exporter.address], "labels": {"host": "kvm-lab", "platform": "kvm"}}
        with Prometheus(folder, {"kvm": [group]}, interval="5s") as server:
            server.wait_for("kvm_guest_info", seconds=60)
            yield server


@pytest.fixture(scope="module")
def minute(prometheus: Prometheus) -> Prometheus:
    """Prometheus with a minute of samples, in which no other test has done anything to the guests."""
    prometheus.wait_for(f"timestamp(kvm_host_cpus) > {time.time() + MINUTE}", seconds=MINUTE + 60)
    return prometheus


def of(prometheus: Prometheus, lab: dict[str, Guest], expr: str) -> dict[str, float]:
    """The values of a vector by the guests' short names; other guests of the machine are left out."""
    short = {guest.name: name for name, guest in lab.items()}
    found = {}
    for series in prometheus.query(expr):
        name = series["metric"].get("vserver") or series["metric"].get("guest", "")
        if name in short:
            found[short[name]] = float(series["value"][1])
    return found


def test_every_guest_is_a_virtual_server_that_uses_what_it_ran(lab: dict[str, Guest], minute: Prometheus) -> None:
    """Where the kernel can tell guest time, a part of what ran is overhead instead."""
    used = of(minute, lab, "vserver:cpu_usage:rate")
    overhead = of(minute, lab, "vserver:overhead_cpu:rate")
    ran = of(minute, lab, RUN)
    assert used.keys() == ran.keys() == lab.keys()
    for name in lab:
        assert used[name] <= ran[name] + POINTS, name
        assert used[name] + overhead.get(name, 0) >= ran[name] - POINTS, name
    known = of(minute, lab, "kvm_guest_guest_seconds_total")
    assert overhead.keys() == known.keys(), "unknown is absent, not 0"


def test_rivals_wait_and_are_not_throttled(lab: dict[str, Guest], minute: Prometheus) -> None:
    ran, wait = of(minute, lab, RUN)["rival-b"], of(minute, lab, "vserver:cpu_wait:rate")["rival-b"]
    assert wait >= 0.5 - POINTS
    assert ran + wait == pytest.approx(1, abs=POINTS)
    for record in ("vserver:cpu_throttled:rate", "vserver:cpu_limit:cpus"):
        assert not {"rival-a", "rival-b"} & of(minute, lab, record).keys()


def test_a_quota_is_a_limit_and_throttling(lab: dict[str, Guest], minute: Prometheus) -> None:
    require_quota(lab)
    records = (RUN, *(f"vserver:cpu_{what}" for what in ("throttled:rate", "wait:rate", "limit:cpus")))
    ran, throttled, wait, limit = (of(minute, lab, record)["capped"] for record in records)
    assert limit == QUOTA_CPUS
    assert ran <= QUOTA_CPUS + POINTS
    assert throttled > 0
    # What it waits beside its cap is for neighbours.
    assert ran + throttled + wait == pytest.approx(1, abs=POINTS)
