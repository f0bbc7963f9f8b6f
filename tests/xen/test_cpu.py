"""CPU time, all the way from the hypervisor to the vocabulary."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.support import Prometheus
from tests.xen.host import GUESTS, XenHost, wait_for_scrape

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots

ALLOWED_SHARE = 0.01
XL_TICK = 0.1  # xl list prints tenths of a second
WHOLE_SECOND = 1.0

XL_LIST_ROW = re.compile(r"(?P<name>.*\S) +(?P<domid>\d+) +\d+ +\d+\t? +\S{6} +(?P<seconds>\d+\.\d)")


@dataclass(frozen=True)
class CpuSeconds:
    """CPU seconds by domain id at one moment, from both sides."""

    xl: dict[str, float]
    prometheus: dict[str, float]


@pytest.mark.long
def test_cpu_seconds_over_a_minute_are_those_of_xl_list(
    xen: XenHost, prometheus: Prometheus, report: Callable[[str], None]
) -> None:
    """Both values must be from the same moment, but `xl list` takes a second in the emulated Dom0.

    So the guests are paused while both ends of the minute are read: their values don't change, whenever either side
    reads them, and only the digits that xl leaves out may differ. Dom0 can't be paused: it runs xl. Prometheus's value
    for it is interpolated to the middle of xl's run, and may be off by a whole second, as xl takes about one.
    """
    with xen.paused():
        first = read_cpu_seconds(xen, prometheus)
    time.sleep(60)
    with xen.paused():
        second = read_cpu_seconds(xen, prometheus)
    assert len(first.xl) == 1 + len(GUESTS)
    for domid in first.xl:
        expected = second.xl[domid] - first.xl[domid]
        measured = second.prometheus[domid] - first.prometheus[domid]
        tick = WHOLE_SECOND if domid == "0" else XL_TICK
        report(f"CPU seconds over a minute, domain {domid}: {expected:.1f} by xl list, {measured:.3f} by Prometheus")
        assert measured == pytest.approx(expected, abs=ALLOWED_SHARE * expected + tick), f"domain {domid}"
        assert expected > 1, f"domain {domid} did nothing: there is nothing to compare"


def read_cpu_seconds(xen: XenHost, prometheus: Prometheus) -> CpuSeconds:
    """Reads `xl list` between two scrapes."""
    wait_for_scrape(prometheus)
    begun = time.time()
    listing = xen.dom0("xl list")
    moment = (begun + time.time()) / 2
    wait_for_scrape(prometheus)
    rows = [XL_LIST_ROW.fullmatch(line) for line in listing.splitlines()[1:]]
    scraped = prometheus.query("xen_domain_cpu_seconds_total[1m]")
    return CpuSeconds(
        {row["domid"]: float(row["seconds"]) for row in rows if row},
        {series["metric"]["domid"]: interpolate(series["values"], moment) for series in scraped},
    )


def interpolate(values: Sequence[tuple[float, str]], moment: float) -> float:
    """The value at a moment between two samples, each a time and a number as the API writes it."""
    for (before, low), (after, high) in itertools.pairwise(values):
        if before <= moment <= after:
            return float(low) + (float(high) - float(low)) * (moment - before) / (after - before)
    raise AssertionError(f"no samples around {moment}: {values}")


def test_the_busiest_guest_is_the_busiest_in_the_vocabulary(prometheus: Prometheus) -> None:
    used = {
        series["metric"]["vserver"]: float(series["value"][1]) for series in prometheus.query("vserver:cpu_usage:rate")
    }
    assert set(used) == {"Domain-0", *(guest.name for guest in GUESTS)}
    busiest = max(GUESTS, key=lambda guest: guest.duty * guest.vcpus)
    assert max((guest.name for guest in GUESTS), key=used.__getitem__) == busiest.name
