"""The table of a run: a row for each kind of episode, the total, and the bars. Pure."""

import statistics
from collections.abc import Sequence

from tests.proofs.truth.comparison import Estimator
from tests.proofs.truth.judgement import COVERAGE, Bar, Judgement, Observed, Resource, bars

_HEAD = ("episodes", "number", "to be named", "in time", "late", "false", "seconds to name", "charged of the wait")
_VERDICTS = {True: "ok", False: "MISSED", None: "not measured"}


def line(of: Observed, limit: float) -> str:
    """One episode during the run."""
    said = [f"named {name} after {at:.0f} s" for name, at in sorted(of.first_named.items(), key=lambda item: item[1])]
    added = [f"{of.added[1] / of.added[0]:.0%} of the added time explained"] if of.added else []
    wrong = [
        *(f"NOT NAMED IN TIME: {name}" for name in sorted(of.to_name - of.right(limit))),
        *(f"FALSE: {name}" for name in sorted(of.false)),
        *(f"disturbed by {name}, doesn't count" for name in sorted(of.strangers)),
    ]
    found = {resource: of.coverage(resource) for resource in COVERAGE}
    coverage = [f"{resource} charged {share:.1%}" for resource, share in found.items() if share is not None]
    return f"{of.number:4} {of.kind}: {'; '.join([*(said or ['named nobody']), *coverage, *added, *wrong])}"


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


def comparison(of: Sequence[Estimator]) -> str:
    """A row for each estimator of each resource."""
    head = ("resource", "estimator", "precision", "recall", "controls with a name", "charge error")
    rows = [
        (
            each.resource,
            each.name,
            f"{each.right} of {each.named}",
            f"{each.right} of {each.to_name}",
            f"{each.controls_named} of {each.controls}",
            f"{each.error / each.waited:.1%}" if each.waited else "",
        )
        for each in of
    ]
    return "\n".join([_cells(head), "|" + "---|" * len(head), *map(_cells, rows)])


def holds(of: Sequence[Bar]) -> bool:
    """Whether all bars are met."""
    return all(bar.holds is not False for bar in of)


def _row(kind: str, of: Judgement) -> tuple[str, ...]:
    seconds = of.seconds_to_name
    return (
        kind,
        str(len(of.episodes)),
        str(of.to_name),
        str(of.right),
        str(of.late),
        str(of.false),
        f"{statistics.median(seconds):.0f}, at most {seconds[-1]:.0f}" if seconds else "",
        ", ".join(filter(None, (_charged(of, resource) for resource in COVERAGE))),
    )


def _charged(of: Judgement, resource: Resource) -> str:
    found, each = of.coverage(resource), of.coverages(resource)
    return "" if found is None else f"{resource} {found:.1%} ({each[0]:.1%} to {each[-1]:.1%})"


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
