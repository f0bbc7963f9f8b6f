"""The report of network costs: configurations beside one that differs in one thing, and what bytes and requests cost.

The cost ratio is that of Menon et al. 2005: the ratio of CPU time or of an event over the ratio of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from lab.measurements import Measurement
from lab.network.experiment import CPU, FAILED, P50, P99, PER_BYTE, PER_REQUEST, REQUESTS, THROUGHPUT
from lab.network.paths import EVENTS
from lab.network.scenario import OFFLOADS, ON, PATHS, UNCHANGED, Configuration, WebLoad
from lab.report.page import Builder, Page, Study, Table, every_value, interval, label
from lab.report.recorded import Recording, values
from lab.report.statistics import Estimate, estimate, ratio
from lab.report.units import MISSING, significant, write

INSTRUCTIONS, _ = EVENTS
COUNTED = (*EVENTS, CPU)
GUEST = "xen-guest1 / xen-domain0"  # of the study: on a CPU of its own, as both ends are here
ENOUGH = 0.98  # of the rate: a load that is reached
_OFFLOADS = (*OFFLOADS, UNCHANGED)
C = TypeVar("C", bound=Configuration | WebLoad)


@dataclass(frozen=True)
class Compared(Generic[C]):
    """Ratios to a baseline: of throughput, of what was counted per second, and of what each byte or request cost."""

    configuration: C
    baseline: C
    throughput: Estimate
    counted: dict[str, Estimate]
    cost: dict[str, Estimate]


@dataclass(frozen=True)
class Results:
    """All that a run has measured."""

    measurements: Sequence[Measurement]

    @cached_property
    def configurations(self) -> list[Configuration]:
        """All of which anything was measured: by direction, size, offloads and path."""
        found = {one for each in self.measurements if (one := Configuration.parse(each.environment))}
        return sorted(found, key=lambda one: (one.direction, one.size, _OFFLOADS.index(one.offloads), _rank(one.path)))

    @cached_property
    def loads(self) -> list[WebLoad]:
        """All loads of a web server that were measured: by size, rate and path."""
        found = {one for each in self.measurements if (one := WebLoad.parse(each.environment))}
        return sorted(found, key=lambda one: (one.size, one.rate, _rank(one.path)))

    @cached_property
    def emulated(self) -> set[str]:
        """The names of configurations of emulated guests."""
        return {one.environment for one in self.measurements if one.emulated}

    @cached_property
    def counted(self) -> list[str]:
        """Of `COUNTED`, what was."""
        there_are = {one.test for one in self.measurements}
        return [name for name in COUNTED if name in there_are]

    @property
    def judged_by(self) -> str:
        """What the cost of a byte is in: instructions where they were counted, else CPU time."""
        return INSTRUCTIONS if INSTRUCTIONS in self.counted else CPU

    @cached_property
    def paths(self) -> list[Compared[Configuration]]:
        """Each path beside the first of `PATHS` that was measured; those to guests beside it with offloads."""
        first = _first(one.path for one in self.configurations)
        offloads = ON if first in PATHS else UNCHANGED
        return self._beside(
            self.configurations,
            lambda one: replace(one, path=first, offloads=offloads if one.offloads == UNCHANGED else one.offloads),
        )

    @cached_property
    def offloads(self) -> list[Compared[Configuration]]:
        """Without offloads beside with them."""
        own = [one for one in self.configurations if one.offloads in OFFLOADS]
        return self._beside(own, lambda one: replace(one, offloads=ON))

    @cached_property
    def sizes(self) -> list[Compared[Configuration]]:
        """Smaller messages beside the largest."""
        largest = max((one.size for one in self.configurations), default=0)
        return self._beside(self.configurations, lambda one: replace(one, size=largest))

    @cached_property
    def requests(self) -> list[Compared[WebLoad]]:
        """Each load of a web server beside the same over the first of `PATHS`."""
        first = _first(one.path for one in self.loads)
        return self._beside(self.loads, lambda one: replace(one, path=first))

    def of(self, test: str, one: Configuration | WebLoad) -> list[float]:
        """A test's values, by repetition."""
        return values(self.measurements, test, one.name)

    def _beside(self, all_of: Sequence[C], baseline_of: Callable[[C], C]) -> list[Compared[C]]:
        pairs = ((one, baseline_of(one)) for one in all_of)
        return [found for one, baseline in pairs if one != baseline and (found := self._compare(one, baseline))]

    def _compare(self, one: C, baseline: C) -> Compared[C] | None:
        """None unless both were measured."""
        test, per = (REQUESTS, PER_REQUEST) if isinstance(one, WebLoad) else (THROUGHPUT, PER_BYTE)
        throughput = self._ratio(test, one, baseline)
        if throughput is None:
            return None
        counted = {name: found for name in self.counted if (found := self._ratio(name, one, baseline))}
        # The study's ratio, with the relative interval of the repetitions' costs: not with one from both ratios'
        # intervals, as in a repetition that is slow both are smaller.
        cost = {
            name: each.scaled(of.value / throughput.value / each.value)
            for name, of in counted.items()
            if (each := self._ratio(name + per, one, baseline)) and each.value > 0
        }
        return Compared(one, baseline, throughput, counted, cost)

    def _ratio(self, test: str, one: C, baseline: C) -> Estimate | None:
        return ratio(self.of(test, one), self.of(test, baseline))


