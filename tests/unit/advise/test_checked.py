"""Changes in what was recorded, and what earlier predictions are worth."""

import numpy as np
import pytest

from advise.checked import Calibration, Change, Check, _caps, _concerned, _moves, together
from advise.model import Predicted
from advise.reading import Place

A, B, C = (Place(host, "kvm") for host in "abc")
TIMES = np.arange(0, 6000, 60.0)


def there(first: int, last: int) -> np.ndarray:
    """Present between these samples."""
    values = np.full(len(TIMES), np.nan)
    values[first : last + 1] = 1
    return values


def test_a_guest_that_leaves_one_host_and_comes_to_another_was_moved() -> None:
    on = {A: there(0, 40), B: there(42, 70), C: there(71, 99)}
    assert [*_moves("web", on, TIMES)] == [
        Change("move", "web", A, B, 40 * 60, 42 * 60),
        Change("move", "web", B, C, 70 * 60, 71 * 60),
    ]


def test_while_it_is_on_both_hosts_it_is_being_moved() -> None:
    assert [*_moves("web", {A: there(0, 40), B: there(38, 99)}, TIMES)] == [
        Change("move", "web", A, B, 37 * 60, 40 * 60),
    ]


def test_a_guest_that_comes_back_at_once_was_moved_twice() -> None:
    on = {A: there(0, 40), B: there(40, 44)}
    on[A][44:] = 1
    assert [(each.of, each.to) for each in _moves("web", on, TIMES)] == [(A, B), (B, A)]


def test_guests_of_one_name_on_two_hosts_were_not_moved_while_nothing_was_recorded() -> None:
    gap = there(0, 99)
    gap[40:50] = np.nan
    assert [*_moves("web", {A: gap, B: gap.copy()}, TIMES)] == []


def test_a_guest_that_was_gone_for_long_was_not_moved() -> None:
    assert [*_moves("web", {A: there(0, 20), B: there(60, 99)}, TIMES)] == []


def test_a_guest_that_comes_later_was_started() -> None:
    assert [*_moves("web", {A: there(50, 99)}, TIMES)] == [Change("start", "web", None, A, 49 * 60, 50 * 60)]


def test_a_cap_that_changes() -> None:
    caps = np.where(TIMES < 3000, 0.5, 0.25)
    assert [*_caps("web", A, caps, TIMES)] == [Change("cap", "web", A, A, 49 * 60, 50 * 60, 0.25)]


def test_a_cap_that_is_set_and_removed_but_none_of_a_single_sample() -> None:
    caps = np.full(len(TIMES), np.inf)
    caps[20:40] = 0.5
    caps[60] = 0.1
    caps[:5] = np.nan  # before the guest was there
    assert [*_caps("web", A, caps, TIMES)] == [
        Change("cap", "web", A, A, 19 * 60, 20 * 60, 0.5),
        Change("cap", "web", A, A, 39 * 60, 40 * 60, None),
    ]


def test_changes_of_the_same_hosts_within_a_short_time_are_one() -> None:
    web, db, later = (Change("move", name, A, B, at - 60, at) for name, at in (("web", 100), ("db", 160), ("x", 900)))
    other = Change("start", "y", None, C, 40, 100)
    groups = together([web, other, db, later], {("c", "wiki")}, 2000.0)
    assert [(each.changes, each.until) for each in groups] == [
        ((other,), 2000.0),
        ((web, db), 840.0),
        ((later,), 2000.0),
    ]
    assert [(each.last, each.settled) for each in groups] == [(40, 250), (40, 310), (840, 1050)]
    joined = together([web, other], {("a", "wiki"), ("c", "wiki")}, 2000.0)
    assert [each.changes for each in joined] == [(web, other)]
    assert joined[0].hosts == {"a", "b", "c"}


def test_a_change_concerns_the_hosts_of_all_tiers_of_applications_there() -> None:
    apps = {("a", "shop"), ("c", "shop"), ("b", "blog"), ("d", "wiki"), ("c", "wiki")}
    move, start = Change("move", "web", A, B, 40, 100), Change("start", "wiki", None, C, 40, 100)
    assert _concerned(move, apps) == {"a", "b", "c"}
    assert _concerned(start, apps) == {"a", "c", "d"}


def check(observed: float, median: float = 1.0) -> Check:
    return Check((), "shop", A, Predicted(0.5 * median, median, 2.0 * median), observed)


def test_what_came_in_the_interval_and_by_how_much_it_was_missed() -> None:
    found = Calibration(tuple(check(observed) for observed in (0.8, 1.0, 1.25, 4.0)))
    assert found.inside == 0.75
    assert found.error == pytest.approx((0.2 + 0.25) / 2)
    assert found.widened == 1.0, "four are too few"


def test_intervals_are_widened_until_nine_of_ten_are_in() -> None:
    found = Calibration(tuple(check(observed) for observed in [1.0] * 16 + [4.0] * 4))
    assert found.widened == pytest.approx(2.0)


def test_of_thirteen_twelve_are_nine_of_ten() -> None:
    assert Calibration(tuple(check(observed) for observed in [1.0] * 11 + [4.0] * 2)).widened == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ([9.0] * 9, None),
        ([1.1] * 20, None),
        ([9.0] * 20, "of the last 20 predictions 0% were right, and half were off by more than 89%"),
    ],
)
def test_advice_is_withheld_if_it_was_wrong(observed: list[float], expected: str | None) -> None:
    assert Calibration(tuple(map(check, observed))).reason_to_withhold == expected
