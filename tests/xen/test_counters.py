"""Network and block counters match Dom0's kernel and xentop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import pytest

from tests.support import Prometheus
from tests.xen.host import XenHost, wait_for_scrape

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots

Counters: TypeAlias = dict[tuple[str, str, str], float]
"""By metric name, domain id and device (vif number, or number of the block device)."""

READINGS = 15  # even with all guests paused, Dom0 itself may send them a packet while we look
COUNTED = ("bytes", "packets", "errors", "drops")
SECTOR_BYTES = 512
XVDA = "51712"

XENTOP_DOMAIN = re.compile(r" *(?P<name>.+) [d-][s-][b-][c-][p-][r-] +\d.*")
XENTOP_WAY = r"X: *(\d+)bytes *(\d+)pkts *(\d+)err *(\d+)drop *"
XENTOP_NET = re.compile(rf"Net(?P<vif>\d+) R{XENTOP_WAY}T{XENTOP_WAY}")
XENTOP_VBD = re.compile(r"VBD \S+ (?P<vbd>\d+) .*OO: *(\d+) +RD: *(\d+) +WR: *(\d+) +RSECT: *(\d+) +WSECT: *(\d+).*")


def test_counters_match_dom0_and_xentop(xen: XenHost, prometheus: Prometheus) -> None:
    with xen.paused():
        for _ in range(READINGS):
            before = from_kernel(xen)
            wait_for_scrape(prometheus)
            scraped, shown = from_prometheus(prometheus), from_xentop(xen)
            if from_kernel(xen) == before:
                break
        else:
            pytest.fail(f"the counters did not stand still in any of {READINGS} readings")
    assert scraped == before
    assert scraped == shown
    moved = {name for (name, _, _), value in scraped.items() if value > 0}
    assert moved >= {
        *(f"xen_domain_network_{way}_{what}_total" for way in ("receive", "transmit") for what in ("bytes", "packets")),
        *(f"xen_domain_block_{way}_{what}_total" for way in ("read", "write") for what in ("bytes", "requests")),
    }


def from_prometheus(prometheus: Prometheus) -> Counters:
    counters: Counters = {}
    for series in prometheus.query('{__name__=~"xen_domain_(network|block)_.+_total"}'):
        labels = series["metric"]
        device = labels["vif"] if "vif" in labels else {"xvda": XVDA}[labels["vbd"]]
        counters[labels["__name__"], labels["domid"], device] = float(series["value"][1])
    return counters


def from_kernel(xen: XenHost) -> Counters:
    """/proc/net/dev, and the block back end's statistics in sysfs."""
    counters: Counters = {}
    for domid, vif, row in re.findall(r"vif(\d+)\.(\d+): (.*)", xen.dom0("cat /proc/net/dev")):
        numbers = row.split()
        counters |= network(domid, vif, received_by_dom0=numbers[:4], sent_by_dom0=numbers[8:12])
    statistics = xen.dom0("cd /sys/bus/xen-backend/devices && grep . vbd-*/statistics/*")
    found = dict(line.split(":") for line in statistics.split())
    for domid, vbd in {tuple(re.findall(r"\d+", path)) for path in found}:
        folder = f"vbd-{domid}-{vbd}/statistics"
        names = ("oo_req", "rd_req", "wr_req", "rd_sect", "wr_sect")
        counters |= block(domid, vbd, [found[f"{folder}/{name}"] for name in names])
    return counters


def from_xentop(xen: XenHost) -> Counters:
    counters: Counters = {}
    domids = {xen.dom0(f"xl domname {domid}").strip(): domid for domid in xen.domids()}
    domid = "0"
    for line in xen.dom0("xentop -b -f -n -x -i 1").splitlines():
        if row := XENTOP_DOMAIN.fullmatch(line):
            domid = domids.get(row["name"], "0")
        elif row := XENTOP_NET.fullmatch(line):
            numbers = row.groups()[1:]
            counters |= network(domid, row["vif"], received_by_dom0=numbers[:4], sent_by_dom0=numbers[4:])
        elif row := XENTOP_VBD.fullmatch(line):
            counters |= block(domid, row["vbd"], row.groups()[1:])
    return counters


def network(domid: str, vif: str, received_by_dom0: Sequence[str], sent_by_dom0: Sequence[str]) -> Counters:
    """What Dom0's end of the interface received is what the guest sent."""
    return {
        (f"xen_domain_network_{direction}_{what}_total", domid, vif): float(value)
        for direction, values in (("transmit", received_by_dom0), ("receive", sent_by_dom0))
        for what, value in zip(COUNTED, values, strict=True)
    }


def block(domid: str, vbd: str, numbers: Sequence[str]) -> Counters:
    """Counters in xentop's order: OO, RD, WR, RSECT, WSECT."""
    out_of_requests, reads, writes, sectors_read, sectors_written = map(float, numbers)
    values = {
        "out_of_requests": out_of_requests,
        "read_requests": reads,
        "write_requests": writes,
        "read_bytes": sectors_read * SECTOR_BYTES,
        "write_bytes": sectors_written * SECTOR_BYTES,
    }
    return {(f"xen_domain_block_{name}_total", domid, vbd): value for name, value in values.items()}