def _rank(path: str) -> tuple[int, str]:
    """Guests come last."""
    return (PATHS.index(path) if path in PATHS else len(PATHS), path)


def _first(paths: Iterable[str]) -> str:
    return min(paths, key=_rank, default="")


def write_up(recording: Recording) -> Page:
    """The report of a run."""
    study, results = Study.load("network"), Results(recording.measurements)
    build = Builder(study, recording)
    return build.page(
        verdict(results, study),
        (
            build.section("paths", _compared(results.paths, results, "a byte")),
            build.section("published", _published(study)),
            build.section("offloads", _compared(results.offloads, results, "a byte")),
            build.section("sizes", _compared(results.sizes, results, "a byte")),
            build.section("requests", _compared(results.requests, results, "a request")),
            build.section("loads", _requests(results)),
        ),
        every_value(recording.measurements),
        emulated=dict.fromkeys(one.path for one in results.configurations if one.name in results.emulated),
    )


# --- Tables -----------------------------------------------------------------------------------------------------------


def _number(value: float | None) -> str:
    """A ratio's digits; empty if there is none."""
    return "" if value is None else f"{value:.3f}"


def _compared(of: Sequence[Compared[C]], results: Results, each: str) -> Table:
    """Ratios to the baseline: configuration x event; `each` is what costs, such as "a byte"."""
    heads = ["CPU time" if name == CPU else name.capitalize() for name in results.counted]
    counted = (cell for head in heads for cell in (head, f"Cost of {each}, {head}", "95 % interval of that"))
    rows = [
        (
            _named(one.configuration.name, results),
            _named(one.baseline.name, results),
            _number(one.throughput.value),
            interval(one.throughput, _number),
            *(cell for name in results.counted for cell in _event(one, name)),
            str(one.throughput.n),
        )
        for one in of
    ]
    return Table(("Configuration", "Relative to", "Throughput", "95 % interval", *counted, "n"), tuple(rows))


def _event(one: Compared[C], name: str) -> tuple[str, str, str]:
    if (cost := one.cost.get(name)) is None:
        return (MISSING, MISSING, "")
    return _number(one.counted[name].value), _number(cost.value), interval(cost, _number)


def _named(name: str, results: Results) -> str:
    return label(name, emulated=name in results.emulated)


def _requests(results: Results) -> Table:
    """What each load of a web server reached, how long its answers took, and what one cost."""
    heads = {
        REQUESTS: "Requests answered",
        FAILED: "Failed",
        P50: "p50",
        P99: "p99",
        CPU + PER_REQUEST: "CPU time each",
    }
    units = {one.test: one.unit for one in results.measurements}

    def mean(test: str, one: WebLoad) -> str:
        found = estimate(results.of(test, one))
        return write(found.value, units[test]) if found else MISSING

    rows = (
        (_named(one.name, results), *(mean(test, one) for test in heads), str(len(results.of(REQUESTS, one))))
        for one in results.loads
    )
    return Table(("Load", *heads.values(), "n"), tuple(rows))


