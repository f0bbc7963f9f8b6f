"""The essential path on a real Xen: from the hypervisor through exporter and Prometheus to the vocabulary."""

import contextlib
import itertools
import re
import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pytest

from tests.support import Prometheus
from tests.support.reporting import Report
from tests.xen.exporters import Page
from tests.xen.host import GUESTS, XenHost, wait_for_scrape

Counters: TypeAlias = dict[tuple[str, str, str], float]
"""By metric name, domain id and device (vif number, or number of the block device)."""

READINGS = 15  # even with all guests paused, Dom0 itself may send them a packet during a reading
COUNTED = ("bytes", "packets", "errors", "drops")
SECTOR_BYTES = 512
CPU = '{__name__=~"xen_(domain|host)_cpu_seconds_total"}'
HOST = "host"  # in place of a domain id

ALLOWED_SHARE = 0.01
XL_TICK = 0.1  # xl list prints tenths of a second
WHOLE_SECOND = 1.0
XL_LIST_ROW = re.compile(r"(?P<name>.*\S) +(?P<domid>\d+) +\d+ +\d+\t? +\S{6} +(?P<seconds>\d+\.\d)")


def test_counters_match_dom0(xen: XenHost, prometheus: Prometheus) -> None:
    with xen.paused():
        for _ in range(READINGS):
            before = from_kernel(xen)
            wait_for_scrape(prometheus)
            scraped = from_prometheus(prometheus)
            if from_kernel(xen) == before:
                break
        else:
            pytest.fail(f"the counters did not stand still in any of {READINGS} readings")
    assert scraped == before
    moved = {name for (name, _, _), value in scraped.items() if value > 0}
    assert moved >= {
        *(f"xen_domain_network_{way}_{what}_total" for way in ("receive", "transmit") for what in ("bytes", "packets")),
        *(f"xen_domain_block_{way}_{what}_total" for way in ("read", "write") for what in ("bytes", "requests")),
    }


def from_prometheus(prometheus: Prometheus) -> Counters:
    counters: Counters = {}
    for series in prometheus.query('{__name__=~"xen_domain_(network|block)_.+_total"}'):
        labels = series["metric"]
        device = labels["vif"] if "vif" in labels else {"xvda": "51712"}[labels["vbd"]]
        counters[labels["__name__"], labels["domid"], device] = float(series["value"][1])
    return counters


def from_kernel(xen: XenHost) -> Counters:
    """/proc/net/dev, and the block back end's statistics in sysfs."""
    counters: Counters = {}
    for domid, vif, row in re.findall(r"vif(\d+)\.(\d+): (.*)", xen.dom0("cat /proc/net/dev")):
        numbers = row.split()
        # Dom0's interface received the guest's sent bytes.
        for way, values in (("transmit", numbers[:4]), ("receive", numbers[8:12])):
            for what, value in zip(COUNTED, values, strict=True):
                counters[f"xen_domain_network_{way}_{what}_total", domid, vif] = float(value)
    statistics = xen.dom0("cd /sys/bus/xen-backend/devices && grep . vbd-*/statistics/*")
    found = dict(line.split(":") for line in statistics.split())
    for domid, vbd in {tuple(re.findall(r"\d+", path)) for path in found}:
        for file, name, unit in (
            *(("oo_req", "out_of_requests", 1), ("rd_req", "read_requests", 1), ("wr_req", "write_requests", 1)),
            *(("rd_sect", "read_bytes", SECTOR_BYTES), ("wr_sect", "write_bytes", SECTOR_BYTES)),
        ):
            value = float(found[f"vbd-{domid}-{vbd}/statistics/{file}"]) * unit
            counters[f"xen_domain_block_{name}_total", domid, vbd] = value
    return counters


