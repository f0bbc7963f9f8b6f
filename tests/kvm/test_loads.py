"""Guests of known load: what the exporter says is what the kernel says, and what the guests do.

Other programs may keep the machine busy meanwhile: what a guest then can't run, it waits. So its load lies between what
it ran and the sum of both; a guest that always wants to run has this sum exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kvm.conftest import QUOTA_CPUS, TAP, Window
from tests.kvm.guests import Guest
from tests.kvm.host import PERIOD_SECONDS, TICK

POINTS = 0.03  # of a CPU
ROUNDED = 1e-6  # of values in seconds
FRAME_BYTES = 1000
RIVALS = ("rival-a", "rival-b")
RUN, WAIT, IN_GUEST = (f"kvm_vcpu_{what}_seconds_total" for what in ("run", "wait", "guest"))


def test_guests_are_shown_by_the_names_they_were_given(lab: dict[str, Guest], window: Window) -> None:
    page = window.last.page
    for guest in lab.values():
        info = page.all("kvm_guest_info", pid=str(guest.pid))
        assert [sample.labels["guest"] for sample in info] == [guest.name]
        assert info[0].labels["accelerator"] == guest.accelerator
        assert info[0].labels["manager"] == "qemu"
        assert page.value("kvm_guest_vcpus", guest=guest.name) == guest.vcpus
        assert page.value("kvm_guest_memory_limit_bytes", guest=guest.name) == 16 << 20


def test_run_and_wait_are_the_kernels(lab: dict[str, Guest], window: Window) -> None:
    for scrape in (window.first, window.last):
        for name, guest in lab.items():
            before, after = scrape.before.guests[name], scrape.after.guests[name]
            for number in range(guest.vcpus):
                vcpu = {"guest": guest.name, "vcpu": str(number)}
                least, most = before.vcpu(number), after.vcpu(number)
                assert least.run - ROUNDED <= scrape.page.value(RUN, **vcpu) <= most.run + ROUNDED, vcpu
                assert least.wait - ROUNDED <= scrape.page.value(WAIT, **vcpu) <= most.wait + ROUNDED, vcpu


def test_all_cpu_of_a_guest_is_its_process_and_what_serves_it(lab: dict[str, Guest], window: Window) -> None:
    for scrape in (window.first, window.last):
        for name, guest in lab.items():
            before, after = scrape.before.guests[name], scrape.after.guests[name]
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


def test_the_load_lies_between_what_ran_and_what_also_waited(
    lab: dict[str, Guest], window: Window, report: Callable[[str], None]
) -> None:
    shortest, longest = window.seconds
    for name, guest in lab.items():
        if guest.load.due is None or name == "capped":
            continue
        run, wait = (window.grown(metric, guest=guest.name, vcpu="0") for metric in (RUN, WAIT))
        report(f"{name}: due {guest.load.due:.0%}, run {run / longest:.1%}, wait {wait / longest:.1%}")
        assert run <= (guest.load.due + POINTS) * longest, name
        assert run + wait >= (guest.load.due - POINTS) * shortest, name
        if guest.load.due == 1:
            assert run + wait <= (1 + POINTS) * longest, name
        # The guest has never started it.
        assert window.grown(RUN, guest=guest.name, vcpu="1") <= POINTS * longest, name


def test_rivals_on_one_cpu_share_it_and_wait_for_each_other(lab: dict[str, Guest], window: Window) -> None:
    shortest, longest = window.seconds
    ran = [window.grown(RUN, guest=lab[name].name, vcpu="0") for name in RIVALS]
    waited = [window.grown(WAIT, guest=lab[name].name, vcpu="0") for name in RIVALS]
    assert max(ran) <= (0.5 + POINTS) * longest
    assert min(waited) >= (0.5 - POINTS) * shortest
    assert ran[0] == pytest.approx(ran[1], abs=POINTS * longest)


def test_a_quota_shows_as_throttling(lab: dict[str, Guest], window: Window, report: Callable[[str], None]) -> None:
    if "capped" not in lab:
        pytest.skip("no cgroup with a quota can be made here: needs root and the CPU controller of cgroups")
    shortest, longest = window.seconds
    page, capped = window.last.page, lab["capped"].name
    assert page.value("kvm_guest_cpu_limit_cpus", guest=capped) == QUOTA_CPUS
    for name in RIVALS:
        assert page.all("kvm_guest_cpu_limit_cpus", guest=lab[name].name) == []
        assert page.all("kvm_guest_throttled_seconds_total", guest=lab[name].name) == []
    for scrape in (window.first, window.last):
        least, most = scrape.before.throttled, scrape.after.throttled
        assert least is not None
        assert most is not None
        for metric, low, high in (
            ("throttled_seconds", least.throttled, most.throttled),
            ("periods", least.periods, most.periods),
            ("throttled_periods", least.throttled_periods, most.throttled_periods),
        ):
            shown = scrape.page.value(f"kvm_guest_{metric}_total", guest=capped, part="all")
            assert low - ROUNDED <= shown <= high + ROUNDED, metric
    run, wait = (window.grown(metric, guest=capped, vcpu="0") for metric in (RUN, WAIT))
    throttled = window.grown("kvm_guest_throttled_seconds_total", guest=capped, part="all")
    by_others = window.last.after.busy - window.first.before.busy - run
    report(
        f"capped: run {run:.2f} s, wait {wait:.2f} s, of it throttled {throttled:.2f} s; others ran {by_others:.2f} s"
    )
    assert run <= QUOTA_CPUS * (longest + PERIOD_SECONDS) + POINTS
    assert run + wait >= (1 - POINTS) * shortest
    # No neighbour: what it waits beside its cap is no more than what others ran there.
    assert throttled >= wait - by_others - POINTS * longest
    assert throttled <= wait + POINTS * longest


def test_the_network_is_seen_from_the_guests_side(lab: dict[str, Guest], window: Window) -> None:
    if "net" not in lab:
        pytest.skip("no tap can be made here: needs root and /dev/net/tun")
    tap = {"guest": lab["net"].name, "device": TAP}
    # A tap receives what the guest sends.
    ways = {"transmit": "rx", "receive": "tx"}
    for scrape in (window.first, window.last):
        for way, of_tap in ways.items():
            for what in ("bytes", "packets"):
                shown = scrape.page.value(f"kvm_guest_network_{way}_{what}_total", **tap)
                name = f"{of_tap}_{what}"
                assert scrape.before.interface[name] <= shown <= scrape.after.interface[name], (way, what)
    sent = window.grown("kvm_guest_network_transmit_packets_total", **tap)
    assert 0 < sent <= 110 * window.seconds[1]
    assert window.grown("kvm_guest_network_transmit_bytes_total", **tap) == sent * FRAME_BYTES
