"""The tables: every value with the spread of its repetitions, and the study's beside it where it prints one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC
from lab.report.allocation.groups import Case, Group
from lab.report.allocation.steps import AFTER, Measured
from lab.report.allocation.study import AllocationStudy, Published
from lab.report.statistics import Estimate, estimate
from lab.report.tables import Table, time
from lab.report.units import CPU_TIME, CPUS, MISSING, RATE, RESPONSE, SHARE, Unit, significant

_SPREAD = ("Mean", "Std. deviation", "95 % interval", "n")


def answers(of: Sequence[Group], study: AllocationStudy) -> Table | None:
    """The main results of each group beside the study's; None if there are none."""
    rows = tuple(
        (group.name, what, *spread(found, unit), published)
        for group in of
        for what, found, unit, published in _answers(group, study.of(group.containers, group.pinning, group.load))
    )
    return Table(("Containers", "", *_SPREAD, f"{study.short}, Xen"), rows) if rows else None


Answer = tuple[str, Estimate | None, Unit, str]


def _answers(group: Group, published: Published | None) -> Iterator[Answer]:
    def theirs(unit: Unit, value: Callable[[Published], float | None]) -> str:
        found = value(published) if published else None
        return "" if found is None else unit.write(found)

    static = estimate(group.values(lambda one: one.host, STATIC))
    yield "Host's own CPU, static", static, CPUS, theirs(CPUS, lambda of: of.host_static)
    for seconds in sorted({group.intervals[-1], group.intervals[0]}, reverse=True):
        used = estimate([one.host for one in group.steps if (one.step.mode, one.step.interval) == (DYNAMIC, seconds)])
        printed = theirs(CPUS, lambda of, seconds=seconds: of.host_dynamic.get(seconds))  # type: ignore[misc]
        yield f"Host's own CPU, switched every {seconds} s", used, CPUS, printed
    line = group.host_line(DYNAMIC)
    what = "CPU of a switch, from the fitted line"
    if line is not None and line.r_squared is not None:
        what += f" (R² {significant(line.r_squared)})"
    yield what, line.slope if line else None, CPU_TIME, theirs(CPU_TIME, lambda of: of.cpu_of_a_switch)
    control = group.host_line(CONTROL)
    call = theirs(SHARE, lambda of: of.call_share)
    yield "of it the call, from the control's line", control.slope if control else None, CPU_TIME, call
    rest = theirs(SHARE, lambda of: None if of.call_share is None else 1 - of.call_share)
    yield "of it the reallocation, beyond the control", group.reallocation, CPU_TIME, rest
    writing = group.per_call(lambda one: one.call_cpu, DYNAMIC)
    yield "CPU of writing all caps, in the lab's process", writing, CPU_TIME, ""
    for what, of, printed in (
        ("capacity", lambda one: one.capacity, theirs(SHARE, lambda of: of.capacity_overhead)),
        ("performance", lambda one: one.performance, theirs(SHARE, lambda of: of.performance_overhead)),
    ):
        if worst := group.worst(of):
            case, lost = worst
            yield f"Largest {what} overhead: {case.magnitude} every {case.interval} s", lost, SHARE, printed
    spike = estimate(group.values(lambda one: one.host_in("0"), DYNAMIC))
    yield "Host's own CPU in the second of a switch", spike, CPUS, theirs(CPUS, lambda of: of.host_spike)
    raised, cut = delays(group)
    least_and_most = published.delay_seconds if published else ()
    delay = " to ".join(map(RESPONSE.write, least_and_most))
    yield "Delay until a larger cap takes effect", raised, RESPONSE, delay
    yield "Delay until a smaller cap takes effect", cut, RESPONSE, delay


def delays(group: Group) -> tuple[Estimate | None, Estimate | None]:
    """How soon a larger and a smaller cap take effect, in seconds, over all switched steps."""
    raised = group.values(lambda one: one.delay(one.step.high, one.step.low), DYNAMIC)
    cut = group.values(lambda one: one.delay(one.step.low, one.step.high), DYNAMIC)
    return estimate(raised), estimate(cut)


