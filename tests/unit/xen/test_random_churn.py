"""Guests that start, end, reboot and change their devices at random: all counters stay correct.

Prometheus's increase of each series is compared with the true increase of its domain or interface, also if the series
has passed from one to another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest
from prometheus_client import Metric

from tests.unit.xen.test_xentop_text import HEADER
from virtscope.xen.exporter import LibraryView, TextView
from virtscope.xen.libxenstat import RawDomain, RawNode, RawVcpu
from virtscope.xen.netdev import RawNetwork
from virtscope.xen.recorded import Printed
from virtscope.xen.xentop import Iteration

LOOKS = 200
NAMES = [b"web", b"db", b"copy", b"copy", b"  copy", b"(null)"]
MAX_IDS = 12  # so that they are reused, as after 32,752 domains
# The increase between two readings, and the initial value at the first one. In text, a successor can't be recognised if
# the previous guest's counter was no higher than that.
CPU_SECONDS, NEW_CPU_SECONDS = (0, 0.3, 1, 15), 1
BYTES, NEW_BYTES = (0, 1, 1000, 10**9), 1000
APART = 0.009  # seconds by which a CPU's clock may be behind another's


class Thing:
    """A counter: CPU time, bytes. `was` has its value at each reading, 0 before."""

    def __init__(self, looks: int) -> None:
        self.value = 0.0
        self.was = [0.0] * looks
        self._born = looks

    def go_on(self, by: float, new: float) -> None:
        """Count so much, but at most `new` at the first reading."""
        self.value += by if len(self.was) > self._born else min(by, new)


class Guest:
    def __init__(self, domid: int, name: bytes, looks: int, vifs: int) -> None:
        self.domid, self.name = domid, name
        self.cpu, self.vifs = Thing(looks), [Thing(looks) for _ in range(vifs)]


class Xen:
    """A host with random events between two readings."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.looks = 0
        self._ids = count(1)
        self.cpu_seconds = self.bytes = 0.0  # of all guests since the first reading, also of those that have ended
        self.guests = [Guest(0, b"Domain-0", 0, 0)]

    def go_on(self) -> None:
        """Run some random events and all guests; record all counters."""
        for _ in range(self.chance.choice([0, 0, 0, 1, 1, 2, 4])):
            self.chance.choice([self._create, self._destroy, self._reboot, self._plug])()
        self.looks += 1
        for guest in self.guests:
            guest.cpu.go_on(self.chance.choice(CPU_SECONDS), NEW_CPU_SECONDS)
            for vif in guest.vifs:
                vif.go_on(self.chance.choice(BYTES), NEW_BYTES)
            for thing in (guest.cpu, *guest.vifs):
                thing.was.append(thing.value)
            if guest.domid and self.looks > 1:
                self.cpu_seconds += guest.cpu.value - guest.cpu.was[-2]
                self.bytes += sum(vif.value - vif.was[-2] for vif in guest.vifs)

    def _create(self, name: bytes | None = None) -> None:
        taken = {guest.domid for guest in self.guests}
        domid = next(domid for number in self._ids if (domid := number % MAX_IDS or MAX_IDS) not in taken)
        if len(self.guests) < MAX_IDS // 2:
            guest = Guest(domid, name or self.chance.choice(NAMES), self.looks, self.chance.choice([0, 1, 2, 3]))
            self.guests = sorted([*self.guests, guest], key=lambda guest: guest.domid)

    def _destroy(self) -> bytes | None:
        if len(self.guests) == 1:
            return None
        guest = self.chance.choice(self.guests[1:])
        self.guests.remove(guest)
        return guest.name

    def _reboot(self) -> None:
        if name := self._destroy():
            self._create(name)

    def _plug(self) -> None:
        """Add an interface or remove one."""
        vifs = self.chance.choice(self.guests).vifs
        if vifs and self.chance.random() < 0.5:
            vifs.remove(self.chance.choice(vifs))
        else:
            vifs.insert(self.chance.randint(0, len(vifs)), Thing(self.looks))


class Library:
    """The host in libxenstat, with interfaces from /proc/net/dev and their stable numbers."""

    cpu_tolerance = 2 * APART
    min_counted = 0.99  # of the totals
    bytes_tolerance = 0

    def __init__(self, xen: Xen) -> None:
        self._view = LibraryView(clock=lambda: xen.looks * 60.0)
        self._numbers: dict[Thing, int] = {}

    def families(self, xen: Xen) -> list[Metric]:
        domains = tuple(self._domain(guest, xen.chance) for guest in xen.guests)
        return self._view.families(RawNode(domains, b"4.17.7", 4, 1, 1, 1))

    def _domain(self, guest: Guest, chance: random.Random) -> RawDomain:
        ns = int(max(guest.cpu.value - chance.choice([0, 0, APART]), 0) * 1e9)
        networks = tuple(
            RawNetwork(
                self._numbers.setdefault(vif, len(self._numbers)), int(vif.value), 0, 0, 0, 0, 0, 0, 0, emulated=False
            )
            for vif in guest.vifs
        )
        return RawDomain((RawVcpu(1, ns),), networks, (), guest.domid, guest.name, ns, 1, 1, *[0] * 7)


