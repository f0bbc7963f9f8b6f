"""The tables of a run: predictions, who chose how well, and the bars. Pure."""

import statistics
from collections.abc import Sequence

from tests.proofs.placements.judgement import (
    ADVISE,
    Chooser,
    Compared,
    Observed,
    bars,
    candidates,
    choosers,
    compared,
    unchanged,
)

_VERDICTS = {True: "ok", False: "MISSED", None: "not measured"}


def line(of: Observed) -> str:
    """One step during the run."""
    used = ", ".join(f"{host} {share:.0%} used" for host, share in sorted(of.came.used.items()))
    if of.site is None or of.before is None:
        return f"{of.number:4} new loads: {_milliseconds(of.came.seconds)}, {used}"
    found = [
        f"{each.app} {_milliseconds(each.came)}, predicted {_milliseconds(each.predicted.seconds)} "
        f"({each.error:.0%} off{'' if each.is_covered else ', OUTSIDE'})"
        for each in compared([of])
    ]
    came = f"{_milliseconds(of.before.seconds)} -> {_milliseconds(of.came.seconds)}, {used}"
    return f"{of.number:4} {of.site} {of.source} -> {of.target}: {came}; {'; '.join(found) or _lacking(of)}"


def text(observed: Sequence[Observed], about: Sequence[str]) -> str:
    """All of it in Markdown, ending with the lines `about` the run."""
    found = compared(observed)
    parts = dict.fromkeys(each.part for each in found)
    moves = [each for each in observed if each.site is not None]
    withheld = [each for each in moves if not candidates(each.advice)]
    reasons = "; ".join(dict.fromkeys(map(_lacking, withheld)))
    return "\n".join(
        [
            _cells("predicted responses", "number", "median error", "90 % of errors below", "within the interval"),
            "|---|---|---|---|---|",
            *(_predictions(part, [each for each in found if each.part == part]) for part in parts),
            _predictions("all", found),
            _errors("for comparison: the response before the move", unchanged(observed)),
            "",
            _cells("who chose", "moves", "better host, or nearly", "longer than there", "moved", "broke an objective"),
            "|---|---|---|---|---|---|",
            *(_choices(each) for each in choosers(observed)),
            "",
            _cells("bar", "measured", ""),
            "|---|---|---|",
            *(_cells(bar.what, bar.measured, _VERDICTS[bar.holds]) for bar in bars(observed)),
            "",
            f"{len(withheld)} of {len(moves)} moves without a prediction{f': {reasons}' if reasons else ''}.",
            *about,
        ]
    )


def _lacking(of: Observed) -> str:
    return of.lacking or (of.advice or {}).get("withheld") or "no prediction"


def _predictions(name: str, of: Sequence[Compared]) -> str:
    covered = f"{sum(each.is_covered for each in of) / len(of):.1%}" if of else ""
    return _errors(name, [each.error for each in of], covered)


def _errors(name: str, errors: Sequence[float], covered: str = "") -> str:
    if not errors:
        return _cells(name, "0", "", "", "")
    ninth = sorted(errors)[min(len(errors) - 1, round(0.9 * len(errors)))]
    return _cells(name, str(len(errors)), f"{statistics.median(errors):.1%}", f"{ninth:.1%}", covered)


def _choices(of: Chooser) -> str:
    if not of.choices:
        return _cells(of.name, "0", "", "", "", "")
    name = f"**{of.name}**" if of.name == ADVISE else of.name
    best = f"{of.best / of.choices:.1%}"
    return _cells(name, str(of.choices), best, f"{of.lost:.1%}", str(of.moved), str(of.broke))


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
