"""Few series, whatever runs, and no sample lost between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtscope.perf.profile import OTHER, Hits, Place, Profile, Top

MAX_NAMED, NEWCOMERS = 5, 2
SYMBOLS = st.integers(0, 40).map("f{}".format)
PLACES = st.builds(
    Place, st.sampled_from(["cycles", "cache-misses"]), st.just("web"), symbol=SYMBOLS, space=st.just("user")
)
HITS = st.tuples(st.integers(1, 1000), st.integers(1, 9)).map(lambda pair: Hits(pair[0], float(pair[0] * pair[1])))


def profile(**samples: int) -> Profile:
    """A profile of samples by symbol, each worth ten events."""
    return {Place("cycles", "web", symbol, "user"): Hits(count, 10.0 * count) for symbol, count in samples.items()}


def counted(top: Top, *profiles: Profile) -> dict[str, int]:
    for found in profiles:
        top.add(found)
    return {place.symbol: hits.samples for place, hits in top.counts().items()}


@given(st.lists(st.dictionaries(PLACES, HITS, max_size=30), max_size=12))
def test_few_series_that_never_fall_and_together_rise_by_just_the_samples(profiles: list[Profile]) -> None:
    """A new series starts with 0, except in the first round: Prometheus counts from a series' first value on."""
    top = Top(MAX_NAMED, NEWCOMERS)
    for found in profiles:
        before = top.counts()
        top.add(found)
        after = top.counts()
        for event in {place.event for place in [*before, *after]}:
            old = {place: hits for place, hits in before.items() if place.event == event}
            new = {place: hits for place, hits in after.items() if place.event == event}
            due = [hits for place, hits in found.items() if place.event == event]
            assert len(new) <= MAX_NAMED + 1
            assert not old or len(set(new) - set(old)) <= NEWCOMERS
            assert not old or all(new[place].samples == 0 for place in set(new) - set(old))
            assert all(new[place].samples >= old[place].samples for place in set(old) & set(new))
            rises = [(hits, old.get(place, Hits(0, 0.0))) for place, hits in new.items()]
            assert sum(now.samples - was.samples for now, was in rises) == sum(hits.samples for hits in due)
            events = sum((now.events or 0) - (was.events or 0) for now, was in rises)
            assert events == sum(hits.events or 0 for hits in due)


def test_the_heaviest_come_first_and_free_places_are_filled_however_light_a_symbol_is() -> None:
    assert counted(Top(2, 1), profile(heavy=50, light=1, middle=9)) == {"heavy": 50, "middle": 9, OTHER: 1}
    light = profile(heavy=50_000_000, light=1, lighter=1)
    assert counted(Top(3, 1), light, light) == {"heavy": 100_000_000, "light": 2, "lighter": 2, OTHER: 0}


def test_what_a_report_itself_puts_together_takes_no_place() -> None:
    other = {Place("cycles", OTHER, OTHER, ""): Hits(900, 9000.0)}
    assert counted(Top(1, 1), {**other, **profile(web=50, tail=1)}) == {"web": 50, OTHER: 901}


def test_a_symbol_that_grows_heavy_gets_a_series_and_the_lightest_loses_its_own() -> None:
    top, later = Top(2, 1), profile(heavy=50, light=2, late=30)
    assert counted(top, profile(heavy=50, light=2), later) == {"heavy": 100, "late": 0, OTHER: 32}
    assert counted(top, later) == {"heavy": 150, "late": 30, OTHER: 34}


def test_twice_the_weight_takes_a_series_over() -> None:
    """Of the previous round, four fifths still count: 8."""
    for late, shown in ((15, {"early", OTHER}), (16, {"late", OTHER})):
        assert set(counted(Top(1, 1), profile(early=10), profile(late=late))) == shown


def test_chance_moves_no_series() -> None:
    """In the long tail, symbols have a sample or two in some rounds: an additional one doesn't make them heavier."""
    top = Top(2, 1)
    top.add(profile(heavy=50, some=2))
    for number in range(100):
        tail = {"some": 2, "other": 3} if number % 2 else {"some": 3, "other": 2}
        assert set(counted(top, profile(heavy=50, **tail))) == {"heavy", "some", OTHER}


def test_what_has_less_than_a_thousandth_never_gets_a_series() -> None:
    rounds = [profile(heavy=5000, **{f"tail{number}": 4}) for number in range(50)]
    assert set(counted(Top(100, 10), profile(heavy=5000), *rounds)) == {"heavy", OTHER}


def test_a_symbol_that_is_gone_ends_though_nothing_takes_its_series() -> None:
    assert set(counted(Top(5, 1), profile(gone=10, stays=10), *[profile(stays=10)] * 100)) == {"stays", OTHER}


def test_events_weigh_not_samples() -> None:
    """With a frequency, an idle CPU's few misses create as many samples as a busy one's many."""
    idle, busy = (Place("cache-misses", "a", symbol, "user") for symbol in ("idle", "busy"))
    assert "idle" not in counted(Top(1, 1), {idle: Hits(100, 1e3), busy: Hits(90, 1e6)})
