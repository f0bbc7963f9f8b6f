"""The table of a run: a row for each fault, with the bars that it missed."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.proofs.faults.catalogue import Fault
from tests.proofs.faults.observer import Outcome
from tests.proofs.faults.stack import SCRAPE_SECONDS

MAX_LOST = 2  # scrapes more than fall into the fault's own duration
_LONGEST_SAID = 110
# The cut network next to the other faults, and the sum of all.
_ALWAYS_TRUE = ("HostDown of vz1", "ExporterDown of vz1", "PartFailsRepeatedly of dom0")


class Row(NamedTuple):
    """One fault as printed."""

    fault: str
    back: str = "-"
    lost: str = "-"
    alerts: str = "-"
    said: str = ""
    missed: tuple[str, ...] = ()  # missed bars
    skipped: bool = False


def row(fault: Fault, outcome: Outcome, complaint: str) -> Row:
    """`complaint` is the problem found by the fault's own check."""
    missed = [*_samples_missed(fault, outcome), *_alerts_missed(fault, outcome), *_status_missed(fault, outcome)]
    if outcome.seconds is None:
        missed.append("is not back")
    elif outcome.seconds > fault.within:
        missed.append(f"back after {outcome.seconds:.0f} s instead of {fault.within:.0f}")
    if complaint:
        missed.append(complaint)
    raised, cleared = (sorted(alerts - set(_ALWAYS_TRUE)) for alerts in outcome.alerts)
    return Row(
        fault.name,
        "never" if outcome.seconds is None else f"{outcome.seconds:.0f} s",
        _counted(outcome.lost),
        "; ".join([*(f"raised {name}" for name in raised), *(f"cleared {name}" for name in cleared)]) or "none",
        _said(fault, outcome),
        tuple(missed),
    )


def _samples_missed(fault: Fault, outcome: Outcome) -> Iterable[str]:
    time = fault.seconds + ((outcome.seconds or 0) if fault.silent else 0)
    allowed = MAX_LOST + round(time / SCRAPE_SECONDS)
    for target, count in outcome.lost.items():
        if not re.fullmatch(fault.loses, target):
            yield f"{count} samples lost of {target}"
        elif count > allowed:
            yield f"{count} samples lost of {target} instead of {allowed}"
    if outcome.forgotten:
        yield f"{outcome.forgotten} stored samples are gone"


def _alerts_missed(fault: Fault, outcome: Outcome) -> Iterable[str]:
    for what, names in (("false", outcome.alerts.raised), ("cleared", outcome.alerts.cleared)):
        for name in sorted(names):
            if name not in _ALWAYS_TRUE and name.split()[0] not in fault.raises:
                yield f"{what} {name}"


def _status_missed(fault: Fault, outcome: Outcome) -> Iterable[str]:
    yield from sorted({lie for status in outcome.statuses if (lie := status.lie())})
    if fault.says and not any(re.search(fault.says, status.text, re.MULTILINE) for status in outcome.statuses):
        yield f"status never said: {fault.says}"


def _counted(lost: dict[str, int]) -> str:
    """Targets with equal losses are grouped."""
    by_count: dict[int, list[str]] = {}
    for target, count in lost.items():
        by_count.setdefault(count, []).append(target)
    return (
        "; ".join(
            f"{count}: {', '.join(sorted(targets)) if len(targets) < 4 else f'{len(targets)} targets'}"
            for count, targets in sorted(by_count.items())
        )
        or "0"
    )


def _said(fault: Fault, outcome: Outcome) -> str:
    """A new line of status about the fault or a restart; otherwise a line of a log."""
    before = set(outcome.said_before.splitlines())
    new = [line for status in outcome.statuses for line in status.text.splitlines() if line not in before]
    wanted = [fault.says] if fault.says else [" started again", "^error: |not running", " doesn't | no answer "]
    for pattern in wanted:
        if found := [line for line in new if re.search(pattern, line)]:
            return _short(found[-1])
    return _short(outcome.logged)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_SAID else f"{text[: _LONGEST_SAID - 3]}..."


def line(row: Row) -> str:
    """A row printed during the run."""
    return f"{row.fault}: back after {row.back}, lost {row.lost}; {'; '.join(row.missed) or 'ok'}"


def text(rows: Iterable[Row]) -> str:
    """All rows as a Markdown table, followed by the missed bars."""
    rows = list(rows)
    lines = ["| fault | back after | samples lost | alerts | said | |", "|---|---|---|---|---|---|"]
    for each in rows:
        verdict = "skipped" if each.skipped else "MISSED" if each.missed else "ok"
        cells = (each.fault, each.back, each.lost, each.alerts, each.said.replace("|", "\\|"), verdict)
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{each.fault}: {'; '.join(each.missed)}" for each in rows if each.missed]
    return "\n".join(lines)
