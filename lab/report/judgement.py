"""Objectives met or missed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Objectives:
    """An application's objectives; None if Prometheus has no such objective."""

    mean_seconds: float | None
    """Ceiling of the mean response time, as the studies used it."""
    latency_seconds: float | None
    latency_share: float | None
    """The share of answered requests that must take at most `latency_seconds`."""
    availability_share: float | None
    """The share of all requests that must be answered without a server error."""


@dataclass(frozen=True)
class Judged:
    """One objective in one step: the measured value and the target.

    `excess` is the measured value relative to the target, 1 being just at it; for a share, the bad share over the
    allowed one.
    """

    objective: str
    measured: float | None
    promised: float
    excess: float | None
    seconds: float | None = None
    """The response time threshold of a share."""

    @property
    def met(self) -> bool | None:
        """None if nothing was measured."""
        return None if self.excess is None else self.excess <= 1 + 1e-9


def judge(
    objectives: Objectives, *, mean: float | None, within: float | None, errors: float | None
) -> tuple[Judged, ...]:
    """Compare a step's values with the existing objectives.

    mean: of answered requests, in seconds; within: their share within the threshold; errors: share of failed ones.
    """
    judged = []
    if (ceiling := objectives.mean_seconds) is not None:
        judged.append(Judged("mean", mean, ceiling, None if mean is None else mean / ceiling))
    if (share := objectives.latency_share) is not None and objectives.latency_seconds is not None:
        judged.append(Judged("latency", within, share, _excess(within, share), objectives.latency_seconds))
    if (share := objectives.availability_share) is not None:
        available = None if errors is None else 1 - errors
        judged.append(Judged("availability", available, share, _excess(available, share)))
    return tuple(judged)


def _excess(good: float | None, promised: float) -> float | None:
    return None if good is None else (1 - good) / (1 - promised)
