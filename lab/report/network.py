"""The report of network costs: configurations beside one that differs in one thing, and what bytes and requests cost.

The cost ratio is that of Menon et al. 2005: the ratio of CPU time or of an event over the ratio of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lab.measurements import Measurement
from lab.network.experiment import CPU, FAILED, P50, P99, PER_BYTE, PER_REQUEST, REQUESTS, THROUGHPUT
from lab.network.paths import EVENTS
from lab.network.scenario import OFFLOADS, ON, PATHS, UNCHANGED, Configuration, WebLoad
from lab.report.page import Page, Section, Study, Table, every_value, interval, label, load_study, page, three_digits
from lab.report.recorded import Recording, values
from lab.report.statistics import Estimate, estimate, ratio
from lab.report.units import MISSING, significant, unit_of

INSTRUCTIONS, _ = EVENTS
COUNTED = (*EVENTS, CPU)
GUEST = "xen-guest1 / xen-domain0"  # of the study: on a CPU of its own, as both ends are here
ENOUGH = 0.98  # of the rate: a load that is reached
OF_A_LOAD = {REQUESTS: "Answered", FAILED: "Failed", P50: "p50", P99: "p99", CPU + PER_REQUEST: "CPU time each"}
Load = Configuration | WebLoad


@dataclass(frozen=True)
class Compared:
    """Ratios to a baseline: of throughput, of what was counted per second, and of what each byte or request cost."""

    load: Load
    baseline: Load
    throughput: Estimate
    counted: Mapping[str, Estimate]
    cost: Mapping[str, Estimate]


@dataclass(frozen=True)
class Results:
    """All that a run has measured."""

    measurements: Sequence[Measurement]

    @cached_property
    def configurations(self) -> list[Configuration]:
        """All of which anything was measured: by direction, size, offloads and path."""
        found = {one for each in self.measurements if (one := Configuration.parse(each.environment))}
        order = (*OFFLOADS, UNCHANGED)
        return sorted(found, key=lambda one: (one.direction, one.size, order.index(one.offloads), _rank(one)))

    @cached_property
    def loads(self) -> list[WebLoad]:
        """All loads of a web server that were measured: by size, rate and path."""
        found = {one for each in self.measurements if (one := WebLoad.parse(each.environment))}
        return sorted(found, key=lambda one: (one.size, one.rate, _rank(one)))

    @cached_property
    def emulated(self) -> set[str]:
        """The names of configurations of emulated guests."""
        return {one.environment for one in self.measurements if one.emulated}

    @property
    def judged_by(self) -> str:
        """What the cost of a byte is in: instructions where they were counted, else CPU time."""
        return INSTRUCTIONS if any(one.test == INSTRUCTIONS for one in self.measurements) else CPU

    @property
    def paths(self) -> list[Compared]:
        """Each path beside the first of `PATHS` that was measured; those to guests beside it with offloads."""
        first = min(self.configurations, key=_rank, default=None)

        def baseline(one: Configuration) -> Configuration:
            assert first is not None  # as there is one
            on = ON if first.path in PATHS else UNCHANGED
            return replace(one, path=first.path, offloads=on if one.offloads == UNCHANGED else one.offloads)

        return self._beside((one, baseline(one)) for one in self.configurations)

    @property
    def offloads(self) -> list[Compared]:
        """Without offloads beside with them."""
        return self._beside((one, replace(one, offloads=ON)) for one in self.configurations if one.offloads in OFFLOADS)

    @property
    def sizes(self) -> list[Compared]:
        """Smaller messages beside the largest."""
        largest = max((one.size for one in self.configurations), default=0)
        return self._beside((one, replace(one, size=largest)) for one in self.configurations)

    @property
    def requests(self) -> list[Compared]:
        """Each load of a web server beside the same over the first of `PATHS`."""
        first = min(self.loads, key=_rank, default=None)
        return self._beside((one, replace(one, path=first.path)) for one in self.loads if first)

    def _beside(self, pairs: Iterator[tuple[Load, Load]]) -> list[Compared]:
        """Without those that weren't measured both."""
        return [
            found for one, baseline in pairs if one != baseline and (found := self._compare(one, baseline)) is not None
        ]

    def _compare(self, one: Load, baseline: Load) -> Compared | None:
        test, per = (REQUESTS, PER_REQUEST) if isinstance(one, WebLoad) else (THROUGHPUT, PER_BYTE)

        def ratio_of(test: str) -> Estimate | None:
            return ratio(*(values(self.measurements, test, load.name) for load in (one, baseline)))

        if (throughput := ratio_of(test)) is None:
            return None
        counted = {name: found for name in COUNTED if (found := ratio_of(name))}
        # The study's ratio, with the relative interval of the repetitions' costs: not with one from both ratios'
        # intervals, as in a repetition that is slow both are smaller.
        cost = {
            name: each.mapped(of.value / throughput.value / each.value)
            for name, of in counted.items()
            if (each := ratio_of(name + per)) and each.value > 0
        }
        return Compared(one, baseline, throughput, counted, cost)


