"""The places with the most samples as counters, few enough for Prometheus whatever runs on the machine."""

from __future__ import annotations

from collections.abc import Iterable

from virtscope.perf.profile.samples import Hits, Place, Profile

OTHER = "(other)"  # image and symbol of the series that takes the samples of all places without one

_MEMORY = 0.8  # what a round's events still weigh in the next: a place is judged by its last five rounds or so
_CANDIDATES = 4  # times as many places as have series are remembered, so that one can rise over several rounds
_WORTH = 1e-3  # of the weight of all, for a newcomer: the long tail would come and go for ever
_CLEARLY = 2  # times the weight of the lightest place with a series takes its series over; less may be chance
_FORGOTTEN = 1e-6  # of the weight of all: of what had a percent of the events, this is left after 35 rounds
_NOTHING = Hits(0, 0.0)


class Top:
    """Counts what fell on each place for the places with the most events, and the rest in one series for each event.

    A place that falls out loses its series: what falls on it from then on is in OTHER, and if it comes back it counts
    from 0, as after a restart. A newcomer's series begins with 0, and what made it come is in OTHER still, as
    Prometheus sees nothing of what a series brings along. So rates and shares are right for as long as a place has its
    series, and all of an event's series together rise by just its samples.
    """

    def __init__(self, most: int, newcomers: int) -> None:
        """Keep `most` places of each event, of which at most `newcomers` change from one profile to the next.

        The first profile fills every place at once.
        """
        self._most = most
        self._newcomers = newcomers
        self._weights: dict[str, dict[Place, float]] = {}  # by event
        self._counts: dict[str, Profile] = {}

    def add(self, profile: Profile) -> None:
        """Take the samples of one more round."""
        rounds: dict[str, Profile] = {event: {} for event in self._counts}
        for place, hits in profile.items():
            rounds.setdefault(place.event, {})[place] = hits
        for event, round_ in rounds.items():
            self._add(event, round_)

    def counts(self) -> Profile:
        """Return what fell on each place since it has its series, OTHER last for each event."""
        return {place: hits for counts in self._counts.values() for place, hits in counts.items()}

    def _add(self, event: str, round_: Profile) -> None:
        other = Place(event, OTHER, OTHER, "")
        weights = {place: weight * _MEMORY for place, weight in self._weights.get(event, {}).items()}
        for place, hits in round_.items():
            if place != other:  # what a report itself doesn't tell apart; it has its series anyway
                weights[place] = weights.get(place, 0.0) + (hits.samples if hits.events is None else hits.events)
        least = sum(weights.values()) * _FORGOTTEN
        weights = {place: weight for place, weight in weights.items() if weight >= least or place in round_}
        before = self._counts.get(event)
        places = self._choose(weights, before) if before else _heaviest(weights, weights, self._most)
        counting = set(before or places)
        counts = {place: (before or {}).get(place, _NOTHING) for place in places}
        counts[other] = (before or {}).get(other, _NOTHING)
        for place, hits in round_.items():
            shown = place if place in counts and place in counting else other
            counts[shown] = counts[shown].plus(hits)
        self._counts[event] = counts
        remembered = {*_heaviest(weights, weights, self._most * _CANDIDATES), *counts} - {other}
        self._weights[event] = {place: weights[place] for place in remembered}

    def _choose(self, weights: dict[Place, float], before: Profile) -> list[Place]:
        """Return the places that have a series from now on."""
        staying = _heaviest(weights, (place for place in before if place in weights), self._most)
        entering: list[Place] = []
        least = sum(weights.values()) * _WORTH
        strangers = (place for place, weight in weights.items() if place not in before and weight >= least)
        for place in _heaviest(weights, strangers, self._newcomers):
            if len(staying) + len(entering) >= self._most:
                if not staying or weights[place] < _CLEARLY * weights[staying[-1]]:
                    break
                staying.pop()
            entering.append(place)
        return [*staying, *entering]


def _heaviest(weights: dict[Place, float], places: Iterable[Place], most: int) -> list[Place]:
    # By name where they weigh the same: a tie must not be broken anew in each round.
    return sorted(places, key=lambda place: (-weights[place], place))[:most]
