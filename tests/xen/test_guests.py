"""Guests come and go, are paused, and have whatever names their owners like."""

from __future__ import annotations

import pytest

from tests.support import Prometheus
from tests.xen.host import GUESTS, Guest, XenHost, wait_for_scrape

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots


def test_every_guest_goes_by_its_own_name(prometheus: Prometheus) -> None:
    domains = prometheus.query('xen_domain_vcpus{domid!="0"}')
    vcpus = {series["metric"]["domain"]: float(series["value"][1]) for series in domains}
    assert vcpus == {guest.name: guest.vcpus for guest in GUESTS}


def test_a_new_guest_appears_and_a_destroyed_one_disappears_by_the_next_scrape(
    xen: XenHost, prometheus: Prometheus
) -> None:
    long_name = "größer als 10 Zeichen, " * 9
    domid = xen.create(Guest(9, long_name[:200]))
    series = f'xen_domain_cpu_seconds_total{{domid="{domid}"}}'
    try:
        wait_for_scrape(prometheus)
        [appeared] = prometheus.query(series)
        assert appeared["metric"]["domain"] == long_name[:200]
    finally:
        xen.dom0(f"xl destroy {domid}")
    wait_for_scrape(prometheus)
    assert prometheus.query(series) == []


def test_a_paused_guest_shows_as_paused_until_it_runs_again(xen: XenHost, prometheus: Prometheus) -> None:
    [domid, *_] = xen.domids()
    paused = f'xen_domain_state{{domid="{domid}", state="paused"}}'
    with xen.paused(domid):
        wait_for_scrape(prometheus)
        assert prometheus.value(paused) == 1
    wait_for_scrape(prometheus)
    assert prometheus.value(paused) == 0


def test_two_guests_of_the_same_name_stay_separate(xen: XenHost, prometheus: Prometheus) -> None:
    """xl refuses a name in use, other toolstacks don't: the name is only an entry in xenstore."""
    [first, second, *_] = GUESTS
    [first_domid, second_domid, *_] = xen.domids()
    entry = f"/local/domain/{second_domid}/name"
    xen.dom0(f"xenstore-write {entry} {first.name}")
    try:
        prometheus.wait_for(f'vserver:cpu_usage:rate{{vserver="{first.name}/{second_domid}"}}', seconds=60)
        both = prometheus.query(f'xen_domain_cpu_seconds_total{{domain="{first.name}"}}')
        assert {series["metric"]["domid"] for series in both} == {first_domid, second_domid}
    finally:
        xen.dom0(f"xenstore-write {entry} {second.name}")
    prometheus.wait_for(f'vserver:cpu_usage:rate{{vserver="{second.name}"}}', seconds=60)