def _rank(one: Load) -> tuple[int, str]:
    """Guests come last."""
    return (PATHS.index(one.path) if one.path in PATHS else len(PATHS), one.path)


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    study, results = load_study("network"), Results(recording.measurements)
    published = Table(
        ("Configuration", "Relative to", *study["published"]["head"]),
        tuple((*names.split(" / "), *map(str, row)) for names, row in study["published"]["rows"].items()),
    )
    return page(
        study,
        recording,
        verdict(results, study),
        (
            Section("paths", _compared(results.paths, results, "a byte")),
            Section("published", published),
            Section("offloads", _compared(results.offloads, results, "a byte")),
            Section("sizes", _compared(results.sizes, results, "a byte")),
            Section("requests", _compared(results.requests, results, "a request")),
            Section("loads", _loads(results)),
        ),
        every_value(recording.measurements),
        emulated=[one.path for one in results.configurations if one.name in results.emulated],
    )


def _compared(of: Sequence[Compared], results: Results, each: str) -> Table:
    """Ratios to the baseline, a row for each event that was counted; `each` is what costs, such as "a byte"."""
    rows = (
        (
            *(label(load.name, emulated=load.name in results.emulated) for load in (one.load, one.baseline)),
            three_digits(one.throughput.value),
            interval(one.throughput),
            *("CPU time" if name == CPU else name, three_digits(counted.value)),
            *((three_digits(cost.value), interval(cost)) if (cost := one.cost.get(name)) else (MISSING, "")),
            str(one.throughput.n),
        )
        for one in of
        for name, counted in one.counted.items()
    )
    head = ("Configuration", "Relative to", "Throughput", "95 % interval", "Of what", "Ratio")
    return Table((*head, f"Cost of {each}", "95 % interval of that", "n"), tuple(rows))


def _loads(results: Results) -> Table:
    """What each load of a web server reached, how long its answers took, and what one cost."""
    units = {one.test: unit_of(one.unit) for one in results.measurements}

    def cell(load: WebLoad, test: str) -> str:
        found = estimate(values(results.measurements, test, load.name))
        return units[test].write(found.value) if found else MISSING

    rows = (
        (label(one.name, emulated=one.name in results.emulated), *(cell(one, test) for test in OF_A_LOAD))
        for one in results.loads
    )
    return Table(("Load", *OF_A_LOAD.values()), tuple(rows))


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, study: Study) -> list[str]:
    """For readers who read no further: the paths first, each by the configuration in which it costs most.

    That is one in which it costs more beyond noise, if there is any: where little is sent, noise is the greatest ratio.
    """
    judged, paths, requests = results.judged_by, results.paths, results.requests

    def each_path(*, emulated: bool) -> Iterator[str]:
        for of, what in ((paths, "a byte"), (requests, "a request")):
            there = [one for one in of if emulated == bool({one.load.name, one.baseline.name} & results.emulated)]
            for path in dict.fromkeys(one.load.path for one in there):
                on_path = [one for one in there if one.load.path == path]
                yield from _most(on_path, judged, f"{_on(path)}, {what}", lambda one: _on(one.baseline.path).lower())

    found = [
        *each_path(emulated=False),
        *_most(results.offloads, judged, "Without segmentation offloads, a byte", lambda _: "with them"),
        *_most(
            [one for one in results.sizes if one.load.name not in results.emulated],
            judged,
            "In small messages, a byte",
            lambda one: f"in messages of {one.baseline.size} bytes",
        ),
        *_not_reached(results),
    ]
    if emulated := " ".join(each_path(emulated=True)):
        found.append(f"On emulated hardware, so no more than a sign that it works. {emulated}")
    if not found:
        return ["No configuration was measured together with one to compare it with, so there is nothing to say yet."]
    if paths:
        theirs = study["receiver"][GUEST]["instruction_cost"]
        found.append(
            f"In the study, a byte received in a Xen guest cost {theirs:g} times the driver domain's instructions."
        )
    if judged == CPU:
        found.append(
            "This machine counted no instructions, so costs are CPU seconds of the whole machine, softirqs included."
        )
    return found


def _on(path: str) -> str:
    """
    >>> _on("veth"), _on("guest web1")
    ('Over veth', 'To and from guest web1')
    """
    return f"Over {path}" if path in PATHS else f"To and from {path}"


def _most(of: Sequence[Compared], judged: str, begin: str, than: Callable[[Compared], str]) -> Iterator[str]:
    """Where it costs most; nothing if that wasn't counted anywhere."""
    known = [one for one in of if judged in one.cost]
    if not known:
        return
    more = [one for one in known if one.cost[judged].differs(1) and one.cost[judged].value > 1]
    most = max(more or known, key=lambda one: one.cost[judged].value)
    cost, unit = most.cost[judged], "as much CPU time" if judged == CPU else f"as many {judged}"
    ends = interval(cost)
    where = f"{most.load.name}{ends and f', 95 % interval {ends}'}"
    noise = "" if not ends or cost.differs(1) else "; that is within noise"
    size = "" if len(known) == 1 else "up to "
    yield f"{begin} costs {size}{cost.value:.2f} times {unit} as {than(most)} ({where}){noise}."


def _not_reached(results: Results) -> list[str]:
    """Loads of which some requests failed, or came later and later."""
    few = [
        f"{label(one.name, emulated=one.name in results.emulated)}: {significant(reached.value)} answered"
        for one in results.loads
        if (reached := estimate(values(results.measurements, REQUESTS, one.name))) and reached.value < ENOUGH * one.rate
    ]
    return [f"Not all requests were answered in time ({'; '.join(few)}): the server was saturated."] if few else []
