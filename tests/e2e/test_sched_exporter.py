"""sched-exporter as a user runs it, as root on this machine's kernel, compared with the kernel's own accounting.

Loads are stopped while counters are read, so that all counters can be compared exactly.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter, ended
from tests.golden_pages import assert_lints
from tests.support import burning
from tests.support.pages import Page
from tests.support.waiting import wait_for
from virtscope.sched import privileges
from virtscope.sched.cpu import MAX_PAIRS, OTHER, THROTTLED, Waits
from virtscope.sched.reasons import Machine
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.hierarchy import Hierarchy, hierarchy

WINDOW_SECONDS = 3
ENOUGH_SECONDS = 2.0  # of wait, enough to compare
CPU = max(os.sched_getaffinity(0))  # the others are for the machine's other processes
WAIT = "sched_wait_seconds_total"
NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable)


def running(folder: Path, *flags: str, python: tuple[str, ...] = (sys.executable,)) -> RunningExporter:
    return RunningExporter(folder, *flags, package="virtscope.sched", python=python)


def rows(page: Page, metric: str, *, of: str) -> dict[str, float]:
    """The values of a cgroup's series, by what ran."""
    return {sample.labels.get("running", ""): sample.value for sample in page.all(metric, cgroup=of)}


class Container:
    """A cgroup that the exporter takes for a container, with a load that uses a whole CPU."""

    def __init__(self, mounted: Hierarchy, name: str) -> None:
        self.path = f"/virtscope/{name}"
        self.folder = mounted.root / self.path.strip("/")
        self._version = mounted.version
        self._processes: list[subprocess.Popen[bytes]] = []
        self.folder.mkdir(parents=True)
        # The machine's other processes hardly count.
        if mounted.version == 1:
            (self.folder.parent / "cpu.shares").write_text("100000")
        else:
            for folder in (mounted.root, self.folder.parent):
                (folder / "cgroup.subtree_control").write_text("+cpu")
            (self.folder.parent / "cpu.weight").write_text("10000")

    def burn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", burning.SCRIPT])
        self._processes.append(process)
        os.sched_setaffinity(process.pid, {CPU})
        (self.folder / "cgroup.procs").write_text(str(process.pid))
        return process

    def cap(self, cpus: float) -> None:
        if self._version == 1:
            (self.folder / "cpu.cfs_quota_us").write_text(str(int(cpus * 100_000)))
        else:
            (self.folder / "cpu.max").write_text(f"{int(cpus * 100_000)} 100000")

    def throttled(self) -> float:
        """Seconds that its cap throttled its tasks, over all CPUs."""
        words = (self.folder / "cpu.stat").read_text().split()
        stat = dict(zip(words[0::2], map(int, words[1::2]), strict=True))
        return stat["throttled_time"] / 1e9 if self._version == 1 else stat["throttled_usec"] / 1e6

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)
            status = Path(f"/proc/{process.pid}/stat")
            wait_for(lambda: ") T " in status.read_text(), 60, every=0.01)  # noqa: B023

    def go_on(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def waited(self) -> float:
        """Seconds that its processes waited for a CPU, by the kernel (man proc, schedstat)."""
        return sum(int(Path(f"/proc/{each.pid}/schedstat").read_text().split()[1]) for each in self._processes) / 1e9

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(30)
        self._processes.clear()
        wait_for(self.folder.rmdir, 60, until=lambda _: True, not_yet=(OSError,))  # they may be in it for a moment


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Hierarchy:
    """The cgroup hierarchy, on a machine whose kernel accepts the program."""
    if os.geteuid() != 0:
        pytest.skip("only root may load programs into the kernel and make cgroups: run this as root")
    with running(tmp_path_factory.mktemp("tried")) as exporter:
        exporter.get()
        for line in exporter.log_lines("source absent"):
            # If the kernel has BTF, refusing the program means that the program is wrong.
            if os.environ.get("CI") == "true" and Path("/sys/kernel/btf/vmlinux").exists():
                pytest.fail(line["why"])
            pytest.skip(line["why"])
    try:
        return hierarchy(Path("/proc"), "cpu")
    except SourceUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def program(mounted: Hierarchy) -> Iterator[Waits]:
    privileges.raise_memory_lock()
    with contextlib.closing(Waits(mounted.version, Machine.read(Path("/proc"), Path("/sys")))) as program:
        yield program


@pytest.fixture
def containers(mounted: Hierarchy) -> Iterator[list[Container]]:
    with contextlib.ExitStack() as stack:
        made = [Container(mounted, f"{name}-{os.getpid()}") for name in ("shop", "batch")]
        for each in made:
            stack.callback(each.end)
        yield made


def between_two_stops(
    exporter: RunningExporter, shop: Container, seconds: Callable[[], float]
) -> tuple[dict[str, float], float]:
    """A container's wait as charged by the exporter, by what ran, and as counted by the kernel meanwhile."""
    shop.stop()
    before, counted = rows(Page.of(exporter.address), WAIT, of=shop.path), seconds()
    shop.go_on()
    wait_for(lambda: seconds() - counted > ENOUGH_SECONDS, explain=lambda: "it doesn't wait")
    shop.stop()
    after, counted = rows(Page.of(exporter.address), WAIT, of=shop.path), seconds() - counted
    return {name: value - before.get(name, 0) for name, value in after.items()}, counted


@pytest.mark.system
def test_who_ran_while_a_container_waited_is_named_with_the_kernel_s_seconds(
    tmp_path: Path, containers: list[Container]
) -> None:
    shop, batch = containers
    shop.burn()
    batch.burn()
    with running(tmp_path) as exporter:
        charged, waited = between_two_stops(exporter, shop, shop.waited)
    assert sum(charged.values()) == pytest.approx(waited, rel=0.03)
    assert max(charged, key=charged.__getitem__) == batch.path
    assert charged["(cap)"] == 0


@pytest.mark.system
def test_top_names_who_waits_for_whom(containers: list[Container]) -> None:
    shop, batch = containers
    shop.burn()
    batch.burn()
    done = ended("virtscope.sched", "top", "--interval=2s", "--count=1")
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(shop.path)]
    waits, most = row.split()[1:3]
    assert 0 < float(waits) <= 1.1
    assert most == batch.path


