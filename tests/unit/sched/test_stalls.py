"""Who caused a cgroup's stalls for memory: the pure estimate from evictions, and the kernel's texts it reads."""

import math
from pathlib import Path

import pytest

from virtscope.sched.memory import BY_KSWAPD, MIN_PAGES
from virtscope.sched.names import HOST, REST, Found, Name
from virtscope.sched.stalls import CAP, Interval, Pages, Stalls, divided, shares, without_kswapd
from virtscope.sched.usage import Folders, grown, own, parse_bytes, parse_stall, without_controller

SECOND = 10**9
SHOP, BATCH, DECOY = "/docker/shop", "/docker/batch", "/docker/decoy"
ALL = {1: Name(HOST, HOST)} | {number: Name(name, name) for number, name in enumerate((SHOP, BATCH, DECOY), 2)}
FOUND = Found(ALL, *(frozenset(name[part] for name in ALL.values()) for part in (0, 1)))


def interval(
    evicted: Pages | None = None,
    stalled: float = 0,
    grown_pages: dict[str, float] | None = None,
    *,
    full: frozenset[str] = frozenset(),
) -> Interval:
    """The shop stalled this long, in seconds."""
    return Interval(evicted or {}, {SHOP: int(stalled * SECOND)}, grown_pages or {}, full)


def seconds(stalls: Stalls) -> dict[str, float]:
    return {by: ns / SECOND for by, ns in stalls.rows[SHOP].ns.items() if ns}


# --- Whose doing a stall is -------------------------------------------------------------------------------------------


def test_a_stall_is_divided_by_who_evicted_the_pages() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: 7500, SHOP: 2500}}, 4), FOUND, 0)
    assert seconds(stalls) == pytest.approx({BATCH: 3, SHOP: 1})
    assert stalls.rows.keys() == FOUND.shown


def test_nobody_is_named_who_evicted_less_than_half() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: 4900, DECOY: 2000, SHOP: 3100}}, 10), FOUND, 0)
    assert seconds(stalls) == pytest.approx({REST: 6.9, SHOP: 3.1})


def test_few_evicted_pages_explain_nothing() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: MIN_PAGES - 1}}, 1), FOUND, 0)
    assert seconds(stalls) == {REST: 1}
    stalls.add(interval({SHOP: {BATCH: 2}}, 1), FOUND, 0)
    assert seconds(stalls) == {REST: 1, BATCH: 1}


def test_without_evictions_a_stall_has_other_reasons() -> None:
    stalls = Stalls()
    stalls.add(interval(stalled=2), FOUND, 0)
    assert seconds(stalls) == {REST: 2}


def test_others_evictions_are_not_the_shop_s() -> None:
    stalls = Stalls()
    stalls.add(interval({DECOY: {BATCH: 10_000}}, 1), FOUND, 0)
    assert seconds(stalls) == {REST: 1}
    assert not any(stalls.rows[DECOY].ns.values()), "it evicts, and doesn't stall"


def test_evictions_below_its_own_limit_are_its_cap_and_in_a_shared_limit_its_own() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {SHOP: 5000}}, 2, full=frozenset({SHOP})), FOUND, 0)
    assert seconds(stalls) == {CAP: 2}
    stalls = Stalls()
    stalls.add(interval({SHOP: {SHOP: 5000}}, 2), FOUND, 0)
    assert seconds(stalls) == {SHOP: 2}


def test_a_neighbour_that_evicts_is_named_even_if_the_victim_is_at_its_own_limit() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {SHOP: 1000, BATCH: 3000}}, 4, full=frozenset({SHOP})), FOUND, 0)
    assert seconds(stalls) == pytest.approx({CAP: 1, BATCH: 3})


def test_a_refault_comes_after_its_eviction_which_still_counts_a_minute_later() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: 40_000}}), FOUND, 0)
    stalls.add(interval({SHOP: {SHOP: 10_000}}, 3), FOUND, 60)
    assert seconds(stalls) == pytest.approx({BATCH: 2, SHOP: 1}), "20,000 and 10,000 pages"


def test_old_evictions_are_forgotten() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: 40_000}}), FOUND, 0)
    stalls.add(interval(stalled=1), FOUND, 600)
    assert seconds(stalls) == {REST: 1}


def test_a_container_that_ended_is_named_no_more() -> None:
    stalls = Stalls()
    stalls.add(interval({SHOP: {BATCH: 40_000}}, 1), FOUND, 0)
    without = {number: name for number, name in ALL.items() if name.waiting != BATCH}
    rest = Found(without, FOUND.shown - {BATCH}, FOUND.running - {BATCH})
    stalls.add(interval(stalled=1), rest, 15)
    assert seconds(stalls) == {REST: 1}
    assert BATCH not in stalls.rows


@pytest.mark.parametrize("ns", [0, 1, 7, SECOND + 1])
def test_no_nanosecond_is_lost_in_division(ns: int) -> None:
    parts = shares({BATCH: 2000.0, SHOP: 777.0, DECOY: 333.0}, SHOP)
    assert sum(parts.values()) == pytest.approx(1)
    assert sum(divided(ns, parts).values()) == ns
    assert min(divided(ns, parts).values(), default=0) >= 0