def test_guests_have_their_names_and_over_a_minute_the_cpu_seconds_of_xl_list(
    xen: XenHost, prometheus: Prometheus, report: Report
) -> None:
    """Guests are paused while both ends are read, so that only the digits missing in xl's output may differ.

    Dom0 can't be paused: it runs xl, which takes a second. Its value is interpolated to the middle of that second.
    The rates are read after that minute, since guests that just came up aren't yet as busy as they were set to be.
    """
    domains = prometheus.query('xen_domain_vcpus{domid!="0"}')
    vcpus = {series["metric"]["domain"]: float(series["value"][1]) for series in domains}
    assert vcpus == {guest.name: guest.vcpus for guest in GUESTS}
    with xen.paused():
        by_xl, by_prometheus = read_cpu_seconds(xen, prometheus)
    time.sleep(60)
    with xen.paused():
        later_by_xl, later_by_prometheus = read_cpu_seconds(xen, prometheus)
        records = prometheus.query("vserver:cpu_usage:rate")
    assert by_xl.keys() == by_prometheus.keys()
    assert len(by_xl) == 2 + len(GUESTS)
    for domid, before in by_xl.items():
        expected = later_by_xl[domid] - before
        measured = later_by_prometheus[domid] - by_prometheus[domid]
        tick = WHOLE_SECOND if domid in {"0", HOST} else XL_TICK
        report(f"CPU seconds over a minute, domain {domid}: {expected:.1f} by xl list, {measured:.3f} by Prometheus")
        assert measured == pytest.approx(expected, abs=ALLOWED_SHARE * expected + tick), f"domain {domid}"
        assert expected > 1, f"domain {domid} did nothing: there is nothing to compare"
    used = {series["metric"]["vserver"]: float(series["value"][1]) for series in records}
    assert set(used) == {"Domain-0", *vcpus}
    busiest = max(GUESTS, key=lambda guest: guest.duty * guest.vcpus)
    assert max(vcpus, key=used.__getitem__) == busiest.name, used


def read_cpu_seconds(xen: XenHost, prometheus: Prometheus) -> tuple[dict[str, float], dict[str, float]]:
    """By domain id, from `xl list` and from the two scrapes around it; and of the whole host, the sum in `xl list`."""
    wait_for_scrape(prometheus)
    begun = time.time()
    listing = xen.dom0("xl list")
    moment = (begun + time.time()) / 2
    wait_for_scrape(prometheus)
    rows = [XL_LIST_ROW.fullmatch(line) for line in listing.splitlines()[1:]]
    scraped = prometheus.query(f"{CPU}[1m]")
    by_xl = {row["domid"]: float(row["seconds"]) for row in rows if row}
    return (
        {**by_xl, HOST: sum(by_xl.values())},
        {series["metric"].get("domid", HOST): interpolate(series["values"], moment) for series in scraped},
    )


def interpolate(values: Sequence[tuple[float, str]], moment: float) -> float:
    """The value at a moment between two samples, each a time and a number as in the API."""
    for (before, low), (after, high) in itertools.pairwise(values):
        if before <= moment <= after:
            return float(low) + (float(high) - float(low)) * (moment - before) / (after - before)
    raise AssertionError(f"no samples around {moment}: {values}")


@contextlib.contextmanager
def without_a_bridge(xen: XenHost) -> Iterator[None]:
    """Remove Dom0's bridge, as with Open vSwitch, and rename one vif."""
    vifs = xen.dom0("cd /sys/class/net && echo vif*").split()
    xen.dom0(f"ip link del xenbr0; ip link set {vifs[0]} down && ip link set {vifs[0]} name lan.web01")
    try:
        yield
    finally:
        xen.dom0(
            f"ip link set lan.web01 name {vifs[0]}; "
            "ip link add xenbr0 type bridge; ip addr add 10.9.0.1/24 dev xenbr0; "
            + "".join(f"ip link set {vif} master xenbr0 up; " for vif in vifs)
            + "ip link set xenbr0 up"
        )


def test_without_a_bridge_every_interface_is_still_shown_and_absent_waiting_is_explained(xen: XenHost) -> None:
    """libxenstat loses interfaces without a bridge; stock Xen doesn't report guests' wait for a CPU."""

    def interfaces() -> set[tuple[str, str]]:
        received = Page.of(xen.exporter).all("xen_domain_network_receive_bytes_total")
        return {(sample.labels["domid"], sample.labels["vif"]) for sample in received}

    bridged = interfaces()
    assert {domid for domid, _ in bridged} == set(xen.domids())
    with without_a_bridge(xen):
        unbridged = interfaces()
        lost = xen.dom0("xentop -b -f -n -i 1")
    assert unbridged == bridged
    assert "Net0 RX" not in lost, "libxenstat no longer needs a bridge: say so in the docs"

    info = Page.of(xen.exporter).all("xentop_source_info")
    details = {sample.labels["source"]: sample.labels["detail"] for sample in info}
    assert details["libxenstat"] == "libxenstat.so.4.17, networks from /proc/net/dev"
    assert details["runstate"].startswith("absent: libxenctrl.so.4.17 has no xc_get_runstate_info")
