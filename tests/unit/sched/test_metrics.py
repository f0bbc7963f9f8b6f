"""The page: each named pair, from monotonic counters."""

from pathlib import Path

from tests.golden_pages import assert_golden, assert_lints
from virtscope.sched.metrics import families
from virtscope.sched.names import HOST, Found, Name
from virtscope.sched.pairs import Pairs
from virtscope.sched.program import IDLE, OTHER, STOLEN, THROTTLED, Totals, Waited
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


def test_golden_exposition() -> None:
    pairs = Pairs()
    pairs.add(KERNEL, FOUND, 0)
    exposed = Encoder().text(families(pairs.rows, TOTALS))
    assert_golden(GOLDEN, exposed)
    assert_lints(exposed)
    # Where the kernel counts nothing there is no count of it.
    lines = exposed.splitlines(keepends=True)
    assert Encoder().text(families(pairs.rows, TOTALS._replace(run_delay=0))) == b"".join(
        line for line in lines if not line.startswith(b"sched_wait_kernel_seconds_total")
    )