# --- kswapd -----------------------------------------------------------------------------------------------------------


def test_kswapd_evicts_for_who_allocated() -> None:
    evicted = {SHOP: {BY_KSWAPD: 10_000, BATCH: 500}}
    assert without_kswapd(evicted, {BATCH: 30_000, SHOP: -500, DECOY: -20}) == {SHOP: pytest.approx({BATCH: 10_500})}, (
        "the shop lost 10,500 pages, and read 10,000 again"
    )


def test_who_reads_its_pages_again_is_the_cause_of_what_nobody_else_allocated() -> None:
    assert without_kswapd({SHOP: {BY_KSWAPD: 10_000}}, {BATCH: 4_000, SHOP: 0}) == {
        SHOP: pytest.approx({BATCH: 4_000, SHOP: 6_000})
    }


def test_a_victim_that_grows_is_a_cause_itself() -> None:
    assert without_kswapd({SHOP: {BY_KSWAPD: 10_000}}, {BATCH: 10_000, SHOP: 30_000}) == {
        SHOP: pytest.approx({BATCH: 2_500, SHOP: 7_500})
    }


def test_kswapd_s_evictions_are_the_rest_where_nobody_allocated_as_much() -> None:
    assert without_kswapd({SHOP: {BY_KSWAPD: 10_000}}, {BATCH: 1_000, SHOP: -10_000}) == {
        SHOP: pytest.approx({BATCH: 1_000, REST: 9_000})
    }
    stalls = Stalls()
    stalls.add(interval({SHOP: {BY_KSWAPD: 10_000}}, 1), FOUND, 0)
    assert seconds(stalls) == {REST: 1}


def test_without_kswapd_growth_is_nobody_s_fault() -> None:
    assert without_kswapd({SHOP: {SHOP: 5.0}}, {BATCH: 30_000}) == {SHOP: {SHOP: 5.0}}


# --- The kernel's texts -----------------------------------------------------------------------------------------------

PRESSURE = "some avg10=1.53 avg60=0.87 avg300=0.20 total=1838025\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=91916\n"


def test_a_stall_is_the_total_of_some() -> None:
    assert parse_stall(PRESSURE) == 1_838_025_000


@pytest.mark.parametrize("text", ["", "some", "some total=", "full avg10=0.00 total=5\n", "some avg10=0 total=-1\n"])
def test_without_a_total_of_some_there_is_no_stall(text: str) -> None:
    assert parse_stall(text) is None


def test_bytes_or_no_limit_at_all() -> None:
    assert parse_bytes("268435456\n") == 268435456
    assert parse_bytes("max\n") == math.inf
    assert parse_bytes("") is None


def test_a_new_cgroup_has_grown_by_all_of_its_usage() -> None:
    assert grown({SHOP: 100, BATCH: 5}, {SHOP: 60, DECOY: 7}) == {SHOP: -40, DECOY: 7}


class Host:
    """Folders of version 2 with a shop at its limit and one without PSI, as files."""

    def __init__(self, tmp_path: Path) -> None:
        self.procfs, self.root = tmp_path / "proc", tmp_path / "cgroup"
        for folder in (self.procfs / "pressure", self.root / "docker/shop", self.root / "docker/batch"):
            folder.mkdir(parents=True)
        self.stall(0)
        for name, limits in (("shop", ("100000", "max")), ("batch", ("max", "max"))):
            folder = self.root / "docker" / name
            (folder / "memory.current").write_text("98000\n")
            (folder / "memory.max").write_text(limits[0])
            (folder / "memory.high").write_text(limits[1])

    def stall(self, microseconds: int) -> None:
        for file in (self.procfs / "pressure/memory", self.root / "docker/shop/memory.pressure"):
            file.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={microseconds}\n")

    def folders(self) -> Folders:
        return Folders(self.procfs, self.root, 2)


def test_a_stall_is_counted_from_the_first_look_on(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.stall(500)
    folders = host.folders()
    assert folders.has_pressure
    assert folders.stalled([SHOP, BATCH]) == {SHOP: 0}
    host.stall(700)
    assert folders.stalled([SHOP, BATCH]) == {SHOP: 200_000}
    assert folders.stalled([SHOP, BATCH]) == {SHOP: 0}


def test_a_cgroup_is_full_at_the_smallest_of_its_limits(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.folders().full([SHOP, BATCH, DECOY]) == {SHOP}
    (host.root / "docker/batch/memory.high").write_text("98304\n")
    assert host.folders().full([SHOP, BATCH, DECOY]) == {SHOP, BATCH}
    assert host.folders().usage([SHOP, DECOY]) == {SHOP: 98_000}


def test_without_the_controller_there_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io pids\n")
    assert "cgroup_disable=memory" in str(without_controller(tmp_path, 2))
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert without_controller(tmp_path, 2) is None
    assert without_controller(tmp_path, 1) is None


def test_usage_of_a_container_isn_t_its_unit_s_own() -> None:
    usages = {"/user.slice/user-1000.slice": 100, "/user.slice/user-1000.slice/a/libpod-1.scope": 70, "/docker/aa": 30}
    assert own(usages) == {**usages, "/user.slice/user-1000.slice": 30}
