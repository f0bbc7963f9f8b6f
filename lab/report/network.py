"""The report of network costs: configurations compared with one that differs in one respect, per byte and per request.

The cost ratio follows Menon et al. 2005: the ratio of CPU time or of an event over the ratio of throughput.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab.metrics import Measurement
from lab.network.experiment import CPU, FAILED, P50, P99, PER_BYTE, PER_REQUEST, REQUESTS, THROUGHPUT
from lab.network.paths import EVENTS
from lab.network.scenario import OFFLOADS, ON, PATHS, UNCHANGED, Configuration, WebLoad, parse
from lab.report.comparison import Pair, Values, furthest
from lab.report.page import Columns, Page, Section, Table, load_study, table
from lab.report.recorded import Recording
from lab.report.statistics import Estimate, interval, three_digits
from lab.report.units import MISSING, significant, unit_of

INSTRUCTIONS, _ = EVENTS
COUNTED = (*EVENTS, CPU)
GUEST = "xen-guest1 / xen-domain0"  # of the study: on its own CPU, like both ends here
COST = 2  # column of the study's table: instructions of a byte
ENOUGH = 0.98  # of the rate: the load is reached
OF_A_LOAD = {REQUESTS: "Answered", FAILED: "Failed", P50: "p50", P99: "p99", CPU + PER_REQUEST: "CPU time each"}
EACH = {"paths": "a byte", "offloads": "a byte", "sizes": "a byte", "requests": "a request"}  # by section
Load = Configuration | WebLoad


@dataclass(frozen=True)
class Compared:
    """Ratios to a baseline: of throughput, of an event per second, and of the event's count per byte or request."""

    group: str
    load: Load
    baseline: Load
    event: str
    throughput: Estimate
    counted: Estimate
    cost: Estimate | None
    emulated: bool


class Results:
    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self.values = Values(measurements)
        loads = sorted((one for name in sorted(self.values.tests) if (one := parse(name))), key=_rank)
        self.web_loads = [one for one in loads if isinstance(one, WebLoad)]
        self.judged_by = INSTRUCTIONS if INSTRUCTIONS in self.values.units else CPU
        self.compared = [
            compared
            for group, one, base in _baselines(loads)
            if base != one
            for compared in self._compare(group, one, base)
        ]

    def of(self, group: str) -> list[Compared]:
        return [one for one in self.compared if one.group == group]

    def _compare(self, group: str, one: Load, baseline: Load) -> Iterator[Compared]:
        found = {each.test: each for each in self.values.compare([Pair(group, one.name, baseline.name)])}
        test, per = (REQUESTS, PER_REQUEST) if isinstance(one, WebLoad) else (THROUGHPUT, PER_BYTE)
        for event in COUNTED if test in found else ():
            if event in found:
                throughput, counted, cost = found[test].ratio, found[event].ratio, found.get(event + per)
                # The study's ratio, with the relative interval of the repetitions' costs. An interval from both ratios'
                # intervals would be too wide, as a slow repetition lowers both.
                of_means = counted.value / throughput.value
                each = cost.ratio.mapped(of_means / cost.ratio.value) if cost and cost.ratio.value > 0 else None
                yield Compared(group, one, baseline, event, throughput, counted, each, found[test].emulated)


def _rank(one: Load) -> tuple[int, str]:
    """Sort key: guests come last."""
    return (PATHS.index(one.path) if one.path in PATHS else len(PATHS), one.path)


def _baselines(loads: Sequence[Load]) -> Iterator[tuple[str, Load, Load]]:
    """The section of a comparison, a load, and what it is compared with, which may not have been measured."""
    sizes = [one.size for one in loads if isinstance(one, Configuration)]
    for one in loads:
        first = min((each for each in loads if type(each) is type(one)), key=_rank).path
        if isinstance(one, WebLoad):
            yield "requests", one, replace(one, path=first)
            continue
        on = ON if first in PATHS else UNCHANGED  # guests are compared with offloads
        yield "paths", one, replace(one, path=first, offloads=on if one.offloads == UNCHANGED else one.offloads)
        if one.offloads in OFFLOADS:
            yield "offloads", one, replace(one, offloads=ON)
        yield "sizes", one, replace(one, size=max(sizes))