def overheads(of: Sequence[Group], value: Callable[[Measured], float], unit: Unit) -> Table:
    """A value of each case, and what it lost relative to the static steps."""
    return Table(
        ("Containers", "Caps", "Interval", f"Mean, {unit.axis}", "Overhead", *_SPREAD[1:]),
        tuple(
            (
                *_case(group, case),
                unit.number(found.mean) if (found := group.estimate(case, value)) else MISSING,
                *(("",) * 4 if case.mode == STATIC else spread(group.overhead(case, value), SHARE)),
            )
            for group in of
            for case in group.cases
        ),
    )


def host(of: Sequence[Group]) -> Table:
    """The host's CPU in each case."""
    return Table(
        ("Containers", "Caps", "Interval", *_SPREAD),
        tuple(
            (*_case(group, case), *spread(group.estimate(case, lambda one: one.host), CPUS))
            for group in of
            for case in group.cases
        ),
    )


def switches(of: Sequence[Group]) -> Table:
    """What happens at a switch, and at the control's calls."""
    rows = []
    for group in of:
        for mode in (CONTROL, DYNAMIC):
            found: list[Answer] = [
                ("Host's own CPU in the second of it", _over(group, mode, lambda one: one.host_in("0")), CPUS, ""),
                ("Host's own CPU from 2 s after it on", _over(group, mode, lambda one: one.host_in(*AFTER)), CPUS, ""),
                (
                    "CPU of one, from its first seconds",
                    _over(group, mode, lambda one: one.cpu_of_a_switch),
                    CPU_TIME,
                    "",
                ),
                ("CPU of the writing itself", group.per_call(lambda one: one.call_cpu, mode), CPU_TIME, ""),
                ("Time that the writing takes", group.per_call(lambda one: one.call_seconds, mode), RESPONSE, ""),
            ]
            if mode == DYNAMIC:
                raised, cut = delays(group)
                found += [
                    ("Delay until a larger cap takes effect", raised, RESPONSE, ""),
                    ("Delay until a smaller cap takes effect", cut, RESPONSE, ""),
                ]
            if not any(value for _, value, _, _ in found):
                continue
            name = "switch" if mode == DYNAMIC else "control"
            rows += [(group.name, name, what, *spread(value, unit)) for what, value, unit, _ in found]
    return Table(("Containers", "", "", *_SPREAD), tuple(rows))


def _over(group: Group, mode: str, of: Callable[[Measured], float | None]) -> Estimate | None:
    return estimate(group.values(of, mode))


def steps(of: Sequence[Measured]) -> Table:
    """Every step with its times and the values that all others are made of."""
    return Table(
        ("Step", "Start", "Seconds", "Calls", "Containers' CPU", "Host's own CPU", f"Tasks or requests, {RATE.axis}"),
        tuple(
            (
                one.step.name,
                time(one.attempt),
                f"{one.duration:.0f}",
                f"{one.calls:.0f}",
                *(
                    (CPUS.number(one.capacity), CPUS.number(one.host), RATE.number(one.performance))
                    if one.duration
                    else ("",) * 3
                ),
            )
            for one in of
        ),
    )


def spread(found: Estimate | None, unit: Unit) -> tuple[str, str, str, str]:
    """Cells for mean, sample standard deviation, 95 % interval and number of values."""
    if found is None:
        return MISSING, "", "", ""
    deviation = "" if found.deviation is None else unit.write(found.deviation)
    return unit.write(found.mean), deviation, interval(found, unit), str(found.n)


def interval(found: Estimate, unit: Unit) -> str:
    """Its ends in words; nothing of a single value."""
    if found.low is None or found.high is None:
        return ""
    return f"{unit.write(found.low)} to {unit.write(found.high)}"


def _case(group: Group, case: Case) -> tuple[str, str, str]:
    return group.name, case.what, f"{case.interval} s"
