"""Guests of known load on this machine: the exporter's values equal the kernel's."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.cgroups import CgroupError
from tests.e2e.running_exporter import RunningExporter
from tests.kvm import guests, host
from tests.kvm.guests import BURN, DISK, Guest
from tests.kvm.host import TICK
from tests.support.needs import missing
from tests.support.pages import Page
from virtscope.kvm.guests import COUNTERS

pytestmark = pytest.mark.system

QUOTA_CPUS = 0.2
ROUNDED = 1e-6  # rounding of values in seconds
RUN, WAIT, IN_GUEST = (f"kvm_vcpu_{what}_seconds_total" for what in ("run", "wait", "guest"))


class Truth(NamedTuple):
    """The kernel's values of the guests at one moment."""

    guests: dict[str, host.Process]
    throttled: host.Throttling | None  # of the cgroup with the quota, if any


class Scrape(NamedTuple):
    """The exporter's page between two kernel readings: its counters must lie between theirs."""

    before: Truth
    page: Page
    after: Truth


@pytest.fixture(scope="module")
def cgroup() -> Iterator[Path | None]:
    """A cgroup with a quota; None if cgroups can't be written."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(host.quota(QUOTA_CPUS))
        except CgroupError:
            yield None


@pytest.fixture(scope="module")
def lab(cgroup: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Guest]]:
    """Two guests that share a CPU, one that reads its disk, and one with a quota where possible."""
    if reason := guests.why_not_here():
        missing(reason)
    cpus = sorted(os.sched_getaffinity(0))
    rival: dict[str, object] = {"load": BURN, "cpu": cpus[-1]}
    wanted: dict[str, dict[str, object]] = {"rival-a": rival, "rival-b": rival, "disk": {"load": DISK}}
    if cgroup is not None:
        wanted["capped"] = {"load": BURN, "cpu": cpus[0], "cgroup": cgroup, "vcpus": 1}
    with guests.running(wanted, tmp_path_factory.mktemp("guests")) as found:
        yield found


@pytest.fixture(scope="module")
def scrapes(lab: dict[str, Guest], cgroup: Path | None, tmp_path_factory: pytest.TempPathFactory) -> list[Scrape]:
    """Two readings, far enough apart that the exporter reads all of its counters again."""

    def truth() -> Truth:
        processes = {name: host.process(guest.pid) for name, guest in lab.items()}
        return Truth(processes, host.throttling(cgroup) if cgroup is not None else None)

    found = []
    with RunningExporter(tmp_path_factory.mktemp("exporter"), package="virtscope.kvm") as exporter:
        exporter.get()
        for _ in range(2):
            time.sleep(COUNTERS + 0.5)
            found.append(Scrape(truth(), Page.of(exporter.address), truth()))
    return found


def test_guests_are_shown_by_the_names_they_were_given(lab: dict[str, Guest], scrapes: list[Scrape]) -> None:
    page = scrapes[-1].page
    for guest in lab.values():
        [info] = page.all("kvm_guest_info", pid=str(guest.pid))
        shown = (info.labels["guest"], info.labels["accelerator"], info.labels["manager"])
        assert shown == (guest.name, guest.accelerator, "qemu")
        assert page.value("kvm_guest_vcpus", guest=guest.name) == guest.vcpus
        assert page.value("kvm_guest_memory_limit_bytes", guest=guest.name) == 16 << 20


def test_cpu_time_is_the_kernels(lab: dict[str, Guest], scrapes: list[Scrape]) -> None:
    """Run and wait of each vCPU; a guest's total is its process plus the kernel threads that serve it."""
    for scrape in scrapes:
        for name, guest in lab.items():
            before, after = scrape.before.guests[name], scrape.after.guests[name]
            for number in range(guest.vcpus):
                vcpu = {"guest": guest.name, "vcpu": str(number)}
                least, most = before.vcpu(number), after.vcpu(number)
                assert least.run - ROUNDED <= scrape.page.value(RUN, **vcpu) <= most.run + ROUNDED, vcpu
                assert least.wait - ROUNDED <= scrape.page.value(WAIT, **vcpu) <= most.wait + ROUNDED, vcpu
            shown = scrape.page.value("kvm_guest_cpu_seconds_total", guest=guest.name)
            assert before.cpu + before.serving - 1.5 * TICK <= shown <= after.cpu + after.serving + 1.5 * TICK, name


def test_guest_time_is_the_kernels_or_absent(lab: dict[str, Guest], scrapes: list[Scrape]) -> None:
    """TCG and KVM without hardware virtualisation can't measure it: 0 would mean that the guest was idle."""
    for name, guest in lab.items():
        before, after = scrapes[-1].before.guests[name].vcpu(0), scrapes[-1].after.guests[name].vcpu(0)
        shown = [sample.value for sample in scrapes[-1].page.all(IN_GUEST, guest=guest.name, vcpu="0")]
        if after.guest > 0.1 * after.run:
            assert [before.guest <= value <= after.guest for value in shown] == [True], name
        elif name.startswith("rival"):
            assert shown == [], f"{name} ran {after.run} s, in the guest {after.guest} s"


def test_a_quota_shows_as_throttling(lab: dict[str, Guest], scrapes: list[Scrape]) -> None:
    if "capped" not in lab:
        pytest.skip("no cgroup with a quota can be made here: needs root and the CPU controller of cgroups")
    capped, rival = lab["capped"].name, lab["rival-a"].name
    assert scrapes[0].page.value("kvm_guest_cpu_limit_cpus", guest=capped) == QUOTA_CPUS
    for metric in ("kvm_guest_cpu_limit_cpus", "kvm_guest_throttled_seconds_total"):
        assert scrapes[0].page.all(metric, guest=rival) == []
    for before, page, after in scrapes:
        metrics = ("periods", "throttled_periods", "throttled_seconds")
        for metric, low, high in zip(metrics, before.throttled or (), after.throttled or (), strict=True):
            shown = page.value(f"kvm_guest_{metric}_total", guest=capped, part="all")
            assert low - ROUNDED <= shown <= high + ROUNDED, metric
    assert scrapes[-1].page.value("kvm_guest_throttled_seconds_total", guest=capped, part="all") > 0
