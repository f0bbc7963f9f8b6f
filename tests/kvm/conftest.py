"""Guests of known load on this machine, and the exporter that watches them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.kvm import guests, host
from tests.kvm.guests import BURN, DISK, Guest, duty
from tests.support.needs import missing
from tests.support.pages import Page
from tests.support.reporting import Report, pytest_terminal_summary, report
from virtscope.kvm.guests import COUNTERS

__all__ = ["pytest_terminal_summary", "report"]

WINDOW_SECONDS = 15
QUOTA_CPUS = 0.2
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture(scope="package")
def cgroup() -> Iterator[Path | None]:
    """A cgroup with a quota; None where cgroups can't be written."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(host.quota(QUOTA_CPUS))
        except host.NoQuotaError:
            yield None


@pytest.fixture(scope="package")
def lab(cgroup: Path | None, tmp_path_factory: pytest.TempPathFactory, report: Report) -> Iterator[dict[str, Guest]]:
    """The guests. The rivals have one CPU between them; on machines with another one, the rest is there."""
    if reason := guests.why_not_here():
        missing(reason)
    wanted: dict[str, dict[str, object]] = {
        "duty": {"load": duty(3)},
        "rival-a": {"load": BURN, "cpu": CPUS[-1]},
        "rival-b": {"load": BURN, "cpu": CPUS[-1]},
        "disk": {"load": DISK},
    }
    if cgroup is not None:
        # With several vCPUs nobody knows how much of their wait is throttling.
        wanted["capped"] = {"load": BURN, "cpu": CPUS[0], "cgroup": cgroup, "vcpus": 1}
    begun = time.monotonic()
    with guests.running(wanted, tmp_path_factory.mktemp("guests")) as found:
        [accelerator] = {guest.accelerator for guest in found.values()}
        report(f"{len(found)} guests under {accelerator} at their loads after {time.monotonic() - begun:.0f} s")
        yield found


def require_quota(lab: dict[str, Guest]) -> None:
    if "capped" not in lab:
        pytest.skip("no cgroup with a quota can be made here: needs root and the CPU controller of cgroups")


@pytest.fixture(scope="package")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningExporter]:
    with RunningExporter(tmp_path_factory.mktemp("exporter"), package="virtscope.kvm") as running:
        yield running


class Truth(NamedTuple):
    """What the kernel says about the guests at one moment of the monotonic clock."""

    moment: float
    guests: dict[str, host.Process]
    throttled: host.Throttling | None  # of the cgroup with the quota, if there is one
    busy: float  # seconds in which the first CPU was not idle


class Scrape(NamedTuple):
    """What the exporter says, between what the kernel says before and after: counters must be between the two."""

    before: Truth
    page: Page
    after: Truth


class Window(NamedTuple):
    """Two scrapes some seconds apart."""

    first: Scrape
    last: Scrape

    @property
    def seconds(self) -> tuple[float, float]:
        """Between the two, at least and at most: each was read within a span of its own."""
        return (self.last.before.moment - self.first.after.moment, self.last.after.moment - self.first.before.moment)

    def grown(self, name: str, **labels: str) -> float:
        """By how much a counter of the exporter's has grown."""
        return self.last.page.value(name, **labels) - self.first.page.value(name, **labels)


NextWindow = Callable[[Window | None], Window]


@pytest.fixture(scope="package")
def next_window(lab: dict[str, Guest], cgroup: Path | None, exporter: RunningExporter) -> NextWindow:
    """Looks at the guests for a quarter of a minute, from the end of another window on."""

    def truth() -> Truth:
        processes = {name: host.process(guest.pid) for name, guest in lab.items()}
        throttled = host.throttling(cgroup) if cgroup is not None else None
        return Truth(time.monotonic(), processes, throttled, host.busy(CPUS[0]))

    def scrape() -> Scrape:
        return Scrape(truth(), Page.of(exporter.address), truth())

    def look(window: Window | None) -> Window:
        first = window.last if window else scrape()
        time.sleep(WINDOW_SECONDS)
        return Window(first, scrape())

    return look


@pytest.fixture(scope="package")
def window(next_window: NextWindow) -> Window:
    """All guests at their loads."""
    time.sleep(COUNTERS + 0.5)  # some are read again only after that, and none is to be older than the scrape
    return next_window(None)
