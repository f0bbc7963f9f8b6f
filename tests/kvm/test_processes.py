"""Processes of guests that end, start again and hang, and their threads that come and go."""

from __future__ import annotations

import itertools

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.kvm import host
from tests.kvm.guests import Guest
from tests.support.pages import Page, Series
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system

CPU = "kvm_guest_cpu_seconds_total"
DUMPS = 20
OF_ENDED_THREADS = 0.05  # s of CPU, at the least: each takes some 0.01


def counters(page: Page, name: str) -> Series:
    """All of the guest's counters."""
    series = page.series().items()
    return {key: value for key, value in series if key[0].endswith("_total") and ("guest", name) in key[1]}


def test_counters_keep_what_ended_threads_used(lab: dict[str, Guest], exporter: RunningExporter) -> None:
    """QEMU dumps a guest's memory by a thread that ends with it. The guest is stopped, and so adds nothing."""
    guest = lab["disk"]
    pages = [Page.of(exporter.address)]
    guest.ask("stop")
    try:
        begun = host.process(guest.pid).cpu
        for _ in range(DUMPS):
            dump = {"paging": False, "protocol": "file:/dev/null", "format": "kdump-zlib", "detach": True}
            guest.ask("dump-guest-memory", **dump)
            wait_for(lambda: guest.ask("query-dump")["status"] != "active", every=0.01)
            pages.append(Page.of(exporter.address))
        used = host.process(guest.pid).cpu - begun
    finally:
        guest.ask("cont")
    for before, after in itertools.pairwise(counters(page, guest.name) for page in pages):
        assert before
        assert {key: value for key, value in before.items() if after.get(key, -1) < value} == {}, after
    assert used > OF_ENDED_THREADS
    counted = pages[-1].value(CPU, guest=guest.name) - pages[0].value(CPU, guest=guest.name)
    assert counted > used - 3 * host.TICK


def test_a_guest_that_hangs_leaves_the_others_counters_growing(
    lab: dict[str, Guest], exporter: RunningExporter
) -> None:
    hanging, others = lab["rival-a"], [guest for name, guest in lab.items() if name != "rival-a"]
    with hanging.hung():
        wait_for(lambda: host.state(hanging.pid) == "T")
        before = Page.of(exporter.address)
        for guest in others:
            least = before.value(CPU, guest=guest.name)
            wait_for(lambda: Page.of(exporter.address).value(CPU, guest=guest.name) > least, 60)  # noqa: B023
        own = host.process(hanging.pid).vcpu(0)
        for page in (before, Page.of(exporter.address)):
            run = page.value("kvm_vcpu_run_seconds_total", guest=hanging.name, vcpu="0")
            assert run == pytest.approx(own.run, abs=1e-6)