@pytest.mark.system
def test_nothing_is_lost_while_there_is_room(program: Waits) -> None:
    """Pairs are forgotten all the time, so all CPUs insert the same ones again, often simultaneously."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        end = time.monotonic() + WINDOW_SECONDS
        while time.monotonic() < end:
            program.forget(program.pairs())
    finally:
        for each in busy:
            each.kill()
            each.wait(30)
    assert program.totals().waited > 0
    assert program.totals().lost == 0


def fill(program: Waits, name: bytes, rooms: int, key_words: int, value_words: int) -> None:
    """Fill one of the program's maps like a user with many cgroups, with ids that no cgroup of this machine has."""
    update = program.loaded._lib.bpf_map_update_elem
    values = (ctypes.c_uint64 * (value_words * program.loaded._lib.libbpf_num_possible_cpus()))(1)
    for number in range(rooms):
        key = (ctypes.c_uint64 * key_words)(2**40 + number)
        if update(program.loaded._lib.bpf_map__fd(program.loaded._map(name)), key, values, ctypes.c_uint64(0)):
            return  # full: pairs of this machine are in it too


def waited_by(program: Waits, container: Container) -> dict[int, float]:
    """Seconds that a container has waited, by the id of what ran."""
    cgroup = container.folder.stat().st_ino
    return {running: waited.ns / 1e9 for (waiting, running), waited in program.pairs().items() if waiting == cgroup}


@pytest.mark.system
def test_its_own_cap_stays_its_own_where_others_have_filled_the_room_for_caps(
    program: Waits, containers: list[Container]
) -> None:
    shop, batch = containers
    shop.cap(0.01)
    fill(program, b"throttles", 2048, key_words=1, value_words=4)
    batch.burn()
    shop.burn()
    wait_for(lambda: shop.throttled() >= 2)
    shop.stop()
    waited, throttled = waited_by(program, shop), shop.throttled()
    # Throttling before the program first saw the cap, up to a period per CPU, isn't known.
    assert waited[THROTTLED] == pytest.approx(throttled, rel=0.2)
    assert waited.get(batch.folder.stat().st_ino, 0) < throttled / 10


@pytest.mark.system
def test_what_finds_no_room_among_the_pairs_is_counted_and_in_the_rest(
    program: Waits, containers: list[Container]
) -> None:
    shop, batch = containers
    fill(program, b"pairs", MAX_PAIRS, key_words=2, value_words=2)
    batch.burn()
    shop.burn()
    wait_for(lambda: waited_by(program, shop).get(OTHER, 0) >= 0.5)
    shop.stop()
    waited, lost = waited_by(program, shop), program.totals().lost
    assert set(waited) == {OTHER}
    assert waited[OTHER] <= lost / 1e9


def test_without_capabilities_it_serves_and_says_what_is_missing(tmp_path: Path) -> None:
    python = NO_CAPABILITIES if os.geteuid() == 0 else (sys.executable,)
    with running(tmp_path, python=python) as exporter:
        page = exporter.get().text
        exporter.get()
        waits, *others = exporter.log_lines("source absent")
        assert exporter.stop() == 0
    assert_lints(page)
    assert "\nsched_up 1.0\n" in page
    assert {each["why"] for each in others} == {waits["why"]}
    assert page.count(f'detail="absent: {waits["why"]}"') == len(others) + 1
    assert f"\n{WAIT}" not in page
    assert "\nblk_" not in page
    assert "\nirq_" not in page
    assert "\nmemory_" not in page
    assert "sched_source_up{" not in page, "so that no alert fires"
    if Path("/sys/kernel/btf/vmlinux").exists() and "libbpf" not in waits["why"]:
        assert "CAP_BPF and CAP_PERFMON" in waits["why"]


def test_a_glob_that_chooses_nothing_is_reported_in_one_line() -> None:
    done = ended("virtscope.sched", "--log.level=error", "--cgroup.include=/")
    said = "sched-exporter: '/' chooses no cgroup: give a path such as /machine.slice/*\n"
    assert (done.returncode, done.stderr) == (1, said)
