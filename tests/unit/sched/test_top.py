"""What `sched-exporter top` shows."""

import sys

from virtscope.sched.cpu import Totals
from virtscope.sched.top import Look, lines

SHOP, BATCH = f"/docker/{'5' * 64}", "/system.slice/batch.service"


def look(seconds: float, waited: dict[str, dict[str, int]], switches: int = 0) -> Look:
    return Look(seconds, waited, Totals(switches, 0, 0, 0))


def test_who_waits_most_comes_first_with_those_that_ran_meanwhile() -> None:
    before = look(10.0, {SHOP: {SHOP: 10**9, BATCH: 0}, BATCH: {BATCH: 5}, "/idle": {"/idle": 7}})
    after = look(
        12.0,
        {SHOP: {SHOP: 10**9 + 10**8, BATCH: 9 * 10**8, "(idle)": 10**6}, BATCH: {BATCH: 10**7}, "/idle": {"/idle": 7}},
        switches=4_000,
    )
    looked, head, *rows = lines(before, after, 100, 50)
    assert looked.endswith("  2.0 s  2,000 switches/s  2 of 3 wait for a CPU")
    assert head.split() == ["WAITS", "CPUS", "WHILE", "THESE", "RUN"]
    assert [row.split(maxsplit=2) for row in rows] == [
        [f"...{'5' * 30}", "0.50", "/system.slice/batch.service 90%, itself 10%"],
        [BATCH, "0.00", "itself 100%"],
    ]


def test_a_name_that_was_replaced_starts_again_and_a_new_container_has_no_rate_yet() -> None:
    before = look(0.0, {SHOP: {BATCH: 10**9}})
    after = look(1.0, {SHOP: {BATCH: 10**8, "(rest)": 10**9}, "/new": {"/new": 10**9}})
    assert [row.split(maxsplit=1)[1] for row in lines(before, after, 100, 50)[2:]] == ["1.00  (rest) 100%"]


def test_a_cause_that_does_not_fit_is_left_out_whole() -> None:
    before = look(0.0, {"/a": {}})
    after = look(1.0, {"/a": {"/bbbb": 5 * 10**8, "/cccc": 3 * 10**8, "/dddd": 2 * 10**8}})
    assert lines(before, after, 40, 9)[2].split(maxsplit=2)[2] == "/bbbb 50%"
    assert lines(before, after, sys.maxsize, 9)[2].split(maxsplit=2)[2] == "/bbbb 50%, /cccc 30%, /dddd 20%"


def test_it_fits_the_terminal_and_shows_no_control_characters() -> None:
    names = [f"/machine/{number}\x1b[2J" for number in range(100)]
    before = look(0.0, {name: {name: 0} for name in names})
    after = look(1.0, {name: {name: 10**9} for name in names})
    shown = lines(before, after, 40, 10)
    assert len(shown) == 10
    assert max(map(len, shown)) <= 40
    assert all(line.isprintable() for line in shown)
