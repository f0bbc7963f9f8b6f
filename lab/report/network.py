"""The report of network costs: configurations beside one that differs in one thing, and what bytes and requests cost.

The cost ratio is that of Menon et al. 2005: the ratio of CPU time or of an event over the ratio of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab.measurements import Measurement
from lab.network.experiment import CPU, FAILED, P50, P99, PER_BYTE, PER_REQUEST, REQUESTS, THROUGHPUT
from lab.network.paths import EVENTS
from lab.network.scenario import OFFLOADS, ON, PATHS, UNCHANGED, Configuration, WebLoad
from lab.report.comparison import Pair, Values
from lab.report.page import Page, Section, Table, every_value, interval, load_study, page, three_digits
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, estimate
from lab.report.units import MISSING, significant, unit_of

INSTRUCTIONS, _ = EVENTS
COUNTED = (*EVENTS, CPU)
GUEST = "xen-guest1 / xen-domain0"  # of the study: on a CPU of its own, as both ends are here
ENOUGH = 0.98  # of the rate: a load that is reached
OF_A_LOAD = {REQUESTS: "Answered", FAILED: "Failed", P50: "p50", P99: "p99", CPU + PER_REQUEST: "CPU time each"}
Load = Configuration | WebLoad


@dataclass(frozen=True)
class Compared:
    """Ratios to a baseline: of throughput, of an event per second, and of what a byte or request cost of it."""

    group: str
    load: Load
    baseline: Load
    event: str
    throughput: Estimate
    counted: Estimate
    cost: Estimate | None
    emulated: bool


class Results:
    """All comparisons of a run; `judged_by` is instructions where they were counted, else CPU time."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self.values = Values.of(measurements)
        loads = sorted((one for name in self.values.tests if (one := _parse(name))), key=_order)
        self.web_loads = [one for one in loads if isinstance(one, WebLoad)]
        self.judged_by = INSTRUCTIONS if any(one.test == INSTRUCTIONS for one in measurements) else CPU
        self.compared = [
            compared
            for group, beside in (("paths", _first_path), ("offloads", _offloads), ("sizes", _largest))
            for one in loads
            if (base := beside(one, loads)) and base != one
            for compared in self._compare("requests" if isinstance(one, WebLoad) else group, one, base)
        ]

    def of(self, group: str) -> list[Compared]:
        """Those of paths, requests (over paths), offloads or sizes."""
        return [one for one in self.compared if one.group == group]

    def _compare(self, group: str, one: Load, baseline: Load) -> Iterator[Compared]:
        """Nothing unless both were measured."""
        found = {each.test: each for each in self.values.compare([Pair(group, one.name, baseline.name)])}
        test, per = (REQUESTS, PER_REQUEST) if isinstance(one, WebLoad) else (THROUGHPUT, PER_BYTE)
        for event in COUNTED if test in found else ():
            if event in found:
                throughput, counted, cost = found[test].ratio, found[event].ratio, found.get(event + per)
                # The study's ratio, with the relative interval of the repetitions' costs: not with one from both
                # ratios' intervals, as in a repetition that is slow both are smaller.
                each = (
                    cost.ratio.mapped(counted.value / throughput.value / cost.ratio.value)
                    if cost and cost.ratio.value > 0
                    else None
                )
                yield Compared(group, one, baseline, event, throughput, counted, each, found[test].emulated)


def _parse(name: str) -> Load | None:
    return Configuration.parse(name) or WebLoad.parse(name)


def _order(one: Load) -> tuple[object, ...]:
    """Configurations by direction, size, offloads and path, then loads of a web server by size, rate and path."""
    if isinstance(one, WebLoad):
        return 1, one.size, one.rate, _rank(one)
    return 0, one.direction, one.size, (*OFFLOADS, UNCHANGED).index(one.offloads), _rank(one)


def _rank(one: Load) -> tuple[int, str]:
    """Guests come last."""
    return (PATHS.index(one.path) if one.path in PATHS else len(PATHS), one.path)


def _first_path(one: Load, loads: Sequence[Load]) -> Load:
    """The same over the first of `PATHS` that was measured; of paths to guests beside it with offloads."""
    first = min((each for each in loads if type(each) is type(one)), key=_rank).path
    if isinstance(one, WebLoad):
        return replace(one, path=first)
    on = ON if first in PATHS else UNCHANGED
    return replace(one, path=first, offloads=on if one.offloads == UNCHANGED else one.offloads)


def _offloads(one: Load, _: Sequence[Load]) -> Load | None:
    """The same with offloads."""
    return replace(one, offloads=ON) if isinstance(one, Configuration) and one.offloads in OFFLOADS else None


