"""A day of the demo's past, in blocks that Prometheus adopts as its own.

The story repeats each hour, except that counters have grown. So the exporters' own code generates the metrics of only
the last two hours, earlier hours are derived from these, and promtool converts them to blocks. Then the recording rules
are evaluated over the last hour, as Prometheus would have done. Rules that read other rules' records come later, so it
takes several rounds, each with its own Prometheus over the blocks so far.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from prometheus_client import Metric

from demo import kvm, openmetrics, openvz, sensors, story, xen
from demo.model import Counters
from demo.openmetrics import Series
from demo.study import CHECKOUT
from demo.targets import Target
from virtscope.kvm import libvirt
from virtscope.kvm.exporter import HostView
from virtscope.kvm.host_files import RecordedFiles
from virtscope.kvm.model import Guest
from virtscope.openvz import exporter as openvz_exporter
from virtscope.openvz.procfs import RecordedProcfs
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.xen import metrics
from virtscope.xen.exporter import LibraryView, WaitingView
from virtscope.xen.toolstack import ReplayedToolstack

# Seconds between two samples, at whole multiples in Unix time: a rate over a minute needs two, even if the guest has
# ended after the second one.
STEP = 20
# The last samples are as dense as live ones, from a full minute on: with mixed intervals within a minute, its rate
# would be too low.
LIVE_STEP = 5
_LIVE_SECONDS = 120
# Series that only rules read aren't needed for most of the past, as their records exist: rules are evaluated over the
# last two hours at most, and read these series over an hour.
FOR_RULES = 4 * story.CYCLE
_RULES, _PANELS = ("prometheus/rules/**/*.yml", "alerts/**/*.yml"), ("dashboards/json/*.json",)
# A platform's own metrics are many series, and their pages initially show the last hour.
_PLATFORMS = ("xen", "kvm", "openvz")


def samples(targets: Iterable[Target], begin: int, end: int, origin: float) -> Iterator[Series]:
    """The targets' samples until `end` (Unix time).

    Series on dashboards begin at `begin`, series that rules read a few hours before `end`, and series only on a
    platform's page an hour before it.
    """
    two_hours = [at for at in range(end - 2 * story.CYCLE + 1, end + 1) if at % STEP == 0]
    moments = sorted({*two_hours, *range((end - _LIVE_SECONDS) // 60 * 60, end + 1, LIVE_STEP)})
    own_words = _words(f"dashboards/json/{platform}.json" for platform in _PLATFORMS)
    in_own_words = {word for word in own_words if word.partition("_")[0] in _PLATFORMS}
    on_panels, for_rules = _words(_PANELS) - in_own_words | {"up"}, _words(_RULES)
    for name, values in _shown(targets, moments, origin).items():
        metric = name.partition("{")[0]
        lasts = end - begin if metric in on_panels else FOR_RULES if metric in for_rules else story.CYCLE
        yield name, _since(end - lasts, values, end)


def latest(targets: Iterable[Target], begin: int, end: int, origin: float) -> Iterator[Series]:
    """The targets' samples after `begin` and until `end` (Unix time)."""
    for name, values in _shown(targets, range(begin + LIVE_STEP, end + 1, LIVE_STEP), origin).items():
        yield name, values.items()


def _shown(targets: Iterable[Target], moments: Sequence[int], origin: float) -> dict[str, dict[int, float]]:
    """The samples of the story's hosts at these times: values by Unix time, by series."""
    wanted = _words((*_RULES, *_PANELS))
    shown: dict[str, dict[int, float]] = {}
    by_host: dict[str, list[Target]] = {}
    for target in targets:
        if target.labels["host"] in story.PLATFORMS:
            by_host.setdefault(target.labels["host"], []).append(target)
    for name, its_targets in by_host.items():
        host = _Host(name, origin)
        for seconds in moments:
            pages = host.pages(seconds)
            for target in its_targets:
                shown.setdefault(_series("up", (), target), {})[seconds] = 1.0
                for family in pages.get((target.job, target.labels.get("vserver", "")), []):
                    for sample in family.samples:
                        if sample.name in wanted:
                            series = _series(sample.name, tuple(sample.labels.items()), target)
                            shown.setdefault(series, {})[seconds] = float(sample.value)
    return shown


