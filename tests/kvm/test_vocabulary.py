"""Guests of known load in the vocabulary: kvm-exporter's counters through the project's own Prometheus and rules."""

from __future__ import annotations

import time

import pytest

from tests.kvm.conftest import QUOTA_CPUS
from tests.kvm.guests import Guest
from tests.support import Prometheus

pytestmark = pytest.mark.system

POINTS = 0.05  # of a CPU: scrapes on a busy machine are not quite where Prometheus thinks
MINUTE = 65  # after it all rates are of guests at their loads
RUN = "sum by (guest) (rate(kvm_vcpu_run_seconds_total[1m]))"


def of(prometheus: Prometheus, lab: dict[str, Guest], expr: str) -> dict[str, float]:
    """The values of a vector by the guests' short names; other guests of the machine are left out."""
    short = {guest.name: name for name, guest in lab.items()}
    found = {}
    for series in prometheus.query(expr):
        name = series["metric"].get("vserver") or series["metric"].get("guest", "")
        if name in short:
            found[short[name]] = float(series["value"][1])
    return found


def test_guests_at_their_loads_are_virtual_servers_that_run_wait_and_are_throttled(
    lab: dict[str, Guest], prometheus: Prometheus
) -> None:
    """After a minute of samples. Where the kernel can tell guest time, a part of what ran is overhead."""
    prometheus.wait_for(f"timestamp(kvm_host_cpus) > {time.time() + MINUTE}", seconds=MINUTE + 60)
    names = ("cpu_usage:rate", "overhead_cpu:rate", "cpu_wait:rate", "cpu_throttled:rate", "cpu_limit:cpus")
    used, overhead, wait, throttled, limit = (of(prometheus, lab, f"vserver:{name}") for name in names)
    ran = of(prometheus, lab, RUN)
    assert used.keys() == ran.keys() == lab.keys()
    for name in lab:
        assert used[name] <= ran[name] + POINTS, name
        assert used[name] + overhead.get(name, 0) >= ran[name] - POINTS, name
    assert overhead.keys() == of(prometheus, lab, "kvm_guest_guest_seconds_total").keys(), "unknown is absent, not 0"
    assert wait["rival-b"] >= 0.5 - POINTS
    assert ran["rival-b"] + wait["rival-b"] == pytest.approx(1, abs=POINTS)
    assert not {"rival-a", "rival-b"} & (throttled.keys() | limit.keys())
    if "capped" in lab:
        assert limit["capped"] == QUOTA_CPUS
        assert ran["capped"] <= QUOTA_CPUS + POINTS
        assert throttled["capped"] > 0
        # What it waits beside its cap is for neighbours.
        assert ran["capped"] + throttled["capped"] + wait["capped"] == pytest.approx(1, abs=POINTS)