def _largest(one: Load, loads: Sequence[Load]) -> Load | None:
    """The same in the largest messages."""
    sizes = [each.size for each in loads if isinstance(each, Configuration)]
    return replace(one, size=max(sizes)) if isinstance(one, Configuration) else None


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    study, results = load_study("network"), Results(recording.measurements)
    published = Table(
        ("Configuration", "Relative to", *study["published"]["head"]),
        tuple((*names.split(" / "), *map(str, row)) for names, row in study["published"]["rows"].items()),
    )
    sections = (
        Section("paths", _compared(results, "paths", "a byte")),
        Section("published", published),
        Section("offloads", _compared(results, "offloads", "a byte")),
        Section("sizes", _compared(results, "sizes", "a byte")),
        Section("requests", _compared(results, "requests", "a request")),
        Section("loads", _loads(results)),
    )
    said = verdict(results, study["receiver"][GUEST]["instruction_cost"])
    guests = [load.path for load in map(_parse, results.values.emulated) if load]
    return page(study, recording, said, sections, every_value(recording.measurements), emulated=sorted(guests))


def _compared(results: Results, group: str, each: str) -> Table:
    """Ratios to the baseline, a row for each event that was counted; `each` is what costs, such as "a byte"."""
    rows = (
        (
            *(results.values.label(load.name) for load in (one.load, one.baseline)),
            *(three_digits(one.throughput.value), interval(one.throughput)),
            *("CPU time" if one.event == CPU else one.event, three_digits(one.counted.value)),
            *((three_digits(one.cost.value), interval(one.cost)) if one.cost else (MISSING, "")),
            str(one.throughput.n),
        )
        for one in results.of(group)
    )
    head = ("Configuration", "Relative to", "Throughput", "95 % interval", "Of what", "Ratio")
    return Table((*head, f"Cost of {each}", "95 % interval of that", "n"), tuple(rows))


def _loads(results: Results) -> Table:
    """What each load of a web server reached, how long its answers took, and what one cost."""
    units = {one.test: unit_of(one.unit) for one in results.values.measurements}

    def cell(load: WebLoad, test: str) -> str:
        found = estimate(results.values.tests[load.name].get(test, ()))
        return units[test].write(found.value) if found else MISSING

    rows = ((results.values.label(one.name), *(cell(one, test) for test in OF_A_LOAD)) for one in results.web_loads)
    return Table(("Load", *OF_A_LOAD.values()), tuple(rows))


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, of_study: float) -> list[str]:
    """For readers who read no further: the paths first, each by the configuration in which it costs most.

    That is one in which it costs more beyond noise, if there is any: where little is sent, noise is the greatest ratio.
    """
    judged = results.judged_by

    def each_path(*, emulated: bool) -> Iterator[str]:
        for group, what in (("paths", "a byte"), ("requests", "a request")):
            there = [one for one in results.of(group) if one.emulated == emulated]
            for path in dict.fromkeys(one.load.path for one in there):
                on_path = [one for one in there if one.load.path == path]
                yield from _most(on_path, judged, f"{_on(path)}, {what}", lambda one: _on(one.baseline.path).lower())

    sizes = [one for one in results.of("sizes") if not one.emulated]
    found = [
        *each_path(emulated=False),
        *_most(results.of("offloads"), judged, "Without segmentation offloads, a byte", lambda _: "with them"),
        *_most(sizes, judged, "In small messages, a byte", lambda one: f"in messages of {one.baseline.size} bytes"),
        *_not_reached(results),
    ]
    if emulated := " ".join(each_path(emulated=True)):
        found.append(f"On emulated hardware, so no more than a sign that it works. {emulated}")
    if not found:
        return ["No configuration was measured together with one to compare it with, so there is nothing to say yet."]
    if results.of("paths"):
        found.append(
            f"In the study, a byte received in a Xen guest cost {of_study:g} times the driver domain's instructions."
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
    known = [(one.cost, one) for one in of if one.cost and one.event == judged]
    if not known:
        return
    more = [(cost, one) for cost, one in known if cost.differs(1) and cost.value > 1]
    cost, most = max(more or known, key=lambda each: each[0].value)
    ends, unit = interval(cost), "as much CPU time" if judged == CPU else f"as many {judged}"
    where = f"{most.load.name}{ends and f', 95 % interval {ends}'}"
    noise = "" if not ends or cost.differs(1) else "; that is within noise"
    size = "" if len(known) == 1 else "up to "
    yield f"{begin} costs {size}{cost.value:.2f} times {unit} as {than(most)} ({where}){noise}."


def _not_reached(results: Results) -> list[str]:
    """Loads of which some requests failed, or came later and later."""
    few = [
        f"{results.values.label(one.name)}: {significant(reached.value)} answered"
        for one in results.web_loads
        if (reached := estimate(results.values.tests[one.name].get(REQUESTS, ()))) and reached.value < ENOUGH * one.rate
    ]
    return [f"Not all requests were answered in time ({'; '.join(few)}): the server was saturated."] if few else []