def _since(begin: int, values: Mapping[int, float], end: int) -> Iterator[tuple[int, float]]:
    """A series from `begin` on, derived from its last hour: it grows equally in each hour."""
    last = max(at for at in values if at % STEP == 0)
    grown = values[last] - values[last - story.CYCLE]
    hour = [(at, value) for at, value in values.items() if at > end - story.CYCLE]
    for ago in range((end - begin) // story.CYCLE, -1, -1):
        for at, value in hour:
            is_due = ago == 0 or at % STEP == 0
            if is_due and at - ago * story.CYCLE >= begin:
                yield at - ago * story.CYCLE, value - ago * grown


class _Host:
    """Each target's exposition on a host, by job and guest."""

    def __init__(self, host: str, origin: float) -> None:
        self._host = host
        self._counters = Counters(host, origin)
        self._guests = ReplayedToolstack()
        self._seconds = 0.0
        self._library = LibraryView(self._guests.add_to, lambda: self._seconds)
        self._waiting = WaitingView(lambda: self._seconds)
        self._procfs = RecordedProcfs()
        self._sources = openvz_exporter.sources(self._procfs, openvz_exporter.Vz(self._procfs))
        self._files = RecordedFiles()
        self._libvirt = libvirt.Answer(0, {}, {}, 0)
        self._kvm = HostView(self._files, [self._add_libvirt], recorded_ones=True)

    def pages(self, seconds: float) -> dict[tuple[str, str], list[Metric]]:
        self._seconds = seconds
        found = {
            (page.job, page.labels.get("vserver", "")): page.families
            for page in sensors.pages(self._host, self._counters, seconds)
        }
        if self._counters.platform == "xen":
            snapshot = xen.snapshot(self._counters, seconds)
            found["xentop", ""] = [
                *metrics.toolstack_families(self._guests.parse(xen.toolstack(self._counters, seconds))),
                *self._library.families(snapshot.node),
                *self._waiting.families(snapshot),
            ]
        elif self._counters.platform == "kvm":
            # As old as replayed readings can be, 1.5 intervals: otherwise the first live one would be a reset.
            self._files.show(kvm.files(self._counters, seconds - 1.5 * kvm.INTERVAL))
            asked = seconds - kvm.LIBVIRT_INTERVAL - kvm.INTERVAL
            self._libvirt = libvirt.understand(kvm.libvirt(self._counters, asked))
            found["kvm", ""] = [*self._kvm.families(seconds), *libvirt.families(self._libvirt)]
        elif self._counters.platform == "openvz":
            self._procfs.show(openvz.files(self._counters, seconds))
            found["vestat", ""] = []
            for source in self._sources:
                with contextlib.suppress(SourceUnavailable):  # the demo's host has no quotas
                    found["vestat", ""] += source.read()
        return found

    def _add_libvirt(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        return libvirt.joined(guests, self._libvirt)


@cache
def _series(name: str, labels: tuple[tuple[str, str], ...], target: Target) -> str:
    """A sample's series, with the labels that Prometheus adds; `up` is its own."""
    played = {} if name == "up" else target.played
    scraped = {"job": target.job, "instance": target.address}
    return openmetrics.series_name(name, {**dict(labels), **played, **target.labels, **scraped})


def _words(patterns: Iterable[str]) -> set[str]:
    """All words in these files, including the metrics that they read."""
    return {
        word
        for pattern in patterns
        for file in CHECKOUT.glob(pattern)
        for word in re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*", file.read_text(encoding="utf-8"))
    }
