"""The places with the most samples as counters, few enough for Prometheus whatever runs on the machine."""

from __future__ import annotations

from collections.abc import Iterable

from virtscope.perf.profile.samples import Place, Profile

OTHER = "(other)"  # image and symbol of the series that takes the samples of all places without one

_MEMORY = 0.8  # what a round's samples still weigh in the next: a place is judged by its last five rounds or so
_CANDIDATES = 4  # times as many places as have series are remembered, so that one can rise over several rounds


class Top:
    """Counts samples by place for the places that have the most, and the rest in one series for each event.

    A place that falls out loses its series: what falls on it from then on is in OTHER, and if it comes back it counts
    from 0, as after a restart. So rates and shares over any time are right for as long as a place has its series, and
    all of an event's series together rise by just its samples.
    """

    def __init__(self, most: int, newcomers: int) -> None:
        """Keep `most` places of each event, of which at most `newcomers` change from one profile to the next.

        The first profile fills every place at once.
        """
        self._most = most
        self._newcomers = newcomers
        self._weights: dict[str, dict[Place, float]] = {}  # by event
        self._counts: dict[str, dict[Place, int]] = {}

    def add(self, profile: Profile) -> None:
        """Take the samples of one more round."""
        for event in {place.event for place in profile} | set(self._weights):
            self._add(event, {place: samples for place, samples in profile.items() if place.event == event})

    def counts(self) -> dict[Place, int]:
        """Return the samples of each place since it has its series, OTHER last for each event."""
        return {place: samples for counts in self._counts.values() for place, samples in counts.items()}

    def _add(self, event: str, round_: Profile) -> None:
        weights = {place: weight * _MEMORY for place, weight in self._weights.get(event, {}).items()}
        for place, samples in round_.items():
            weights[place] = weights.get(place, 0.0) + samples
        kept = self._counts.pop(event, None)
        counts = self._choose(weights, kept)
        other = Place(event, OTHER, OTHER, "")
        counts[other] = (kept or {}).get(other, 0)
        for place, samples in round_.items():
            counts[place if place in counts else other] += samples
        self._counts[event] = counts
        heaviest = _heaviest(weights, weights, self._most * _CANDIDATES)
        self._weights[event] = {place: weights[place] for place in {*heaviest, *counts} - {other}}

    def _choose(self, weights: dict[Place, float], kept: dict[Place, int] | None) -> dict[Place, int]:
        """Return the places that have a series from now on, with what they have counted so far."""
        wanted = _heaviest(weights, weights, self._most)
        if kept is None:
            return dict.fromkeys(wanted, 0)
        entering = [place for place in wanted if place not in kept][: self._newcomers]
        staying = _heaviest(weights, (place for place in kept if place in weights), self._most - len(entering))
        return {**{place: kept[place] for place in staying}, **dict.fromkeys(entering, 0)}


def _heaviest(weights: dict[Place, float], places: Iterable[Place], most: int) -> list[Place]:
    # By name where they weigh the same: a tie must not be broken anew in each round.
    return sorted(places, key=lambda place: (-weights[place], place))[:most]
