"""The benchmark measures what it says: so many series, new objects and new values in every scrape."""

from __future__ import annotations

from prometheus_client import Metric

from bench.guests import Guests, by_add_metric


def _values(families: list[Metric]) -> list[float]:
    return [sample.value for family in families for sample in family.samples]


def test_every_value_changes_from_scrape_to_scrape() -> None:
    guests = Guests(100)
    before, after = guests.collect(), guests.collect()
    assert len(_values(before)) == len(_values(after)) == 100
    assert all(one != other for one, other in zip(_values(before), _values(after), strict=True))


def test_add_metric_makes_the_same_families() -> None:
    families = Guests(40).collect()
    assert [by_add_metric(family) for family in families] == families
