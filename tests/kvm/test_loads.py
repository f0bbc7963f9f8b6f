"""Guests of known load: what the exporter says is what the kernel says, and what the guests do.

Other programs may keep the machine busy meanwhile: what a guest then can't run, it waits. So its load lies between what
it ran and the sum of both; a guest that always wants to run has this sum exactly.
"""

from __future__ import annotations

import pytest

from tests.kvm.conftest import QUOTA_CPUS, NextWindow, Window, require_quota
from tests.kvm.guests import Guest
from tests.kvm.host import PERIOD_SECONDS, TICK
from tests.support.reporting import Report

pytestmark = pytest.mark.system

POINTS = 0.03  # of a CPU
WINDOWS = 4  # in one of them the machine does little else, or a guest's clock has no ticks to catch up with
ROUNDED = 1e-6  # of values in seconds
RIVALS = ("rival-a", "rival-b")
RUN, WAIT, IN_GUEST = (f"kvm_vcpu_{what}_seconds_total" for what in ("run", "wait", "guest"))


def test_guests_are_shown_by_the_names_they_were_given(lab: dict[str, Guest], window: Window) -> None:
    page = window.last.page
    for guest in lab.values():
        [info] = page.all("kvm_guest_info", pid=str(guest.pid))
        shown = (info.labels["guest"], info.labels["accelerator"], info.labels["manager"])
        assert shown == (guest.name, guest.accelerator, "qemu")
        assert page.value("kvm_guest_vcpus", guest=guest.name) == guest.vcpus
        assert page.value("kvm_guest_memory_limit_bytes", guest=guest.name) == 16 << 20


def test_cpu_time_is_the_kernels(lab: dict[str, Guest], window: Window) -> None:
    """Run and wait of each vCPU; all of a guest is its process and what serves it."""
    for scrape in (window.first, window.last):
        for name, guest in lab.items():
            before, after = scrape.before.guests[name], scrape.after.guests[name]
            for number in range(guest.vcpus):
                vcpu = {"guest": guest.name, "vcpu": str(number)}
                least, most = before.vcpu(number), after.vcpu(number)
                assert least.run - ROUNDED <= scrape.page.value(RUN, **vcpu) <= most.run + ROUNDED, vcpu
                assert least.wait - ROUNDED <= scrape.page.value(WAIT, **vcpu) <= most.wait + ROUNDED, vcpu
            shown = scrape.page.value("kvm_guest_cpu_seconds_total", guest=guest.name)
            assert before.cpu + before.serving - 1.5 * TICK <= shown <= after.cpu + after.serving + 1.5 * TICK, name


def test_guest_time_is_the_kernels_or_absent(lab: dict[str, Guest], window: Window) -> None:
    """Neither TCG nor KVM without hardware virtualisation can tell it: 0 would mean that the guest did nothing."""
    for name, guest in lab.items():
        before, after = window.last.before.guests[name].vcpu(0), window.last.after.guests[name].vcpu(0)
        shown = [sample.value for sample in window.last.page.all(IN_GUEST, guest=guest.name, vcpu="0")]
        if after.guest > 0.1 * after.run:
            assert [before.guest <= value <= after.guest for value in shown] == [True], name
        elif name in RIVALS:
            assert shown == [], f"{name} ran {after.run} s, in the guest {after.guest} s"


def off_their_loads(lab: dict[str, Guest], window: Window, report: Report) -> list[str]:
    """The guests whose load doesn't lie between what they ran and what they also waited."""
    shortest, longest = window.seconds
    off = []
    for name, guest in lab.items():
        if guest.load.due is None or name == "capped":
            continue
        run, wait = (window.grown(metric, guest=guest.name, vcpu="0") for metric in (RUN, WAIT))
        report(f"{name}: due {guest.load.due:.0%}, run {run / longest:.1%}, wait {wait / longest:.1%}")
        too_much = run + wait > (1 + POINTS) * longest and guest.load.due == 1
        if too_much or run > (guest.load.due + POINTS) * longest or run + wait < (guest.load.due - POINTS) * shortest:
            off.append(name)
        # The guest has never started it.
        assert window.grown(RUN, guest=guest.name, vcpu="1") <= POINTS * longest, name
    return off


def test_the_load_lies_between_what_ran_and_what_also_waited(
    lab: dict[str, Guest], window: Window, next_window: NextWindow, report: Report
) -> None:
    for _ in range(WINDOWS - 1):
        if not off_their_loads(lab, window, report):
            return
        window = next_window(window)
    assert off_their_loads(lab, window, report) == []


def test_rivals_on_one_cpu_share_it_and_wait_for_each_other(
    lab: dict[str, Guest], window: Window, next_window: NextWindow
) -> None:
    def unfair(window: Window) -> bool:
        shortest, longest = window.seconds
        ran = [window.grown(RUN, guest=lab[name].name, vcpu="0") for name in RIVALS]
        waited = [window.grown(WAIT, guest=lab[name].name, vcpu="0") for name in RIVALS]
        apart = abs(ran[0] - ran[1]) > POINTS * longest
        return apart or max(ran) > (0.5 + POINTS) * longest or min(waited) < (0.5 - POINTS) * shortest

    for _ in range(WINDOWS - 1):
        if not unfair(window):
            return
        window = next_window(window)
    assert not unfair(window)


def test_a_quota_shows_as_throttling(lab: dict[str, Guest], window: Window, report: Report) -> None:
    require_quota(lab)
    shortest, longest = window.seconds
    page, capped = window.last.page, lab["capped"].name
    assert page.value("kvm_guest_cpu_limit_cpus", guest=capped) == QUOTA_CPUS
    for name in RIVALS:
        assert page.all("kvm_guest_cpu_limit_cpus", guest=lab[name].name) == []
        assert page.all("kvm_guest_throttled_seconds_total", guest=lab[name].name) == []
    for scrape in (window.first, window.last):
        metrics = ("periods", "throttled_periods", "throttled_seconds")
        for metric, low, high in zip(metrics, scrape.before.throttled or (), scrape.after.throttled or (), strict=True):
            shown = scrape.page.value(f"kvm_guest_{metric}_total", guest=capped, part="all")
            assert low - ROUNDED <= shown <= high + ROUNDED, metric
    run, wait = (window.grown(metric, guest=capped, vcpu="0") for metric in (RUN, WAIT))
    throttled = window.grown("kvm_guest_throttled_seconds_total", guest=capped, part="all")
    by_others = window.last.after.busy - window.first.before.busy - run
    report(f"capped: run {run:.2f} s, wait {wait:.2f} s, throttled {throttled:.2f} s; others ran {by_others:.2f} s")
    assert run <= QUOTA_CPUS * (longest + PERIOD_SECONDS) + POINTS
    assert run + wait >= (1 - POINTS) * shortest
    # No neighbour: what it waits beside its cap is no more than what others ran there.
    assert throttled >= wait - by_others - POINTS * longest
    assert throttled <= wait + POINTS * longest