class Text:
    """The host in `xentop -b -f -n -x -v`: no ids, whole seconds, interfaces by place."""

    cpu_tolerance = 2.0 + NEW_CPU_SECONDS  # two ticks
    min_counted = 0.7  # whenever a domain starts or ends, those that share its name count from then on
    bytes_tolerance = NEW_BYTES

    def __init__(self, xen: Xen) -> None:
        self._view = TextView(clock=lambda: xen.looks * 60.0)

    def families(self, xen: Xen) -> list[Metric]:
        lines = [HEADER]
        for guest in xen.guests:
            seconds = int(max(guest.cpu.value - xen.chance.choice([0, 0, APART]), 0))
            state = b"-----r" if guest.domid == 0 else b"--b---"
            lines.append(
                b"%10b %b %10d    0.0      98304    4.7   no limit       n/a     1 %4d 0 0 0 0 0 0 0 0    0\n"
                % (guest.name, state, seconds, len(guest.vifs))
            )
            lines.append(b"VCPUs(sec):   0: %10ds\n" % seconds)
            lines += [
                b"Net%d RX: %8dbytes %dpkts 0err 0drop  TX: 0bytes 0pkts 0err 0drop\n" % (place, vif.value, vif.value)
                for place, vif in enumerate(guest.vifs)
            ]
        return self._view.families(Printed(Iteration(b"".join(lines), 1.0, 1), "4.17.7"))


class Watched:
    """The series of one metric, and their owners."""

    def __init__(self, metric: str, of: Callable[[Guest], list[Thing]], tolerance: float) -> None:
        self._metric, self._of, self._tolerance = metric, of, tolerance
        # The last owner, value and reading of each series.
        self._last: dict[tuple[tuple[str, str], ...], tuple[Thing, float, int]] = {}
        self.passed_on = 0

    def check(self, families: list[Metric], xen: Xen) -> None:
        samples = [sample for family in families for sample in family.samples if sample.name == self._metric]
        things = [thing for guest in xen.guests for thing in self._of(guest)]
        assert len({tuple(sorted(sample.labels.items())) for sample in samples}) == len(samples)
        for sample, thing in zip(samples, things, strict=True):  # both in the order of the domains
            assert abs(sample.value - thing.value) <= self._tolerance
            series = tuple(sorted(sample.labels.items()))
            if last := self._last.get(series):
                # Prometheus treats a decrease as a reset to 0: a false one appears as an increase by the whole value.
                owner, value, look = last
                rise = sample.value - value if sample.value >= value else sample.value
                done = thing.value - thing.was[look]
                assert rise <= done + self._tolerance, f"{series} rose by {rise}, where {done} were done"
                self.passed_on += owner is not thing
            self._last[series] = thing, sample.value, xen.looks - 1


def totals(families: list[Metric]) -> tuple[float, float]:
    """Return the CPU seconds and the bytes sent of all guests."""
    samples = {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
    return samples["xen_host_guests_cpu_seconds_total"], samples["xen_host_guests_network_transmit_bytes_total"]


@pytest.mark.parametrize("source", [Library, Text])
def test_no_counter_is_wrong_whatever_happens(source: type[Library | Text]) -> None:
    for seed in range(8):
        xen = Xen(seed)
        shown = source(xen)
        cpu = Watched("xen_domain_cpu_seconds_total", lambda guest: [guest.cpu], shown.cpu_tolerance)
        network = Watched("xen_domain_network_transmit_bytes_total", lambda guest: guest.vifs, shown.bytes_tolerance)
        reached = (0.0, 0.0)
        for _ in range(LOOKS):
            xen.go_on()
            families = shown.families(xen)
            before, reached = reached, totals(families)
            assert all(was <= now for was, now in zip(before, reached, strict=True)), "a total fell"
            cpu.check(families, xen)
            network.check(families, xen)
        for total, truth in zip(reached, (xen.cpu_seconds, xen.bytes), strict=True):
            assert shown.min_counted * truth <= total <= truth + shown.cpu_tolerance
        assert cpu.passed_on > 0, "no series was ever taken over: names and ids are to come round again"
