"""Processes of guests that end, start again and hang, and their threads that come and go."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.kvm import host
from tests.kvm.guests import BURN, Guest, unique
from tests.support.pages import Page

CPU = "kvm_guest_cpu_seconds_total"
DUMPS = 20
OF_ENDED_THREADS = 0.05  # s of CPU, at the least: each takes some 0.01


def counters(page: Page, name: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All counters of one guest."""
    return {
        key: value
        for key, value in page.series().items()
        if key[0].startswith("kvm_") and key[0].endswith("_total") and ("guest", name) in key[1]
    }


def assert_nothing_fell(before: Page, after: Page, name: str) -> None:
    earlier, later = counters(before, name), counters(after, name)
    assert earlier, "the guest has no counters"
    assert [f"{key}: {value}, {later.get(key)}" for key, value in earlier.items() if later.get(key, -1) < value] == []


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
            while guest.ask("query-dump")["status"] == "active":
                time.sleep(0.01)
            pages.append(Page.of(exporter.address))
        used = host.process(guest.pid).cpu - begun
    finally:
        guest.ask("cont")
    for before, after in itertools.pairwise(pages):
        assert_nothing_fell(before, after, guest.name)
    assert used > OF_ENDED_THREADS
    shown = pages[-1].value(CPU, guest=guest.name) - pages[0].value(CPU, guest=guest.name)
    assert shown > used - 3 * host.TICK


def test_counters_keep_what_ended_workers_used(lab: dict[str, Guest], exporter: RunningExporter) -> None:
    """QEMU's workers end when they had nothing to read for ten seconds, and start again with the next request."""
    guest = lab["disk"]
    before = Page.of(exporter.address)
    assert "worker" in names(guest)
    guest.ask("stop")
    try:
        deadline = time.monotonic() + 60
        while "worker" in names(guest):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        without = Page.of(exporter.address)
    finally:
        guest.ask("cont")
    assert_nothing_fell(before, without, guest.name)
    while "worker" not in names(guest):
        assert time.monotonic() < deadline + 60
        time.sleep(0.1)
    assert_nothing_fell(without, Page.of(exporter.address), guest.name)


def names(guest: Guest) -> set[str]:
    return {thread.name for thread in host.process(guest.pid).threads.values()}


def test_a_guest_that_starts_again_is_another(lab: dict[str, Guest], exporter: RunningExporter, tmp_path: Path) -> None:
    accelerator = lab["disk"].accelerator
    name = unique("again")
    with Guest(name, BURN, tmp_path / "first", accelerator) as first:
        time.sleep(1)
        then = Page.of(exporter.address)
        assert [sample.labels["pid"] for sample in then.all(CPU, guest=name)] == [str(first.pid)]
    assert Page.of(exporter.address).all(CPU, guest=name) == []
    with Guest(name, BURN, tmp_path / "second", accelerator) as second:
        now = Page.of(exporter.address)
        assert [sample.labels["pid"] for sample in now.all(CPU, guest=name)] == [str(second.pid)]
        started = "kvm_guest_start_time_seconds"
        assert now.value(started, guest=name) > then.value(started, guest=name)


def test_guests_of_one_name_are_kept_apart(lab: dict[str, Guest], exporter: RunningExporter, tmp_path: Path) -> None:
    first = lab["disk"]
    with Guest(first.name, BURN, tmp_path, first.accelerator) as other:
        page = Page.of(exporter.address)
        both = {str(first.pid), str(other.pid)}
        shown = [sample.labels for sample in page.all(CPU) if sample.labels["pid"] in both]
        assert {labels["pid"] for labels in shown} == both
        assert len({labels["guest"] for labels in shown}) == 2, "sums by name would mix them"
    alone = Page.of(exporter.address).all(CPU, guest=first.name)
    assert [sample.labels["pid"] for sample in alone] == [str(first.pid)]


def test_a_guest_that_hangs_leaves_the_others_counters_growing(
    lab: dict[str, Guest], exporter: RunningExporter
) -> None:
    hanging, others = lab["rival-a"], [guest for name, guest in lab.items() if name != "rival-a"]
    with hanging.hung():
        time.sleep(0.5)
        before = Page.of(exporter.address)
        time.sleep(2)
        after = Page.of(exporter.address)
        own = host.process(hanging.pid).vcpu(0)
    for guest in others:
        assert after.value(CPU, guest=guest.name) > before.value(CPU, guest=guest.name), guest.name
    for page in (before, after):
        shown = page.value("kvm_vcpu_run_seconds_total", guest=hanging.name, vcpu="0")
        assert shown == pytest.approx(own.run, abs=1e-6)
