"""Counters that stay 0 while there is work: at the threshold, and with missing counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from virtscope.perf import groups
from virtscope.perf.scaling import Sum
from virtscope.perf.zeros import Member, Zeros

SYSFS = Path(__file__).parents[2] / "fixtures/sysfs/intel-two-sockets"
WANTED = "groups:\n  others: [branch-misses, node-load-misses]\n  cache: [branches, cycles, cache-misses]\n"
BRANCH_MISSES, BRANCHES, CYCLES, CACHE_MISSES = Member(0, 0), Member(1, 0), Member(1, 1), Member(1, 2)
ENOUGH = 10**10


@pytest.fixture
def zeros(tmp_path: Path) -> Zeros:
    (tmp_path / "groups.yml").write_text(WANTED)
    return Zeros(groups.load(tmp_path / "groups.yml", SYSFS).groups)


def counted(*values: float | None, seconds: float = 100, share: float = 1.0) -> Sum:
    total = Sum(len(values))
    total.values = list(values)
    total.enabled, total.running = round(seconds * 1e9), round(seconds * share * 1e9)
    return total


def on_cpu(zeros: Zeros, *readings: Mapping[int, Sum]) -> set[Member]:
    """The result for the last of these readings of a CPU."""
    return [zeros.find([(0, sums)], []) for sums in readings][-1]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_count_stands_still_once_there_was_work_enough(zeros: Zeros, missing: int) -> None:
    standing = on_cpu(zeros, {1: counted(5, 700, 3)}, {1: counted(6, 700 + ENOUGH - missing, 3)})
    assert standing == (set() if missing else {CACHE_MISSES})


def test_work_is_counted_from_the_last_move_on(zeros: Zeros) -> None:
    steps = [(0, 0), (0.9 * ENOUGH, 0), (1.8 * ENOUGH, 1), (2.7 * ENOUGH, 1)]
    assert on_cpu(zeros, *({1: counted(1 + cycles, cycles, misses)} for cycles, misses in steps)) == set()
    assert on_cpu(zeros, {1: counted(5 * ENOUGH, 2.8 * ENOUGH, 1)}) == {CACHE_MISSES}
    assert on_cpu(zeros, {1: counted(6 * ENOUGH, 2.9 * ENOUGH, 2)}) == set()


@pytest.mark.parametrize("missing", [0, 1])
def test_work_is_that_of_the_group_that_has_counted_most(zeros: Zeros, missing: int) -> None:
    first = {0: counted(3, 4), 1: counted(None, None, None)}
    standing = on_cpu(zeros, first, {0: counted(3, 9), 1: counted(8, ENOUGH - missing, 8)})
    assert standing == (set() if missing else {BRANCH_MISSES})


@pytest.mark.parametrize("missing", [0, 8])
def test_a_group_can_count_what_is_in_its_turns_alone(zeros: Zeros, missing: int) -> None:
    readings = [{1: counted(at + 1, at, 0, share=0.25)} for at in (0.0, 4 * ENOUGH - missing)]
    assert on_cpu(zeros, *readings) == (set() if missing else {CACHE_MISSES})


def test_what_is_not_counted_at_all_or_may_be_rare_does_not_stand_still(zeros: Zeros) -> None:
    assert on_cpu(zeros, *({1: counted(None, cycles, 0)} for cycles in (0, 2 * ENOUGH))) == {CACHE_MISSES}
    rare = [{0: counted(cycles, 0), 1: counted(cycles, cycles, cycles)} for cycles in (3 * ENOUGH, 12 * ENOUGH)]
    assert on_cpu(zeros, *rare) == set()


def test_each_cpu_is_looked_at_by_itself(zeros: Zeros) -> None:
    for cycles in (0, 2 * ENOUGH):
        busy = {1: counted(cycles, cycles, cycles)}
        assert zeros.find([(0, busy), (1, {1: counted(1, 1, 0)})], []) == set()


def test_a_cgroup_that_runs_has_cycles_whatever_is_counted_and_is_forgotten_once_gone(zeros: Zeros) -> None:
    def after(seconds: float) -> set[Member]:
        return zeros.find([], [("/web", {1: counted(0, 0, 0, seconds=seconds)})])

    assert after(1) == after(100.99999999) == set()
    assert after(101) == {BRANCHES, CYCLES, CACHE_MISSES}
    assert zeros.find([], []) == set()
    assert after(200) == set(), "another one of the same name"
