"""The tables: configuration x event as in the study, the study's own, and every measurement."""

from __future__ import annotations

from collections.abc import Sequence

from lab.network.experiment import CPU, FAILED, P50, P99, PER_REQUEST, REQUESTS
from lab.network.scenario import WebLoad
from lab.report.network.comparison import C, Compared, Results
from lab.report.network.study import NetworkStudy
from lab.report.statistics import Ratio, estimate
from lab.report.tables import Table
from lab.report.units import MISSING, significant

HEADS = {CPU: "CPU time"}


def number(value: float | None) -> str:
    """A ratio's digits; empty if there is none."""
    return "" if value is None else f"{value:.3f}"


def interval(of: Ratio) -> str:
    """Its ends; empty of single repetitions."""
    return "" if of.low is None or of.high is None else f"{of.low:.3f} to {of.high:.3f}"


def compared(of: Sequence[Compared[C]], results: Results, each: str) -> Table:
    """Ratios to the baseline: configuration x event; `each` is what costs, such as "a byte"."""
    heads = [HEADS.get(name, name.capitalize()) for name in results.counted]
    rows = tuple(_row(one, results) for one in of)
    counted = (cell for head in heads for cell in (head, f"Cost of {each}, {head}", "95 % interval of that"))
    return Table(("Configuration", "Relative to", "Throughput", "95 % interval", *counted, "n"), rows)


def _row(one: Compared[C], results: Results) -> tuple[str, ...]:
    return (
        named(one.configuration.name, results),
        named(one.baseline.name, results),
        number(one.throughput.value),
        interval(one.throughput),
        *(cell for name in results.counted for cell in _event(one, name)),
        str(one.n),
    )


def named(name: str, results: Results) -> str:
    """A configuration's name; of an emulated guest, it says so."""
    return f"{name} (emulated)" if name in results.emulated else name


def requests(results: Results) -> Table:
    """What each load of a web server reached, how long its answers took, and what one cost."""
    heads = {
        REQUESTS: "Requests answered",
        FAILED: "Failed",
        P50: "p50",
        P99: "p99",
        CPU + PER_REQUEST: "CPU time each",
    }
    rows = [
        (
            named(one.name, results),
            *(_mean(results, test, one) for test in heads),
            str(len(results.of(REQUESTS, one))),
        )
        for one in results.loads
    ]
    return Table(("Load", *heads.values(), "n"), tuple(rows))


def _mean(results: Results, test: str, one: WebLoad) -> str:
    unit = {each.test: each.unit for each in results.measurements if each.environment == one.name}.get(test, "")
    spread = estimate(results.of(test, one))
    return value(spread.mean, unit) if spread else MISSING


def _event(one: Compared[C], name: str) -> tuple[str, str, str]:
    cost = one.cost.get(name)
    if cost is None:
        return (MISSING, MISSING, "")
    return number(one.counted[name].value), number(cost.value), interval(cost)


def published(study: NetworkStudy) -> Table:
    """What the study prints of its receiver."""
    events = {"data_tlb": "Data TLB", "instruction_tlb": "Instruction TLB", "l2": "L2"}
    return Table(
        (
            *("Configuration", "Relative to", "Instructions", "Throughput", "Cost of a byte, Instructions"),
            *(f"{name} misses per instruction" for name in events.values()),
        ),
        tuple(
            (
                *(of, to, number(one.instructions), number(one.throughput), f"{one.instruction_cost:g}"),
                *(f"{one.miss_rates[key]:g}" if key in one.miss_rates else "" for key in events),
            )
            for (of, to), one in study.receiver.items()
        ),
    )


def value(of: float, unit: str) -> str:
    """A measurement as people read it.

    >>> value(1.5e9, "bytes/s"), value(7.2e-10, "s/byte"), value(1.35, "s/s"), value(0.0031, "s")
    ('1500 MB/s', '0.72 ns/byte', '1.35 s/s', '3.1 ms')
    """
    factor, shown = _SHOWN.get(unit, (1, unit))
    return f"{significant(of * factor)} {shown}"


_SHOWN = {
    "bytes/s": (1e-6, "MB/s"),
    "s/byte": (1e9, "ns/byte"),
    "s/request": (1e6, "µs/request"),
    "s": (1e3, "ms"),
}


def configurations(results: Results) -> Table:
    """Every configuration with all that was measured, from which all else follows."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in results.measurements:
        found.setdefault((named(one.environment, results), one.test, one.unit), []).append(one.value)
    rows = []
    for (environment, test, unit), values in sorted(found.items()):
        if spread := estimate(values):
            deviation = "" if spread.deviation is None else value(spread.deviation, unit)
            ends = ""
            if spread.low is not None and spread.high is not None:
                ends = f"{value(spread.low, unit)} to {value(spread.high, unit)}"
            rows.append((environment, test, value(spread.mean, unit), deviation, ends, str(spread.n)))
    return Table(("Configuration", "", "Mean", "Std. deviation", "95 % interval", "n"), tuple(rows))
