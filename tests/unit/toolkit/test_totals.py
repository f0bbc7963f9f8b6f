"""Totals over guests that come and go, against what the guests really did."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from virtscope.toolkit.totals import CPU, Counters, Totals

CPUS = 4
MINUTE = 60.0

# Of a guest: CPU seconds, then perhaps bytes, or those of each device.
Counts = Sequence[float | Mapping[str, float | None] | None]


def named(guests: Mapping[Any, Counts]) -> dict[Hashable, Counters]:
    """Name the counters of guests."""

    def counters(cpu: Any, *more: Any) -> Counters:
        devices = (each if isinstance(each, Mapping) else {None: each} for each in more)
        return {CPU: cpu, **{("bytes", name): count for each in devices for name, count in each.items()}}

    return {guest: counters(*counts) for guest, counts in guests.items()}


def known(totals: Totals) -> list[float]:
    """Return CPU seconds, and bytes if guests have them."""
    return [totals.values[name] for name in ("cpu", "bytes") if name in totals.values]


def _totals(*reads: Mapping[Hashable, Counts]) -> list[float]:
    """Return the totals after these reads, one a minute."""
    totals = Totals()
    for number, guests in enumerate(reads):
        before = known(totals)
        totals.add(named(guests), 1000 + number * MINUTE, cpus=CPUS)
        assert all(was <= value for was, value in zip(before, known(totals), strict=False)), "a total fell"
    return known(totals)


BOTH, ONE = {"eth0": 900, "eth1": 5e9}, {"eth0": 950}
READS: dict[str, list[tuple[list[Mapping[Hashable, Counts]], list[float]]]] = {
    "guests of the first read count from then on, and later ones from 0": [
        ([{"web": [5000]}], [0]),
        ([{"web": [5000]}, {"web": [5030], "db": [20]}], [50]),
    ],
    "an ended guest stays in the total": [([{"web": [5000]}, {"web": [5030]}, {}, {}], [30])],
    "a guest that misses reads loses nothing, even if it used every CPU": [
        ([{"web": [5000]}, {}, {"web": [5480]}], [480]),
        ([{"web": [5000]}, *[{}] * 10, {"web": [5660]}], [660]),
        ([{"web": [5000]}, *[{}] * 11, {"web": [5660]}], [0]),
    ],
    "a guest with more than can have been used since the last read counts from then on": [
        ([{}, {"web": [7200, 1e9]}, {"web": [7230, 1e9 + 5]}], [30, 5]),
        ([{}, {"web": [CPUS * MINUTE + 1]}], [CPUS * MINUTE + 1]),
        # A name that has passed to a guest that was migrated with its counters.
        ([{"web": [10, 7]}, {"web": [7200, 1e9]}, {"web": [7230, 1e9 + 5]}], [30, 5]),
    ],
    "an id that is used again starts from 0": [
        ([{7: [5000, 900]}, {7: [20, 1000]}], [20, 1000]),
        # The fall shows another guest, but what this one used before was used before the last read.
        ([{7: [9000, 900]}, {7: [5000, 1000]}, {7: [5010, 1001]}], [10, 1]),
    ],
    "a fall of a clock is no restart": [
        ([{7: [5000, 900]}, {7: [4999.99, 901]}], [0, 1]),
        ([{7: [5000, 900]}, {7: [4999.99, 900]}, {7: [5030, 901]}], [30, 1]),
        ([{7: [5000]}, {7: [4999]}, {7: [5240]}], [240]),  # a step of whole seconds
        ([{7: [5000]}, {7: [5241]}], [241]),
    ],
    "an unknown counter keeps its place": [
        ([{7: [5000, 900]}, {7: [5030, None]}, {7: [None, 910]}, {7: [5060, 920]}], [60, 20]),
        ([{}, {7: [None, 900]}, {7: [30, 910]}, {7: [60, 920]}], [30, 20]),
        ([{}, {7: [10, None]}, {7: [20, {"a": 5}]}], [20, 5]),
    ],
    "devices are counted one by one": [
        ([{7: [5, BOTH]}, {7: [6, ONE]}, {7: [7, {"eth0": 10}]}], [2, 60]),
        # One that appears was perhaps only missing; but before its first run, a guest is given its devices.
        ([{7: [5, {"eth0": 900}]}, {7: [6, BOTH]}, {7: [7, BOTH]}], [2, 0]),
        ([{7: [5, {"eth0": 900}]}, {7: [6, {}]}, {7: [7, BOTH]}], [2, 0]),
        ([{7: [5, {"eth0": 900}]}, {7: [6, {}]}, {7: [7, {"eth0": 950}]}], [2, 50]),
        ([{7: [5, {"eth0": 900}]}, {7: [6, {"eth1": 5}]}, {7: [7, {"eth0": 950}]}], [2, 0]),  # replaced
        ([{7: [5, {}]}, {7: [6, ONE]}, {7: [7, ONE]}], [2, 0]),
        ([{}, {7: [6, ONE]}, {7: [7, {**ONE, "eth1": 9}]}], [7, 950]),
        ([{7: [0, {}]}, {7: [6, {"eth0": 30}]}], [6, 30]),
        ([{}, {7: [6, {"eth0": 30, "eth1": None}]}, {7: [6, {"eth0": 40, "eth1": 9}]}], [6, 49]),
    ],
}


def test_guests_count_from_their_start_whatever_is_missing() -> None:
    for why, cases in READS.items():
        for reads, counted in cases:
            assert _totals(*reads) == counted, why


def test_a_guest_that_ended_counts_for_another_half_interval_at_its_last_rate() -> None:
    totals = Totals()

    def with_ends(minute: int, **guests: Counts) -> tuple[float, float]:
        totals.add(named(guests), minute * MINUTE, cpus=CPUS)
        return totals.with_ends("cpu"), totals.with_ends("bytes")

    assert with_ends(0, web=[50, {"eth0": 0, "eth1": 0}]) == (0, 0)
    assert with_ends(1, web=[80, {"eth0": 60, "eth1": 120}]) == (30, 180)
    assert with_ends(2) == (45, 270)
    assert with_ends(3, web=[90, {"eth0": 70, "eth1": 130}]) == (45, 270), "it only missed a read"
    assert with_ends(4, web=[90, {"eth0": 70, "eth1": 130}], short=[20]) == (65, 270)
    assert with_ends(5, web=[90, {"eth0": 70, "eth1": 130}]) == (85, 270), "it had run for half a minute on average"
    assert known(totals) == [60, 200]


def test_ambiguous_guests_count_from_then_on() -> None:
    totals = Totals()
    for seconds, guests in enumerate(({"web": [20]}, {"web-1": [21], "web-2": [10]}, {"web-1": [22], "web-2": [10]})):
        totals.add(named(guests), seconds * MINUTE, cpus=CPUS, ambiguous={"web-1", "web-2"})
    assert known(totals) == [1]


@pytest.mark.parametrize("seed", range(20))
def test_the_total_is_the_truth_under_churn(seed: int) -> None:
    chance = random.Random(seed)
    ids = iter(range(10**6))
    used = {next(ids): 3600.0 for _ in range(5)}  # CPU seconds by guest; of bytes each has nine times as many
    totals, read, truth = Totals(), dict(used), 0.0
    totals.add(named({guest: (seconds, {"0": seconds * 9}) for guest, seconds in used.items()}), 0, cpus=CPUS)
    for minute in range(1, 200):
        for guest in [guest for guest in used if chance.random() < 0.1]:
            del used[guest]  # nobody sees what it has used since the last read
        used.update((next(ids), 0.0) for _ in range(chance.choice((0, 0, 1, 2))))
        for guest in used:
            used[guest] += chance.random() * CPUS * MINUTE / len(used)
        seen = {guest: seconds for guest, seconds in used.items() if guest not in read or chance.random() < 0.9}
        if chance.random() < 0.1:  # migrated in with hours on its counter
            migrated = next(ids)
            seen[migrated] = used[migrated] = read[migrated] = 7200.0
        truth += sum(seconds - read.get(guest, 0) for guest, seconds in seen.items())
        read.update(seen)
        counts = {guest: (seconds, {"0": seconds * 9}) for guest, seconds in seen.items()}
        totals.add(named(counts), minute * MINUTE, cpus=CPUS)
        assert known(totals) == pytest.approx([truth, truth * 9])


class Used(NamedTuple):
    """A container, which has an age; its counters in seconds."""

    ctid: str
    uptime: float
    cpu: float
    waited: float = 0.0


class Containers(Totals):
    """Totals of containers, whose ids are used again."""

    def __init__(self) -> None:
        super().__init__(remembered=1)

    def read(self, containers: list[Used], now: float) -> tuple[float, float]:
        """Return CPU seconds and seconds of waiting after another read."""
        ages = {each.ctid: each.uptime for each in containers}
        self.add({each.ctid: {CPU: each.cpu, ("wait", None): each.waited} for each in containers}, now, ages=ages)
        return self.with_ends("cpu"), self.with_ends("wait")


def totals_of(*reads: list[Used], every: float = 10) -> list[float]:
    """CPU seconds after each of these reads."""
    totals = Containers()
    return [totals.read(containers, 1000 + place * every)[0] for place, containers in enumerate(reads)]


# A container every ten seconds, beside an idle one: uptime and CPU seconds, None if it isn't there; then the totals.
CONTAINERS: dict[str, tuple[list[tuple[float, float] | None], list[float]]] = {
    "there at the first read: counts from then on": ([(5000, 700), (5010, 704), (5020, 704)], [0, 4, 4]),
    "has started since: counts with all that it has": ([None, (9, 6), (19, 8)], [0, 6, 8]),
    "migrated with hours on its counter: counts from then on": ([None, (9000, 6), (9010, 9)], [0, 0, 3]),
    "ended: its last rate for half of the time since": ([(70, 1), (80, 5), None, None], [0, 4, 6, 6]),
    "misses a read, and has not ended": ([(70, 1), (80, 5), None, (100, 13)], [0, 4, 6, 12]),
    "estimated too high: never lowers the total": ([(70, 0), (80, 8), None, (100, 9), (110, 10)], [0, 8, 12, 12, 13]),
    # Half of the ten seconds at 0.8 CPUs, and what the next one has.
    "another one with its id": ([(70, 0), (80, 8), (4, 3)], [0, 8, 15]),
    "read once: ends at its mean rate if it had started": ([None, (8, 4), None], [0, 4, 6.5]),
    "read once, at once: a rate is over a second at least": ([None, (0.5, 0.25), None], [0, 0.25, 1.5]),
    "read once and migrated: has no rate": ([None, (800, 4), None], [0, 0, 0]),
    "a second may be missing between two clocks": ([None, (11, 4)], [0, 4]),
    "and no more": ([None, (11.5, 4)], [0, 0]),
    "away for two reads, and has ended": (
        [(70, 1), (80, 5), None, None, (110, 600), (120, 603)],
        [0, 4, 6, 6, 6, 9],
    ),
}


def test_containers_count_from_their_start_to_their_end() -> None:
    for why, (reads, counted) in CONTAINERS.items():
        totals = Containers()
        found = [
            totals.read([Used("102", 50 + at, 0), *([Used("101", *read, read[1])] if read else [])], 1000 + at)
            for at, read in zip(range(0, 100, 10), reads, strict=False)
        ]
        assert found == [(total, total) for total in counted], why


def test_a_recording_at_another_pace_counts_the_same() -> None:
    reads = [
        [Used("101", 5000 + 60 * place, 30 * place), Used("102", 20 + 60 * place, 12 * place)] for place in range(5)
    ]
    reads.append([Used("101", 5300, 150), Used("103", 55, 10)])
    assert totals_of(*reads, every=0.1) == totals_of(*reads, every=60) == [0, 42, 84, 126, 168, 214]
    twice = [read for read in reads for _ in range(2)]
    assert totals_of(*twice)[::2] == [0, 42, 84, 126, 168, 214]


def test_a_rate_is_over_a_second_at_least() -> None:
    cpu = {70.0: 1.0, 71.0: 1.5, 71.5: 3.5}
    reads = [[Used("102", uptime, 0), Used("101", uptime, seconds)] for uptime, seconds in cpu.items()]
    # Half of a second at 0.5 CPUs, not at the 4 of half a second.
    assert totals_of(*reads, [Used("102", 72.5, 0)]) == [0, 0.5, 2.5, 2.75]


def test_a_waiting_time_goes_at_its_own_rate() -> None:
    waits = {50: 10, 60: 12, 70: None, 80: 18, 90: 20, 100: None}
    totals, found = Containers(), []
    for uptime, waited in waits.items():
        running = [Used("102", uptime, 0)] + ([] if waited is None else [Used("101", uptime, uptime / 10, waited)])
        found.append(totals.read(running, uptime))
    assert found == [(0, 0), (1, 2), (1.5, 3), (3, 8), (4, 10), (4.5, 11)]


def test_a_file_that_is_read_twice_at_once_says_the_same() -> None:
    totals = Containers()
    for uptime in (50, 60, 60, 70):
        totals.read([Used("102", uptime, 0)] + ([Used("101", uptime, uptime / 10)] if uptime < 70 else []), uptime)
    assert totals.with_ends("cpu") == 1.5


def test_the_last_container_ends_by_the_reader_s_clock() -> None:
    totals = Containers()
    assert totals.read([Used("101", 50, 5)], 0) == (0, 0)
    assert totals.read([Used("101", 60, 6, 2)], 10) == (1, 2)
    assert totals.read([], 20) == (1.5, 3)


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
    totals, seen = Containers(), []
    for now in range(0, 3600, every):
        running = [each for each in lives if each[1] <= now < each[2]]
        found = [Used(slot, now - begun, (now - begun) * rate) for slot, begun, _, rate in running]
        seen.append(totals.read(found, now)[0])
    truth = sum(
        (min(ended, now) - max(begun, 0)) * rate for _, begun, ended, rate in lives if begun < now and ended > 0
    )
    assert seen == sorted(seen)
    assert abs(seen[-1] / truth - 1) < within
