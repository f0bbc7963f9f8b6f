"""The table of a run: a row for each kind of episode, the total, and the bars. Pure."""

import statistics
from collections.abc import Sequence

from tests.proofs.truth.judgement import Bar, Judgement, Observed, bars

_HEAD = ("episodes", "number", "to be named", "in time", "late", "false", "seconds to name", "charged of run_delay")
_VERDICTS = {True: "ok", False: "MISSED", None: "not measured"}


def line(of: Observed, limit: float) -> str:
    """One episode during the run."""
    said = [f"named {name} after {at:.0f} s" for name, at in sorted(of.first_named.items(), key=lambda item: item[1])]
    wrong = [
        *(f"NOT NAMED IN TIME: {name}" for name in sorted(of.to_name - of.right(limit))),
        *(f"FALSE: {name}" for name in sorted(of.false)),
        *(f"disturbed by {name}, doesn't count" for name in sorted(of.strangers)),
    ]
    coverage = [] if of.coverage is None else [f"charged {of.coverage:.1%}"]
    return f"{of.number:4} {of.kind}: {'; '.join([*(said or ['named nobody']), *coverage, *wrong])}"


def text(of: Judgement, window: float, left_out: Sequence[str]) -> str:
    """All of it in Markdown. `window` is that of the rates, in seconds; `left_out` lists skipped kinds with reasons."""
    rows = [_row(kind, each) for kind, each in of.by_kind().items()]
    lines = [
        _cells(_HEAD),
        "|" + "---|" * len(_HEAD),
        *map(_cells, rows),
        _cells(_row("all", of)),
        "",
        _cells(("bar", "measured", "")),
        "|---|---|---|",
        *(_cells((bar.what, bar.measured, _VERDICTS[bar.holds])) for bar in bars(of)),
        "",
        f"Rates of waiting were taken over {window:g} s in place of two minutes, so that episodes can be short.",
        "Scrapes, evaluations and rules were else the stack's, each 5 s.",
        *left_out,
    ]
    return "\n".join(lines)


def holds(of: Sequence[Bar]) -> bool:
    """Whether all bars are met."""
    return all(bar.holds is not False for bar in of)


def _row(kind: str, of: Judgement) -> tuple[str, ...]:
    seconds, coverages = of.seconds_to_name, of.coverages
    return (
        kind,
        str(len(of.episodes)),
        str(of.to_name),
        str(of.right),
        str(of.late),
        str(of.false),
        f"{statistics.median(seconds):.0f}, at most {seconds[-1]:.0f}" if seconds else "",
        f"{of.coverage:.1%} ({coverages[0]:.1%} to {coverages[-1]:.1%})" if of.coverage is not None else "",
    )


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
