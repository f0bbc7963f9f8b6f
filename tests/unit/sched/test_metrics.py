"""The page: each named pair, from monotonic counters, and what becomes of the kernel's pairs of a device."""

from pathlib import Path

from tests.golden_pages import assert_golden, assert_lints
from virtscope.sched import disk, irq, memory, metrics
from virtscope.sched.cpu import IDLE, MAX_PAIRS, NOBODY, OTHER, STOLEN, THROTTLED, Totals
from virtscope.sched.names import HOST, Found, Name
from virtscope.sched.pairs import Pairs, Waited
from virtscope.sched.stalls import Interval, Stalls
from virtscope.toolkit.exposition import Encoder

GOLDEN = Path(__file__).resolve().parents[2] / "golden/sched.prom"

SECOND = 10**9
SHOP, BATCH, BACKUP = "/docker/" + "4f2c" * 16, r"/machine.slice/machine-qemu\x2d7\x2dbatch.scope", "backup.service"
NAMES = {1: Name(HOST, HOST), 2: Name(SHOP, SHOP), 3: Name(BATCH, BATCH), 4: Name(HOST, f"/system.slice/{BACKUP}")}
WAITING, RUNNING = ({name[part] for name in NAMES.values()} for part in (0, 1))
FOUND = Found(NAMES, frozenset(WAITING), frozenset(RUNNING))
KERNEL = {
    (2, 3): Waited(332 * SECOND, 41_000),
    (2, 4): Waited(31 * SECOND, 7_000),
    (2, 1): Waited(2 * SECOND, 9_000),
    (2, 2): Waited(25 * SECOND // 10, 800),
    (2, IDLE): Waited(SECOND // 4, 60_000),
    (2, OTHER): Waited(SECOND // 100, 1),
    (2, THROTTLED): Waited(12 * SECOND, 130),
    (3, 2): Waited(9 * SECOND, 1_200),
    (3, STOLEN): Waited(SECOND // 2, 40),
    (4, 3): Waited(3 * SECOND, 500),
    (1, IDLE): Waited(SECOND // 8, 200_000),
}
TOTALS = Totals(switches=2_400_000, waited=393 * SECOND, run_delay=394 * SECOND, lost=0)


DISK = 8 << 20
DELAYED = {
    (2, disk.DEVICE): Waited(62 * SECOND, 31_000),
    (2, 2): Waited(7 * SECOND, 0),
    (2, disk.THROTTLED): Waited(0, 0),
    (2, disk.OTHER): Waited(SECOND // 10, 0),
    (2, 3): Waited(22 * SECOND, 0),
    (2, 4): Waited(3 * SECOND, 0),
    (1, disk.DEVICE): Waited(5 * SECOND, 2_000),
    (1, 2): Waited(SECOND // 2, 0),
}
DEVICE = disk.Device(DISK, requests=40_000, waited=99_600_000_000, lost=0, asynchronous=7_000)

TAKEN = {
    (2, 3): Waited(41 * SECOND, 0),
    (2, 2): Waited(SECOND // 2, 0),
    (2, irq.OF_HOST): Waited(3 * SECOND, 0),
    (2, 5 | irq.BLKIO): Waited(SECOND // 5, 0),
    (1, 3): Waited(SECOND, 0),
    (4, irq.OTHER): Waited(SECOND // 10, 0),
}
BLKIO_NAMES = {1: Name(HOST, HOST), 5: NAMES[4]}
# struct cpu, in ns: softirqs by number, hard interrupts, charged, lost, and others that aren't read.
PER_CPU = [0, 2 * SECOND, SECOND // 4, 60 * SECOND, SECOND, 0, SECOND // 8, SECOND, SECOND // 8, SECOND // 2]
PER_CPU += [3 * SECOND, 45_800_000_000, 7, 123, 456]

EVICTED = {
    (2, 3): Waited(70_000, 0),
    (2, memory.KSWAPD): Waited(10_000, 0),
    (2, 2): Waited(20_000, 0),
    (3, 3): Waited(5_000, 0),
    (3, 4): Waited(600, 0),
}
RECLAIMED = {
    (2, memory.LIMIT): Waited(SECOND // 2, 90),
    (2, memory.MACHINE): Waited(SECOND // 4, 10),
    (3, memory.LIMIT): Waited(3 * SECOND, 700),
    (3, memory.MACHINE): Waited(0, 0),
}


def of_memory() -> memory.Rows:
    """The shop's pages are evicted by the batch job and kswapd; the batch job is at its own limit."""
    evicted, reclaimed = (
        Pairs(memory.NOBODY, memory.MAX_PAIRS, memory.MIN_PAGES),
        Pairs(memory.RECLAIM, memory.MAX_RECLAIMS),
    )
    evicted.add(EVICTED, FOUND, 0)
    reclaimed.add(RECLAIMED, FOUND, 0)
    stalls = Stalls()
    stalled = {SHOP: 10 * SECOND, BATCH: 3 * SECOND}
    stalls.add(Interval(evicted.grown, stalled, {BATCH: 10_000}, frozenset({BATCH})), FOUND, 0)
    return memory.Rows(stalls.rows, evicted.rows, reclaimed.rows)


def test_golden_exposition() -> None:
    pairs = Pairs(NOBODY, MAX_PAIRS)
    pairs.add(KERNEL, FOUND, 0)
    ledger = disk.Ledger()
    ledger.add({DISK: DELAYED}, FOUND, 0)
    of_disks = metrics.of_disks({"sda": ledger.devices[DISK].rows}, {"sda": DEVICE})
    taken = Pairs(irq.NOBODY, irq.MAX_PAIRS)
    taken.add(TAKEN, irq.with_disks(FOUND, BLKIO_NAMES), 0)
    of_interrupts = metrics.of_interrupts(taken.rows, irq.totals(PER_CPU))
    others = [*of_disks, *of_interrupts, *metrics.of_memory(of_memory(), memory.Totals(pages=105_600, lost=0))]
    exposed = Encoder().text([*metrics.of_cpu(pairs.rows, TOTALS), *others])
    assert_golden(GOLDEN, exposed)
    assert_lints(exposed)
    # Where the kernel counts nothing there is no count of it.
    lines = exposed.splitlines(keepends=True)
    assert Encoder().text([*metrics.of_cpu(pairs.rows, TOTALS._replace(run_delay=0)), *others]) == b"".join(
        line for line in lines if not line.startswith(b"sched_wait_kernel_seconds_total")
    )


def test_of_a_device_only_its_users_have_series_and_only_ended_cgroups_are_forgotten_whole() -> None:
    ledger = disk.Ledger()
    assert ledger.add({DISK: DELAYED, DISK + 16: {(3, disk.DEVICE): Waited(SECOND, 1)}}, FOUND, 0) == {
        DISK: [],
        DISK + 16: [],
    }
    assert {number: set(pairs.rows) for number, pairs in ledger.devices.items()} == {
        DISK: {SHOP, HOST},
        DISK + 16: {BATCH},
    }
    names = {number: name for number, name in NAMES.items() if number != 2}
    without = Found(names, FOUND.shown - {SHOP}, FOUND.running - {SHOP})
    (unneeded,) = ledger.add({DISK: DELAYED}, without, 15).values()
    assert set(unneeded) == {pair for pair in DELAYED if 2 in pair}
    assert set(ledger.devices[DISK].rows) == {HOST}


def test_a_crowded_map_loses_idle_pairs_but_no_victim_s_own_sums() -> None:
    names = NAMES | {number: Name(f"/docker/{number}", f"/docker/{number}") for number in range(10, 110)}
    found = Found(names, *(frozenset(name[part] for name in names.values()) for part in (0, 1)))
    delayed = {(waiting, served): Waited(SECOND, 1) for waiting in range(10, 110) for served in range(10, 110)}
    delayed |= {(2, disk.DEVICE): Waited(SECOND, 1)}
    ledger = disk.Ledger()
    ledger.add({DISK: delayed}, found, 0)
    unneeded = ledger.add({DISK: delayed}, found, 15)[DISK]
    assert set(unneeded) == {(waiting, served) for waiting, served in delayed if waiting != served} - {(2, disk.DEVICE)}


def test_a_device_is_called_by_its_numbers() -> None:
    assert DEVICE.numbers == "8:0"
    assert DEVICE._replace(number=259 << 20 | 3).numbers == "259:3"


def test_time_in_softirqs_is_summed_by_kind() -> None:
    totals = irq.totals(PER_CPU)
    assert totals.kinds == {
        "other": SECOND // 8,
        "timer": 2 * SECOND + SECOND // 8,
        "net_tx": SECOND // 4,
        "net_rx": 60 * SECOND,
        "block": SECOND,
        "sched": SECOND,
        "rcu": SECOND // 2,
        "hard": 3 * SECOND,
    }
    assert (totals.charged, totals.lost) == (45_800_000_000, 7)


def test_a_disk_s_cgroup_of_version_1_has_the_name_of_its_own_hierarchy() -> None:
    found = irq.with_disks(FOUND, {2: Name(BATCH, BATCH)})
    assert found.names[2].running == SHOP
    assert found.names[2 | irq.BLKIO].running == BATCH
    assert found.shown == FOUND.shown
