"""Which counts stand still while there is work: at the threshold, and with counts that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from virtscope.perf import groups
from virtscope.perf.scaling import Sum
from virtscope.perf.zeros import Member, Zeros

ROOT = Path(__file__).parents[3]
WANTED = """groups:
  others: [branch-misses, node-load-misses]
  cache: [branches, cycles, cache-misses]
"""
BRANCH_MISSES, BRANCHES, CYCLES, CACHE_MISSES = Member(0, 0), Member(1, 0), Member(1, 1), Member(1, 2)
ENOUGH = 10**10


@pytest.fixture
def zeros(tmp_path: Path) -> Zeros:
    file = tmp_path / "groups.yml"
    file.write_text(WANTED)
    return Zeros(groups.load(file, ROOT / "tests/fixtures/sysfs/intel-two-sockets").groups)


def counted(*values: float | None, seconds: float = 100, share: float = 1.0) -> Sum:
    total = Sum(len(values))
    total.values = list(values)
    total.enabled, total.running = round(seconds * 1e9), round(seconds * share * 1e9)
    return total


def on_cpu(zeros: Zeros, readings: Sequence[Mapping[int, Sum]]) -> set[Member]:
    """What is found at the last of these readings of a CPU."""
    found: set[Member] = set()
    for sums in readings:
        found = zeros.find([(0, sums)], [])
    return found


@pytest.mark.parametrize(("cycles", "found"), [(ENOUGH - 1, set()), (ENOUGH, {CACHE_MISSES})])
def test_a_count_stands_still_once_there_was_work_enough(zeros: Zeros, cycles: float, found: set[Member]) -> None:
    first = {1: counted(5, 700, 3)}
    assert on_cpu(zeros, [first, {1: counted(6, 700 + cycles, 3)}]) == found


def test_work_is_counted_from_the_last_move_on(zeros: Zeros) -> None:
    steps = [(0, 0), (0.9 * ENOUGH, 0), (1.8 * ENOUGH, 1), (2.7 * ENOUGH, 1)]
    readings = [{1: counted(1 + cycles, cycles, misses)} for cycles, misses in steps]
    assert on_cpu(zeros, readings) == set()
    assert on_cpu(zeros, [{1: counted(5 * ENOUGH, 2.8 * ENOUGH, 1)}]) == {CACHE_MISSES}
    assert on_cpu(zeros, [{1: counted(6 * ENOUGH, 2.9 * ENOUGH, 2)}]) == set()


@pytest.mark.parametrize(("cycles", "found"), [(ENOUGH - 1, set()), (ENOUGH, {BRANCH_MISSES})])
def test_work_is_that_of_the_group_that_has_counted_most(zeros: Zeros, cycles: float, found: set[Member]) -> None:
    first = {0: counted(3, 4), 1: counted(None, None, None)}
    assert on_cpu(zeros, [first, {0: counted(3, 9), 1: counted(8, cycles, 8)}]) == found


@pytest.mark.parametrize(("cycles", "found"), [(4 * ENOUGH - 8, set()), (4 * ENOUGH, {CACHE_MISSES})])
def test_a_group_can_count_what_is_in_its_turns_alone(zeros: Zeros, cycles: float, found: set[Member]) -> None:
    readings = [{1: counted(at + 1, at, 0, share=0.25)} for at in (0.0, cycles)]
    assert on_cpu(zeros, readings) == found


def test_what_is_not_counted_at_all_does_not_stand_still(zeros: Zeros) -> None:
    readings = [{1: counted(None, cycles, 0)} for cycles in (0, 2 * ENOUGH)]
    assert on_cpu(zeros, readings) == {CACHE_MISSES}, "and not the refused one before it"


def test_a_rare_event_may_stand_still(zeros: Zeros) -> None:
    readings = [{0: counted(cycles, 0), 1: counted(cycles, cycles, cycles)} for cycles in (0, 9 * ENOUGH)]
    assert on_cpu(zeros, readings) == set()


def test_each_cpu_is_looked_at_by_itself(zeros: Zeros) -> None:
    idle = {1: counted(1, 1, 0)}
    for cycles in (0, 2 * ENOUGH):
        busy = {1: counted(cycles, cycles, cycles)}
        assert zeros.find([(0, busy), (1, idle)], []) == set()


@pytest.mark.parametrize(
    ("seconds", "found"), [(100.99999999, set()), (101, {BRANCHES, CYCLES, CACHE_MISSES})], ids=["less", "enough"]
)
def test_a_cgroup_that_runs_has_cycles_whatever_is_counted(zeros: Zeros, seconds: float, found: set[Member]) -> None:
    cgroup = "/web"
    assert zeros.find([], [(cgroup, {1: counted(0, 0, 0, seconds=1)})]) == set()
    assert zeros.find([], [(cgroup, {1: counted(0, 0, 0, seconds=seconds)})]) == found


def test_what_has_gone_is_forgotten(zeros: Zeros) -> None:
    assert zeros.find([], [("/web", {1: counted(0, 0, 0, seconds=1)})]) == set()
    assert zeros.find([], []) == set()
    assert zeros.find([], [("/web", {1: counted(0, 0, 0, seconds=200)})]) == set(), "another one of the same name"
