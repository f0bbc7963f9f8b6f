"""Totals of a host's containers while these come and go."""

from __future__ import annotations

import random

import pytest

from virtscope.openvz.lives import ContainerTotals, Used


def used(ctid: str, uptime: float, cpu: float, waited: float = 0.0) -> Used:
    return Used(ctid, uptime, cpu, waited)


def totals_of(*reads: list[Used], every: float = 10) -> list[float]:
    """CPU seconds after each of these reads."""
    totals, found = ContainerTotals(), []
    for place, containers in enumerate(reads):
        totals.add(containers, 1000 + place * every)
        found.append(totals.cpu_seconds)
    return found


def test_what_is_there_at_the_first_read_counts_from_then_on() -> None:
    assert totals_of([used("101", 5000, 700)], [used("101", 5010, 704)], [used("101", 5020, 704)]) == [0, 4, 4]


def test_one_that_has_started_since_counts_with_all_that_is_on_its_counter() -> None:
    assert totals_of([], [used("101", 9, 6)], [used("101", 19, 8)]) == [0, 6, 8]


def test_one_that_was_migrated_with_hours_on_its_counter_counts_from_then_on() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70)]
    assert totals_of([other[0]], [other[1], used("101", 9000, 6)], [other[2], used("101", 9010, 9)]) == [0, 0, 3]


def test_one_that_ended_has_its_last_rate_for_half_the_time_since() -> None:
    living = [used("102", uptime, 0) for uptime in (50, 60, 70, 80)]
    reads = [[living[0], used("101", 70, 1)], [living[1], used("101", 80, 5)], [living[2]], [living[3]]]
    assert totals_of(*reads) == [0, 4, 6, 6]


def test_one_that_misses_a_read_has_not_ended() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70, 80)]
    reads = [used("101", 70, 1), used("101", 80, 5), None, used("101", 100, 13)]
    assert totals_of(*([each, *([read] if read else [])] for each, read in zip(other, reads, strict=True))) == [
        0,
        4,
        6,
        12,
    ]


def test_an_estimate_that_was_too_high_never_lowers_the_total() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70, 80, 90)]
    reads = [used("101", 70, 0), used("101", 80, 8), None, used("101", 100, 9), used("101", 110, 10)]
    assert totals_of(*([each, *([read] if read else [])] for each, read in zip(other, reads, strict=True))) == [
        0,
        8,
        12,
        12,
        13,
    ]


def test_an_id_that_is_used_again_is_another_container() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70)]
    first, again = [used("101", 70, 0), used("101", 80, 8)], used("101", 4, 3)
    # Half of the ten seconds at 0.8 CPUs, and what the next one has.
    assert totals_of([other[0], first[0]], [other[1], first[1]], [other[2], again]) == [0, 8, 15]


def test_a_recording_at_another_pace_counts_the_same() -> None:
    reads = [
        [used("101", 5000 + 60 * place, 30 * place), used("102", 20 + 60 * place, 12 * place)] for place in range(5)
    ]
    reads.append([used("101", 5300, 150), used("103", 55, 10)])
    assert totals_of(*reads, every=0.1) == totals_of(*reads, every=60) == [0, 42, 84, 126, 168, 214]


def test_one_that_was_read_once_ends_at_its_mean_rate_if_it_had_started() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70)]
    assert totals_of([other[0]], [other[1], used("101", 8, 4)], [other[2]]) == [0, 4, 6.5]
    assert totals_of([other[0]], [other[1], used("101", 0.5, 0.25)], [other[2]]) == [0, 0.25, 1.5]
    assert totals_of([other[0]], [other[1], used("101", 800, 4)], [other[2]]) == [0, 0, 0]


def test_a_second_may_be_missing_between_two_clocks() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60)]
    assert totals_of([other[0]], [other[1], used("101", 11, 4)]) == [0, 4]
    assert totals_of([other[0]], [other[1], used("101", 11.5, 4)]) == [0, 0]


def test_one_that_is_away_for_two_reads_has_ended() -> None:
    other = [used("102", uptime, 0) for uptime in (50, 60, 70, 80, 90, 100)]
    reads = [used("101", 70, 1), used("101", 80, 5), None, None, used("101", 110, 600), used("101", 120, 603)]
    counted = totals_of(*([each, *([read] if read else [])] for each, read in zip(other, reads, strict=True)))
    assert counted == [0, 4, 6, 6, 6, 9]


def test_a_rate_is_over_a_second_at_least() -> None:
    cpu = {70.0: 1.0, 71.0: 1.5, 71.5: 3.5}
    reads = [[used("102", uptime, 0), used("101", uptime, seconds)] for uptime, seconds in cpu.items()]
    # Half of a second at 0.5 CPUs, not at the 4 of half a second.
    assert totals_of(*reads, [used("102", 72.5, 0)]) == [0, 0.5, 2.5, 2.75]


def test_a_waiting_time_goes_at_its_own_rate() -> None:
    waits = {50: 10, 60: 12, 70: None, 80: 18, 90: 20, 100: None}
    totals, found = ContainerTotals(), []
    for uptime, waited in waits.items():
        running = [used("102", uptime, 0)] + ([] if waited is None else [used("101", uptime, uptime / 10, waited)])
        totals.add(running, uptime)
        found.append((totals.cpu_seconds, totals.wait_seconds))
    assert found == [(0, 0), (1, 2), (1.5, 3), (3, 8), (4, 10), (4.5, 11)]


def test_one_that_was_migrated_and_ends_before_the_next_read_has_no_rate() -> None:
    totals = ContainerTotals()
    totals.add([used("102", 50, 0)], 50)
    totals.add([used("102", 60, 0), used("101", 900, 5, 5)], 60)
    totals.add([used("102", 70, 0)], 70)
    assert (totals.cpu_seconds, totals.wait_seconds) == (0, 0)


def test_a_file_that_is_read_twice_at_once_says_the_same() -> None:
    totals = ContainerTotals()
    for uptime in (50, 60, 60, 70):
        totals.add([used("102", uptime, 0)] + ([used("101", uptime, uptime / 10)] if uptime < 70 else []), uptime)
    assert totals.cpu_seconds == 1.5


def test_waits_are_counted_once_a_container_has_waited() -> None:
    totals = ContainerTotals()
    totals.add([used("101", 50, 5)], 0)
    assert not totals.waits_counted
    totals.add([used("101", 60, 6, 2)], 10)
    totals.add([], 20)
    assert (totals.waits_counted, totals.wait_seconds) == (True, 3)


@pytest.mark.parametrize(("every", "within"), [(1, 0.005), (5, 0.02), (15, 0.05)])
def test_the_total_is_what_short_jobs_used(every: int, within: float) -> None:
    """Ten slots in which jobs of 30 to 120 s follow each other, each at a rate of its own."""
    random_ = random.Random(1)
    lives = []
    for slot in range(10):
        begun = -random_.uniform(0, 100)
        while begun < 3600:
            ended = begun + random_.uniform(30, 120)
            lives.append((f"{slot}", begun, ended, random_.uniform(0.1, 2)))
            begun = ended + random_.uniform(1, 10)
    totals, seen = ContainerTotals(), []
    for now in range(0, 3600, every):
        running = [each for each in lives if each[1] <= now < each[2]]
        totals.add([used(slot, now - begun, (now - begun) * rate) for slot, begun, _, rate in running], now)
        seen.append(totals.cpu_seconds)
    truth = sum(
        (min(ended, now) - max(begun, 0)) * rate for _, begun, ended, rate in lives if begun < now and ended > 0
    )
    assert seen == sorted(seen)
    assert abs(totals.cpu_seconds / truth - 1) < within
