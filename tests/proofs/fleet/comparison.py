"""Compares the answers of the fleet and of one large Prometheus that watches the same hosts.

Both evaluate a rule group at the same times, because its offset follows from the path of its file, which is the same.
So each sample of a record has a counterpart at the same time. They are not always equal: the two scrape a target at
different moments of the same interval, so one of them sees a change on a host an evaluation earlier. A sample is

- equal: the values differ by no more than float arithmetic and late scrapes explain (TOLERANCE);
- shifted: within the span of the large Prometheus's values at the evaluations before and after, or present one
  evaluation earlier or later. A series that begins or ends may continue on a straight line: the usage of an ended
  guest is highest at first. Only accepted if a change on the host explains it (CHANGED);
- partial: another value, from a Prometheus that restarted or took over the host, and so hasn't scraped for the whole
  range of a rule (RESTARTED, MOVED);
- late: missing, for a host that has just moved to another shard (MOVED);
- delayed: another value if one of the two scraped the host late, according to its timestamps (DELAYED), or another or
  none if a scrape failed (FAILED): the effect of a busy machine on rates isn't the fleet's fault, but proves nothing;
- missing, extra, or different otherwise, which proves that the answers are unequal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import partial
from typing import Any

from deploy.fleet.parts import COPY_LABELS

TOLERANCE = 1e-3  # relative
WRONG = ("missing", "extra", "different")
_EXAMPLES = 100  # of each rule, enough to see which series and when
_NOT_COMPARED = {"__name__", "prometheus", *COPY_LABELS}

Series = frozenset[tuple[str, str]]
Samples = Mapping[Series, Mapping[int, float]]
"""The values of each series, by the number of the evaluation."""


class Why(Flag):
    """A recent event that explains different answers."""

    NOTHING = 0
    CHANGED = auto()
    RESTARTED = auto()
    MOVED = auto()
    DELAYED = auto()
    FAILED = auto()


Explained = Callable[[Mapping[str, str], int], Why]
"""What explains that the answers of a series (its labels) may differ at an evaluation (its number)."""


@dataclass
class Tally:
    """Numbers of samples by result, as listed above. `largest` is the largest relative difference between equal ones,
    `examples` are some that were wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    largest: float = 0
    examples: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """Samples that exist in either answer."""
        return self.counts.total()

    @property
    def wrong(self) -> int:
        """Samples that prove the answers unequal."""
        return sum(self.counts[result] for result in WRONG)

    def add(self, other: Tally) -> None:
        """Add another tally."""
        self.counts.update(other.counts)
        self.largest = max(self.largest, other.largest)
        self.examples += other.examples[: _EXAMPLES - len(self.examples)]


def samples(answer: Iterable[dict[str, Any]], begin: float, step: float) -> dict[Series, dict[int, float]]:
    """The answer to a range query that starts at `begin`."""
    found: dict[Series, dict[int, float]] = {}
    for series in answer:
        labels = frozenset((name, value) for name, value in series["metric"].items() if name not in _NOT_COMPARED)
        values = found.setdefault(labels, {})
        values.update({round((time - begin) / step): float(value) for time, value in series["values"]})
    return found


def compare(
    oracle: Samples,
    fleet: Samples,
    evaluations: Sequence[int],
    explained: Explained,
    *,
    slack: int = 1,
    margin: int = 0,
) -> dict[int, Tally]:
    """Compare at each evaluation, by its number. Changes may appear up to `slack` evaluations earlier or later. Both
    answers have `margin` more evaluations on either side.
    """
    tallies = {evaluation: Tally() for evaluation in evaluations}
    asked = range(evaluations[0] - margin, evaluations[-1] + margin + 1)
    for series in oracle.keys() | fleet.keys():
        here, there = oracle.get(series, {}), fleet.get(series, {})
        labels = dict(series)
        for evaluation, tally in tallies.items():
            expected, found = here.get(evaluation), there.get(evaluation)
            if expected is None and found is None:
                continue
            near = range(max(evaluation - slack, asked.start), min(evaluation + slack + 1, asked.stop))
            verdict = _verdict(here, near, evaluation, found, partial(explained, labels, evaluation))
            tally.counts[verdict] += 1
            if verdict == "equal" and expected is not None and found is not None:
                tally.largest = max(tally.largest, difference(expected, found))
            if verdict in WRONG and len(tally.examples) < _EXAMPLES:
                around = [here.get(number) for number in near]
                tally.examples.append(f"{verdict} {sorted(series)} at evaluation {evaluation}: {found} for {around}")
    return tallies


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    found = Tally()
    for tally in tallies:
        found.add(tally)
    return found


def _verdict(
    here: Mapping[int, float], near: Sequence[int], evaluation: int, found: float | None, explained: Callable[[], Why]
) -> str:
    """The result for a pair of samples, one of which may be absent."""
    expected = here.get(evaluation)
    if expected is not None and found is not None and difference(expected, found) <= TOLERANCE:
        return "equal"
    why = explained()
    if why & (Why.CHANGED | Why.DELAYED) and _is_shifted(here, near, found):
        return "shifted"
    wrong = "missing" if found is None else "extra" if expected is None else "different"
    excuses = {
        "missing": {Why.MOVED: "late", Why.FAILED: "delayed"},
        "extra": {Why.RESTARTED: "partial", Why.MOVED: "partial", Why.FAILED: "delayed"},
        "different": {Why.RESTARTED: "partial", Why.MOVED: "partial", Why.FAILED: "delayed", Why.DELAYED: "delayed"},
    }[wrong]
    return next((verdict for reason, verdict in excuses.items() if reason in why), wrong)


def _is_shifted(here: Mapping[int, float], near: Sequence[int], found: float | None) -> bool:
    """Whether the large Prometheus has this value at an evaluation nearby."""
    known = [here[number] for number in near if number in here]
    begins_or_ends = len(known) < len(near)
    if found is None:
        return begins_or_ends
    if not known:
        return False
    if begins_or_ends:  # one evaluation may see one life of a guest, or both
        known.append(0.0)
    known += [
        2 * here[number] - here[number - side]
        for number in near
        for side in (-1, 1)
        if number in here and number - side in here and number + side not in here
    ]
    room = TOLERANCE * max(map(abs, known))
    return min(known) - room <= found <= max(known) + room


def difference(expected: float, found: float) -> float:
    """Relative to the larger of both; 0 if both are NaN."""
    if expected == found or (math.isnan(expected) and math.isnan(found)):
        return 0.0
    if not (math.isfinite(expected) and math.isfinite(found)):
        return math.inf
    return abs(expected - found) / max(abs(expected), abs(found))
