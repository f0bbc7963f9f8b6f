"""How well each estimator names the injected culprits and charges them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from tests.proofs.truth.judgement import Culprit, Judgement, Observed, Resource
from tests.proofs.truth.trace import REPLAY

# As in prometheus/rules/derived.yml, over the whole episode in place of two minutes.
_PART, _TOGETHER, _RATE = 0.333, 0.5, 0.03


@dataclass(frozen=True)
class Estimator:
    """Totals of one estimator in all episodes.

    Attributes:
        right, named, to_name: numbers of culprits named, of all names, and of culprits.
        controls_named, controls: episodes without culprits in which somebody was named, and all of them.
        error, waited: seconds charged to the wrong neighbour or not charged, and the seconds that are to be charged, of
            episodes with culprits: beside a disk that serves many side by side, being served delays nobody.
    """

    resource: Resource
    name: str
    right: int
    named: int
    to_name: int
    controls_named: int
    controls: int
    error: float
    waited: float


def compare(of: Judgement) -> list[Estimator]:
    """All estimators."""
    found = []
    for resource in get_args(Resource):
        episodes = [each for each in of.episodes if each.estimates.get(resource)]
        names = dict.fromkeys(name for each in episodes for name in each.estimates[resource])
        found += [_estimator(resource, name, episodes) for name in names]
    return found


def named(charges: Mapping[str, float], seconds: float) -> frozenset[str]:
    """Whom these seconds of waiting name, by the shipped rules' thresholds."""
    whole = sum(charges.values())
    found = {who: its for who, its in charges.items() if whole and its / whole >= _PART and its / seconds >= _RATE}
    return frozenset(found) if whole and sum(found.values()) / whole >= _TOGETHER else frozenset()


def _estimator(resource: Resource, name: str, episodes: Iterable[Observed]) -> Estimator:
    right = names = to_name = controls_named = controls = 0
    error = waited = 0.0
    for each in episodes:
        charges, replayed = each.estimates[resource].get(name, {}), each.estimates[resource][REPLAY]
        culprits = {culprit.name for culprit in each.to_name if culprit == Culprit(resource, culprit.name)}
        found = named(charges, each.seconds)
        right += len(found & culprits)
        names += len(found)
        to_name += len(culprits)
        if not each.disturbed:
            controls += 1
            controls_named += bool(found)
            continue
        error += sum(abs(charges.get(who, 0.0) - replayed.get(who, 0.0)) for who in {*charges, *replayed})
        waited += sum(replayed.values())
    return Estimator(resource, name, right, names, to_name, controls_named, controls, error, waited)