def _published(study: Study) -> Table:
    """What the study prints of its receiver."""
    events = {"data_tlb": "Data TLB", "instruction_tlb": "Instruction TLB", "l2": "L2"}
    rows = []
    for names, one in study.content["receiver"].items():
        misses = one["miss_rates"]
        ratios = (*map(_number, (one.get("instructions"), one.get("throughput"))), f"{one['instruction_cost']:g}")
        rows.append((*names.split(" / "), *ratios, *(f"{misses[key]:g}" if key in misses else "" for key in events)))
    head = ("Configuration", "Relative to", "Instructions", "Throughput", "Cost of a byte, Instructions")
    return Table((*head, *(f"{name} misses per instruction" for name in events.values())), tuple(rows))


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, study: Study) -> list[str]:
    """For readers who read no further: the paths first, each by the configuration in which it costs most.

    That is one in which it costs more beyond noise, if there is any: where little is sent, noise is the greatest ratio.
    """
    judged = results.judged_by

    def real(of: Sequence[Compared[C]], *, is_real: bool = True) -> list[Compared[C]]:
        names = results.emulated
        return [one for one in of if is_real != bool({one.configuration.name, one.baseline.name} & names)]

    def each_path(*, is_real: bool) -> Iterator[str]:
        yield from _by_path(real(results.paths, is_real=is_real), judged, "a byte")
        yield from _by_path(real(results.requests, is_real=is_real), judged, "a request")

    found = [
        *each_path(is_real=True),
        *_most(results.offloads, judged, "Without segmentation offloads, a byte", lambda _: "with them"),
        *_most(
            real(results.sizes),
            judged,
            "In small messages, a byte",
            lambda one: f"in messages of {one.baseline.size} bytes",
        ),
        *_not_reached(results),
    ]
    if emulated := " ".join(each_path(is_real=False)):
        found.append(f"On emulated hardware, so no more than a sign that it works. {emulated}")
    if not found:
        return ["No configuration was measured together with one to compare it with, so there is nothing to say yet."]
    if results.paths:
        theirs = study.content["receiver"][GUEST]["instruction_cost"]
        found.append(
            f"In the study, a byte received in a Xen guest cost {theirs:g} times the driver domain's instructions."
        )
    if judged == CPU:
        found.append(
            "This machine counted no instructions, so costs are CPU seconds of the whole machine, softirqs included."
        )
    return found


def _by_path(of: Sequence[Compared[C]], judged: str, what: str) -> Iterator[str]:
    for path in dict.fromkeys(one.configuration.path for one in of):
        on_path = [one for one in of if one.configuration.path == path]
        yield from _most(on_path, judged, f"{_on(path)}, {what}", lambda one: _on(one.baseline.path).lower())


def _on(path: str) -> str:
    """
    >>> _on("veth"), _on("guest web1")
    ('Over veth', 'To and from guest web1')
    """
    return f"Over {path}" if path in PATHS else f"To and from {path}"


def _most(of: Sequence[Compared[C]], judged: str, begin: str, than: Callable[[Compared[C]], str]) -> Iterator[str]:
    """Where it costs most; nothing if that wasn't counted anywhere."""
    known = [one for one in of if judged in one.cost]
    if not known:
        return
    more = [one for one in known if one.cost[judged].differs(1) and one.cost[judged].value > 1]
    most = max(more or known, key=lambda one: one.cost[judged].value)
    cost, unit = most.cost[judged], "as much CPU time" if judged == CPU else f"as many {judged}"
    ends = interval(cost, _number)
    where = f"{most.configuration.name}{f', 95 % interval {ends}' if ends else ''}"
    noise = "" if not ends or cost.differs(1) else "; that is within noise"
    size = "" if len(known) == 1 else "up to "
    yield f"{begin} costs {size}{cost.value:.2f} times {unit} as {than(most)} ({where}){noise}."


def _not_reached(results: Results) -> list[str]:
    """Loads of which some requests failed, or came later and later."""
    few = [
        f"{_named(one.name, results)}: {significant(reached.value)} answered"
        for one in results.loads
        if (reached := estimate(results.of(REQUESTS, one))) and reached.value < ENOUGH * one.rate
    ]
    return [f"Not all requests were answered in time ({'; '.join(few)}): the server was saturated."] if few else []
