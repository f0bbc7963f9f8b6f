"""The report's tables, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.report.judgement import Judged
from lab.report.loads import Load, count
from lab.report.results import StepResult, causes, mean, neighbours
from lab.report.sections import Quantity
from lab.report.units import MISSING, RESPONSE, SHARE, significant


@dataclass(frozen=True)
class Table:
    """Cells as text, under a head; every row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def overview(of: Sequence[Load]) -> Table | None:
    """Instances down, clients across: every load met or missed at a glance; None if nothing was judged."""
    if not any(load.judged for load in of):
        return None
    clients = sorted({load.clients for load in of})
    rows: dict[tuple[str, int], dict[int, Load]] = {}
    for load in of:
        rows.setdefault((load.placement, load.instances), {})[load.clients] = load
    many = len({placement for placement, _ in rows}) > 1
    return Table(
        ("Clients per instance", *map(str, clients)),
        tuple(
            (
                count(instances, "instance") + (f", {placement}" if many else ""),
                *(_met(row[number]) if number in row else "" for number in clients),
            )
            for (placement, instances), row in rows.items()
        ),
    )


def _met(load: Load) -> str:
    """Every objective met or missed, and the mean response time over instances and repetitions."""
    response = mean(load.values(lambda each: each.of_instances("mean")))
    return f"{_IN_A_WORD[load.met]}, {RESPONSE.write(response)}"


_IN_A_WORD = {True: "✓ met", False: "✗ MISSED", None: "not judged"}


def figures(quantities: Sequence[Quantity], of: Sequence[Load]) -> Table:
    """A row for each load; quantities that aren't drawn have a column only if it isn't empty."""
    shown = [quantity for quantity in quantities if quantity.drawn or any(load.values(quantity.of) for load in of)]
    table = Table(
        head=(*_LOAD, *(f"{quantity.title}, {quantity.unit.axis}" for quantity in shown)),
        rows=tuple((*_load(load), *(_cell(quantity, load) for quantity in shown)) for load in of),
    )
    return _without_one_placement(table)


def objectives(of: Sequence[Load]) -> Table | None:
    """A row for each step: its objectives met or missed, and why most likely; None if nothing was judged."""
    judged = [one for load in of for one in load.judged]
    if not judged:
        return None
    heads = {
        objective: " or ".join(sorted({_promise(one) for one in judged if one.objective == objective}))
        for objective in ("mean", "latency", "availability")
        if any(one.objective == objective for one in judged)
    }
    names = any(app.neighbours for load in of for each in load.results for app in each.instances)
    alerts = any(app.firing for load in of for each in load.results for app in each.instances)
    rows = []
    for load in of:
        for each in load.results:
            verdicts = [one for app in each.instances for one in app.judged]
            missed = any(one.met is False for one in verdicts)
            shares = causes([each]) if missed else {}
            named = neighbours([each]) if missed else {}
            rows.append(
                (
                    str(each.step),
                    *_load(load)[:3],
                    *(_verdict(verdicts, objective) for objective in heads),
                    ", ".join(f"{cause} {SHARE.write(share)}" for cause, share in shares.items()),
                    *([", ".join(f"{name} {SHARE.write(part)}" for name, part in named.items())] if names else []),
                    *([", ".join(sorted({name for app in each.instances for name in app.firing}))] if alerts else []),
                )
            )
    more = (*(["Neighbours named"] if names else []), *(["Alerts that fire at its end"] if alerts else []))
    table = Table(("Step", *_LOAD[:3], *heads.values(), "Most likely cause of a miss", *more), tuple(rows))
    return _without_one_placement(table)


def steps(results: Sequence[StepResult]) -> Table:
    """Every step with its times."""
    table = Table(
        ("Step", *_LOAD[:3], "Repetition", "Start", "Seconds", "Start, Unix time", "End, Unix time"),
        tuple(
            (
                str(each.step),
                *_load(Load(each.step.placement, each.step.instances, each.step.clients, (each,)))[:3],
                str(each.step.repetition),
                time(each.step.start),
                str(each.step.seconds),
                str(each.step.start),
                str(each.step.end),
            )
            for each in results
        ),
    )
    return _without_one_placement(table)


def time(seconds: float) -> str:
    """A time in the format of Prometheus's own pages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_LOAD = ("Placement", "Instances", "Clients each", "Repetitions")


def _load(load: Load) -> tuple[str, str, str, str]:
    run = load.values(lambda each: each.clients_run)
    really = f" ({significant(run[0])} run)" if run and run[0] != load.clients else ""
    return load.placement, str(load.instances), f"{load.clients}{really}", str(len(load.results))


def _cell(quantity: Quantity, load: Load) -> str:
    """The mean over repetitions, and their spread if there are several."""
    values = load.values(quantity.of)
    if not values:
        return MISSING
    number = quantity.unit.number
    text = number(sum(values) / len(values))
    if number(min(values)) != number(max(values)):
        text += f" ({number(min(values))} to {number(max(values))})"
    return text if len(values) == len(load.results) else f"{text}, {len(values)} of {len(load.results)} repetitions"


def _promise(judged: Judged) -> str:
    if judged.objective == "mean":
        return f"Mean response at most {RESPONSE.write(judged.promised)}"
    what = f"Within {RESPONSE.write(judged.seconds)}" if judged.seconds else "Without error"
    return f"{what} at least {SHARE.write(judged.promised)}"


def _verdict(judged: Sequence[Judged], objective: str) -> str:
    """One objective in one step, over its instances: `met, 34 ms`, `MISSED by 3 of 4, 310 ms`."""
    of = [one for one in judged if one.objective == objective]
    unit = RESPONSE if objective == "mean" else SHARE
    measured = [one for one in of if one.excess is not None]
    if not measured:
        return "not judged"
    furthest = max(measured, key=lambda one: one.excess or 0)
    missed = sum(one.met is False for one in of)
    unjudged = f", {len(of) - len(measured)} not judged" if len(measured) < len(of) else ""
    if not missed:
        return f"✓ met, {unit.write(furthest.measured)}{unjudged}"
    by = f" by {missed} of {len(of)}" if len(of) > 1 else ""
    return f"✗ MISSED{by}, {unit.write(furthest.measured)}{unjudged}"


def _without_one_placement(table: Table) -> Table:
    """Omit columns that are the same in every row."""
    at = table.head.index(_LOAD[0])
    if len({row[at] for row in table.rows}) > 1:
        return table
    return Table(_but(table.head, at), tuple(_but(row, at) for row in table.rows))


def _but(cells: tuple[str, ...], at: int) -> tuple[str, ...]:
    return cells[:at] + cells[at + 1 :]
