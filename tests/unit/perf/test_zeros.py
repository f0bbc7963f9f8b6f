"""Counters that stay 0 while there is work: at the threshold, and with missing counts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from virtscope.perf import groups
from virtscope.perf.groups import Group
from virtscope.perf.scaling import Sum
from virtscope.perf.zeros import Member, Zeros

SYSFS = Path(__file__).parents[2] / "fixtures/sysfs/intel-two-sockets"
WANTED = "groups:\n  others: [branch-misses, node-load-misses]\n  cache: [branches, cycles, cache-misses]\n"
BRANCH_MISSES, BRANCHES, CYCLES, CACHE_MISSES = Member(0, 0), Member(1, 0), Member(1, 1), Member(1, 2)
ENOUGH = 10**10


@pytest.fixture
def wanted(tmp_path: Path) -> Sequence[Group]:
    (tmp_path / "groups.yml").write_text(WANTED)
    return groups.load(tmp_path / "groups.yml", SYSFS).groups


def counted(*values: float | None, seconds: float = 100, share: float = 1.0) -> Sum:
    total = Sum(len(values))
    total.values = list(values)
    total.enabled, total.running = round(seconds * 1e9), round(seconds * share * 1e9)
    return total


def on_cpu(wanted: Sequence[Group], *readings: Mapping[int, Sum]) -> set[Member]:
    """The result for the last of these readings of a CPU."""
    zeros = Zeros(wanted)
    return [zeros.find([(0, sums)], []) for sums in readings][-1]


def test_a_count_stands_still_once_there_was_work_enough(wanted: Sequence[Group]) -> None:
    """As much as the group counted that has counted most, and in its own turns."""
    for missing in (0, 8):
        work, nothing = ENOUGH - missing, counted(None, None, None)
        own = [{1: counted(5, 700, 3)}, {1: counted(6, 700 + work, 3)}]
        most = [{0: counted(3, 4), 1: nothing}, {0: counted(3, 9), 1: counted(8, work, 8)}]
        in_turns = [{1: counted(at + 1, at, 0, share=0.25)} for at in (0.0, 4 * ENOUGH - missing)]
        found = [on_cpu(wanted, *readings) for readings in (own, most, in_turns)]
        assert found == ([set()] * 3 if missing else [{CACHE_MISSES}, {BRANCH_MISSES}, {CACHE_MISSES}])


def test_work_is_counted_from_the_last_move_on(wanted: Sequence[Group]) -> None:
    steps = [(0.0, 0), (0.9, 0), (1.8, 1), (2.7, 1), (2.8, 1), (2.9, 2)]
    readings = [{1: counted(1 + work, work * ENOUGH, misses)} for work, misses in steps]
    assert [on_cpu(wanted, *readings[:until]) for until in (4, 5, 6)] == [set(), {CACHE_MISSES}, set()]


def test_what_is_not_counted_at_all_or_may_be_rare_does_not_stand_still(wanted: Sequence[Group]) -> None:
    assert on_cpu(wanted, *({1: counted(None, cycles, 0)} for cycles in (0, 2 * ENOUGH))) == {CACHE_MISSES}
    rare = [{0: counted(cycles, 0), 1: counted(cycles, cycles, cycles)} for cycles in (3 * ENOUGH, 12 * ENOUGH)]
    assert on_cpu(wanted, *rare) == set()


def test_a_cgroup_that_runs_has_cycles_whatever_is_counted_and_is_forgotten_once_gone(wanted: Sequence[Group]) -> None:
    zeros = Zeros(wanted)

    def after(seconds: float) -> set[Member]:
        return zeros.find([], [("/web", {1: counted(0, 0, 0, seconds=seconds)})])

    assert after(1) == after(100.99999999) == set()
    assert after(101) == {BRANCHES, CYCLES, CACHE_MISSES}
    assert zeros.find([], []) == set()
    assert after(200) == set(), "another one of the same name"