def write_up(recording: Recording) -> Page:
    study, results = load_study("network"), Results(recording.measurements)
    published = Table(
        ("Configuration", "Relative to", *study["published"]["head"]),
        tuple((*names.split(" / "), *map(str, row)) for names, row in study["published"]["rows"].items()),
    )
    first, *others = (Section(group, _compared(results, group)) for group in EACH)
    sections = [first, Section("published", published), *others, Section("loads", _loads(results))]
    said = verdict(results, study["published"]["rows"][GUEST][COST])
    guests = sorted(load.path for load in map(parse, results.values.emulated) if load)
    return Page(recording, said, sections, emulated=guests)


def _compared(results: Results, group: str) -> Table:
    columns: Columns[Compared] = (
        ("Configuration", lambda one: results.values.label(one.load.name)),
        ("Relative to", lambda one: results.values.label(one.baseline.name)),
        ("Throughput", lambda one: three_digits(one.throughput.value)),
        ("95 % interval", lambda one: interval(one.throughput)),
        ("Of what", lambda one: "CPU time" if one.event == CPU else one.event),
        ("Ratio", lambda one: three_digits(one.counted.value)),
        (f"Cost of {EACH[group]}", lambda one: three_digits(one.cost.value) if one.cost else MISSING),
        ("95 % interval of that", lambda one: interval(one.cost)),
        ("n", lambda one: str(one.throughput.n)),
    )
    return table(results.of(group), columns)


def _loads(results: Results) -> Table:
    def cell(load: WebLoad, test: str) -> str:
        found = results.values.mean(load.name, test)
        return unit_of(results.values.units[test][0]).write(found.value) if found else MISSING

    rows = ((results.values.label(one.name), *(cell(one, test) for test in OF_A_LOAD)) for one in results.web_loads)
    return Table(("Load", *OF_A_LOAD.values()), tuple(rows))


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, of_study: float) -> list[str]:
    """A summary: the paths first, each in the configuration with the highest cost."""
    judged = results.judged_by

    def each_path(*, emulated: bool) -> Iterator[str]:
        for group in ("paths", "requests"):
            there = [one for one in results.of(group) if one.emulated == emulated]
            for path in dict.fromkeys(one.load.path for one in there):
                on_path = [one for one in there if one.load.path == path]
                begin = f"{_on(path)}, {EACH[group]}"
                yield from _most(on_path, judged, begin, lambda one: _on(one.baseline.path).lower())

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
    return f"Over {path}" if path in PATHS else f"To and from {path}"


def _most(of: Sequence[Compared], judged: str, begin: str, than: Callable[[Compared], str]) -> Iterator[str]:
    """Where it costs most; nothing if that wasn't counted anywhere."""
    known = [(one.cost, one) for one in of if one.cost and one.event == judged]
    if not known:
        return
    cost, most = furthest(known, 1)
    ends, unit = interval(cost), "as much CPU time" if judged == CPU else f"as many {judged}"
    where = f"{most.load.name}{ends and f', 95 % interval {ends}'}"
    noise = "" if not ends or cost.differs(1) else "; that is within noise"
    size = "" if len(known) == 1 else "up to "
    yield f"{begin} costs {size}{cost.value:.2f} times {unit} as {than(most)} ({where}){noise}."


def _not_reached(results: Results) -> list[str]:
    """Loads in which some requests failed, or were increasingly late."""
    few = [
        f"{results.values.label(one.name)}: {significant(reached.value)} answered"
        for one in results.web_loads
        if (reached := results.values.mean(one.name, REQUESTS)) and reached.value < ENOUGH * one.rate
    ]
    return [f"Not all requests were answered in time ({'; '.join(few)}): the server was saturated."] if few else []
