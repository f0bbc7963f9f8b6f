"""What is advised, as values for JSON and as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advise.checked import Calibration
from advise.model import Predicted
from advise.options import Option, Outcome
from advise.reading import Place
from advise.seen import Guest

UNCHECKED = "No move, start or cap was seen with two settled minutes and --present after it."
RESTARTED = "cgroup"  # a platform without live migration
COPIED_PER_SECOND = 1e9 / 8 * 0.9  # bytes, by a network of 1 Gbit/s


@dataclass(frozen=True)
class Answer:
    """Options for one question, the best one first; `advised` is None if nothing fits."""

    about: str
    options: Sequence[Option]
    advised: Option | None
    commands: Mapping[Place, Sequence[str]]  # that carry the options out
    unknown: Mapping[Place, Sequence[str]]  # what may speak against the options and isn't recorded
    unclear: Sequence[str]  # which of the guests' applications can't be predicted, and why
    where: bool = False  # whether it was asked for a host

    def withheld(self, calibration: Calibration) -> str | None:
        """Why there is no advice, if there is none."""
        return calibration.reason_to_withhold or "; ".join(self.unclear) or None

    def document(self, calibration: Calibration) -> dict[str, Any]:
        """Of withheld advice the predictions remain, without a host and commands that a script might take for it."""
        withheld = self.withheld(calibration)
        return {
            "about": self.about,
            "withheld": withheld,
            "advised": None if withheld or self.advised is None else self.advised.place.host,
            "candidates": [
                {
                    "host": each.place.host,
                    "platform": each.place.platform,
                    "stay": each.stays,
                    "limit": each.limit,
                    "gain": _finite(each.gain),
                    "copied_bytes": _copied(each),
                    "commands": [] if withheld else list(self.commands.get(each.place, ())),
                    "unknown": list(self.unknown.get(each.place, ())),
                    "apps": [_outcome(outcome) for outcome in each.outcomes],
                }
                for each in self.options
            ],
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield "host", "fits", "application", "now", "predicted", "90 % between", "objectives"
        for each in self.options:
            head = each.place.host + (" (now)" if each.stays else ""), f"no: {each.limit}" if each.limit else "yes"
            for outcome in each.outcomes:
                now = seconds(outcome.app.response)
                yield *head, outcome.app.name, now, *_shown(outcome.predicted), _objectives(outcome)
                head = "", ""
            if not each.outcomes:
                yield *head, "none", "", "", "", ""

    def lines(self, calibration: Calibration) -> Iterator[str]:
        for each in self.options:
            if unknown := self.unknown.get(each.place):
                yield f"Not recorded{'' if each.stays else f', for {each.place.host}'}: {'; '.join(unknown)}."
        if reason := self.withheld(calibration):
            yield f"No advice: {reason}."
            return
        if self.advised is None:
            yield "Nothing fits." if self.where else "It doesn't fit."
            return
        if not self.advised.stays:
            yield f"Move to {self.advised.place.host}: {_cost(self.advised)}."
        elif self.where:
            yield f"Stay on {self.advised.place.host}: nowhere else fits and makes requests a tenth faster."
        else:
            yield "It fits."
        yield from (f"  {command}" for command in self.commands.get(self.advised.place, ()))


def seconds(value: float) -> str:
    if not np.isfinite(value):
        return "no bound"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %" if np.isfinite(ratio) else "no bound"


def no_moves(found: Calibration) -> str:
    """The sentence for a host whose guests should stay."""
    reason = found.reason_to_withhold
    return f"No advice: {reason}." if reason else "No guest had better be elsewhere."


def calibration(found: Calibration) -> dict[str, Any]:
    return {
        "predictions": len(found.checks),
        "inside_ratio": _finite(found.inside),
        "median_error_ratio": _finite(found.error),
        "widened": found.widened,
    }


def checks(found: Calibration) -> Iterator[tuple[str, ...]]:
    """Rows of a table."""
    yield "change", "application", "host", "predicted", "90 % between", "observed", ""
    for each in found.checks:
        what = ", ".join(sorted({f"{change.kind} {change.name}" for change in each.changes}))
        said = "" if each.inside else "outside"
        yield what, each.app, each.place.host, *_shown(each.predicted), seconds(each.observed), said


def check_document(found: Calibration) -> list[dict[str, Any]]:
    return [
        {
            "changes": [
                {
                    "kind": change.kind,
                    "guest": change.name,
                    "of": change.of and change.of.host,
                    "to": change.to.host,
                    "time": change.first,
                    "cap": change.cap,
                }
                for change in each.changes
            ],
            "app": each.app,
            "host": each.place.host,
            **_predicted(each.predicted),
            "observed_seconds": each.observed,
            "inside": each.inside,
        }
        for each in found.checks
    ]


def memory(guests: Sequence[Guest]) -> float | None:
    """Bytes, of all; None if one's isn't known."""
    sizes = [guest.memory for guest in guests if guest.memory is not None]
    return sum(sizes) if len(sizes) == len(guests) else None


def _copied(option: Option) -> float | None:
    """Bytes of memory that a move copies; None if it isn't known, or if there is no such copy."""
    return None if option.stays or option.place.platform == RESTARTED else memory(option.guests)


def _cost(option: Option) -> str:
    if option.place.platform == RESTARTED:
        return "it is stopped and started again"
    size = _copied(option)
    if size is None:
        return "memory of unknown size to copy"
    return f"{size / 1e6:.0f} MB to copy, {size / COPIED_PER_SECOND:.0f} s at 1 Gbit/s"


def _shown(predicted: Predicted) -> tuple[str, str]:
    return seconds(predicted.median), f"{seconds(predicted.low)} and {seconds(predicted.high)}"


def _predicted(predicted: Predicted) -> dict[str, float | None]:
    """None if there is no bound."""
    return {
        "seconds": _finite(predicted.median),
        "low_seconds": _finite(predicted.low),
        "high_seconds": _finite(predicted.high),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "app": outcome.app.name,
        "host": outcome.place.host,
        "now_seconds": outcome.app.response,
        **_predicted(outcome.predicted),
        "allowed_seconds": None if outcome.app.allowed is None else _finite(outcome.app.allowed),
        "objective_held": outcome.held,
        "objective_holds": outcome.holds,
    }


def _objectives(outcome: Outcome) -> str:
    if outcome.app.allowed is None:
        return "none"
    return {
        (True, True): "hold",
        (True, False): "may break",
        (False, True): "hold again",
        (False, False): "are broken",
    }[outcome.held, outcome.holds if outcome.held else outcome.repairs]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
