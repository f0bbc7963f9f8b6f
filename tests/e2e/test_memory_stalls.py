"""sched-exporter's stalls for memory, as root on this machine's kernel, compared with the kernel's own accounting.

Containers read files by the page cache, or have memory of their own that is swapped out, below a limit that they share,
or one of their own. They are stopped while counters are read.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support import burning, caching
from tests.support.needs import missing, need_root
from tests.support.pages import Page
from tests.support.waiting import wait_for
from virtscope.sched.usage import parse_stall
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Hierarchy, hierarchy

DELAY, EVICTED, RECLAIM = "memory_delay_seconds_total", "memory_evicted_pages_total", "memory_reclaim_seconds_total"
PARENT = f"/virtscope-memory-{os.getpid()}"
LIMIT_MIB, SHOP_MIB, BATCH_MIB = 64, 40, 100
REST_SECONDS = 0.001  # of the shop after each MiB: it needs its pages less often than others evict them
ENOUGH_SECONDS = 0.2
ENOUGH_PAGES = 50_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

pytestmark = pytest.mark.system


def _is_stopped(pid: int) -> bool:
    return ") T " in Path(f"/proc/{pid}/stat").read_text()


class Cgroup:
    """A cgroup of the memory controller, below others, and its processes."""

    def __init__(self, mounted: Hierarchy, path: str, *, limit_mib: int = 0, pressure: bool = True) -> None:
        """With `pressure`, its processes are in version 2's hierarchy too, if version 1 has the controller."""
        self.path, self._mounted = path, mounted
        roots = {mounted.root, hierarchy(Path("/proc"), "unified").root} if pressure else {mounted.root}
        self._folders = [root / path.strip("/") for root in roots]
        self._folder = mounted.root / path.strip("/")
        self._processes: list[subprocess.Popen[str]] = []
        for folder in self._folders:
            folder.mkdir()
        if mounted.version == 2:
            (self._folder.parent / "cgroup.subtree_control").write_text("+memory")
        if limit_mib:
            limit = "memory.max" if mounted.version == 2 else "memory.limit_in_bytes"
            (self._folder / limit).write_text(str(limit_mib << 20))

    def run(self, *command: str) -> "subprocess.Popen[str]":
        enter = " ".join(f"echo $$ >{folder}/cgroup.procs;" for folder in self._folders)
        process = subprocess.Popen(
            ["sh", "-ec", f'{enter} exec "$@"', "sh", sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        return process

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)
            wait_for(partial(_is_stopped, process.pid), 60, every=0.01)

    def stalled(self) -> float:
        """Seconds by the kernel (PSI)."""
        (folder,) = [each for each in self._folders if (each / "memory.pressure").exists()]
        nanoseconds = parse_stall((folder / "memory.pressure").read_text())
        assert nanoseconds is not None
        return nanoseconds / 1e9

    def refaults(self, kind: str = "file") -> int:
        """Pages that were evicted and read again, by the kernel: of files, or `anon`."""
        words = (self._folder / "memory.stat").read_text().split()
        return int(dict(zip(words[::2], words[1::2], strict=True))[f"workingset_refault_{kind}"])

    def remove(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate(timeout=30)
        for folder in self._folders:  # they may be in it for a moment
            wait_for(folder.rmdir, 60, until=lambda _: True, not_yet=(OSError,))


@pytest.fixture
def mounted() -> Hierarchy:
    need_root("may load programs into the kernel and make cgroups")
    try:
        return hierarchy(Path("/proc"), "memory")
    except SourceUnavailable as error:
        missing(str(error))


@pytest.fixture
def cgroups(mounted: Hierarchy) -> Iterator[dict[str, Cgroup]]:
    """A shop, a batch job and a decoy that share a limit, and one below another parent."""
    with contextlib.ExitStack() as at_end:
        made = {}
        for name, limit in (("", LIMIT_MIB), ("/shop", 0), ("/batch", 0), ("/decoy", 0)):
            made[name.strip("/")] = Cgroup(mounted, PARENT + name, limit_mib=limit)
            at_end.callback(made[name.strip("/")].remove)
        for name in ("", "/other"):
            made["other"] = Cgroup(mounted, f"{PARENT}-other{name}")
            at_end.callback(made["other"].remove)
        yield made


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[RunningExporter]:
    need_root("may load programs into the kernel and make cgroups")
    flag = f"--cgroup.include={PARENT}*/*"
    with RunningExporter(tmp_path, flag, package="virtscope.sched") as exporter:
        exporter.get()
        for line in exporter.log_lines("source can't be measured"):
            missing(line["why"])
        yield exporter


@pytest.fixture
def files() -> Iterator[dict[str, str]]:
    """Files of zeros: reading them takes memory, and hardly a disk. /tmp may be a tmpfs, which can't be evicted."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name, mib in (("shop", SHOP_MIB), ("batch", BATCH_MIB)):
            with (Path(folder) / name).open("wb") as file:
                file.truncate(mib << 20)
        yield {name: f"{folder}/{name}" for name in ("shop", "batch")}


class Memory:
    """What the exporter shows."""

    def __init__(self, exporter: RunningExporter) -> None:
        self._exporter = exporter

    def of(self, metric: str, cgroup: Cgroup) -> dict[str, float]:
        """A cgroup's values, by who evicted, or by what was full."""
        page = Page.of(self._exporter.address)
        return {
            each.labels.get("by") or each.labels["full"]: each.value for each in page.all(metric, cgroup=cgroup.path)
        }

    def named(self, metric: str) -> set[str]:
        """All cgroups that are named as a cause."""
        samples = Page.of(self._exporter.address).all(metric)
        return {sample.labels["by"] for sample in samples if sample.labels["by"].startswith("/") and sample.value}


def passes(process: "subprocess.Popen[str]", count: int) -> None:
    """Wait until it has read its file this many times."""
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline() == "\n"


def test_who_evicts_a_container_s_pages_is_named_and_who_is_only_busy_is_not(
    exporter: RunningExporter, cgroups: dict[str, Cgroup], files: dict[str, str]
) -> None:
    memory = Memory(exporter)
    shop, batch, decoy, other = (cgroups[name] for name in ("shop", "batch", "decoy", "other"))
    reader = shop.run(caching.SCRIPT, files["shop"], str(REST_SECONDS))
    for each in (decoy, other):
        each.run(burning.SCRIPT)
    passes(reader, 5)
    alone = memory.of(EVICTED, shop)
    assert sum(alone.values()) == 0, "its file fits"
    assert sum(memory.of(DELAY, shop).values()) == 0
    before = shop.stalled()

    batch.run(caching.SCRIPT, files["batch"], "0")
    wait_for(lambda: sum(memory.of(DELAY, shop).values()) > ENOUGH_SECONDS)
    for each in (shop, batch, decoy, other):
        each.stop()
    evicted, delay, refaults = memory.of(EVICTED, shop), memory.of(DELAY, shop), shop.refaults()
    assert evicted[batch.path] > 0.5 * sum(evicted.values())
    assert refaults <= sum(evicted.values()) <= refaults + (SHOP_MIB << 20) / PAGE_BYTES
    assert sum(delay.values()) == pytest.approx(shop.stalled() - before, rel=0.03)
    assert delay[batch.path] > 0.5 * sum(delay.values())
    assert delay["(cap)"] == 0
    assert memory.named(DELAY) <= {batch.path, shop.path}
    assert memory.of(RECLAIM, batch)["limit"] > 0
    assert memory.of(RECLAIM, batch)["machine"] == 0


def test_what_its_own_limit_evicts_is_its_own(
    exporter: RunningExporter, mounted: Hierarchy, cgroups: dict[str, Cgroup], files: dict[str, str]
) -> None:
    """In version 1 it has no PSI: its stall is the time of its reclaim."""
    memory = Memory(exporter)
    with contextlib.ExitStack() as at_end:
        capped = Cgroup(mounted, f"{PARENT}/capped", limit_mib=SHOP_MIB // 2, pressure=mounted.version == 2)
        at_end.callback(capped.remove)
        cgroups["decoy"].run(burning.SCRIPT)
        wait_for(lambda: memory.of(DELAY, capped))
        capped.run(caching.SCRIPT, files["shop"], "0")
        wait_for(
            lambda: memory.of(EVICTED, capped)["(self)"] > ENOUGH_PAGES, explain=lambda: memory.of(EVICTED, capped)
        )
        capped.stop()
        delay, reclaim, evicted = (memory.of(metric, capped) for metric in (DELAY, RECLAIM, EVICTED))
        stalled = capped.stalled() if mounted.version == 2 else sum(reclaim.values())
    assert sum(delay.values()) == pytest.approx(stalled, rel=0.05)
    assert delay["(cap)"] > 0.95 * sum(delay.values()) > 0
    assert evicted["(self)"] == sum(evicted.values())
    assert not memory.named(DELAY)


@pytest.fixture
def swap() -> Iterator[None]:
    """Compressed memory to swap to, which takes no disk."""
    need_root("may swap")
    control = Path("/sys/class/zram-control")
    if not control.exists() and shutil.which("modprobe"):
        subprocess.run(["modprobe", "zram"], capture_output=True, check=False)
    if not control.exists():
        pytest.skip("this kernel has no zram, neither built in nor as a module")
    number = (control / "hot_add").read_text().strip()
    device = f"/dev/zram{number}"
    with contextlib.ExitStack() as at_end:
        at_end.callback((control / "hot_remove").write_text, number)
        Path(f"/sys/block/zram{number}/disksize").write_text("512M")
        for command in ("mkswap", "swapon"):
            subprocess.run([command, device], capture_output=True, check=True)
        at_end.callback(subprocess.run, ["swapoff", device], check=True)
        yield


WRITES = """
# Writes to each page of its memory, again and again, and prints a line after each pass; rests after each MiB.
import sys, time
memory, rest = bytearray(int(sys.argv[1]) << 20), float(sys.argv[2])
while True:
    for at in range(0, len(memory), 4096):
        memory[at] = 1
        if rest and not at % (1 << 20):
            time.sleep(rest)
    print(flush=True)
"""


@pytest.mark.usefixtures("swap")
def test_who_has_a_container_s_memory_swapped_out_is_named(
    exporter: RunningExporter, cgroups: dict[str, Cgroup]
) -> None:
    memory = Memory(exporter)
    shop, batch, decoy = (cgroups[name] for name in ("shop", "batch", "decoy"))
    writer = shop.run(WRITES, str(SHOP_MIB), str(REST_SECONDS))
    decoy.run(burning.SCRIPT)
    passes(writer, 5)
    assert sum(memory.of(EVICTED, shop).values()) == 0, "its memory fits"
    before = shop.stalled()
    batch.run(WRITES, str(BATCH_MIB), "0")
    wait_for(lambda: sum(memory.of(DELAY, shop).values()) > ENOUGH_SECONDS)
    for each in (shop, batch, decoy):
        each.stop()
    evicted, delay = memory.of(EVICTED, shop), memory.of(DELAY, shop)
    assert evicted[batch.path] > 0.5 * sum(evicted.values())
    assert shop.refaults("anon") <= sum(evicted.values())
    assert sum(delay.values()) == pytest.approx(shop.stalled() - before, rel=0.03)
    assert delay[batch.path] > 0.5 * sum(delay.values())
    assert memory.named(DELAY) <= {batch.path, shop.path}
