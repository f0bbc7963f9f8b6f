"""Cost of sched-exporter's programs in the block layer, per request, next to biolatency's and iotop's. As root.

The kernel's run time statistics count what all programs took; threads read a file past the page cache meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.bench import scraping
from tests.proofs.bench.bpf_programs import measured, spent
from tests.support import reading
from virtscope.sched.disk import Delays
from virtscope.sched.reasons import Machine
from virtscope.toolkit.hierarchy import hierarchy

REQUEST_BAR = 150  # ns
THREADS = (1, 8, 32)
SECONDS = 5.0
FILE_BYTES = 256 << 20
READINGS = 5

_SETTLING = 2.0  # seconds until biolatency has attached its programs


def measure() -> None:
    """Print all results, or why they can't be measured here."""
    print(
        "\nWhose requests a disk serves: ns per request by the kernel's own count, whose clock is part of it"
        f"\n  Bar: {REQUEST_BAR} ns with one thread\n  threads  requests/s  ns each"
    )
    measured(_each)
    _iotop()


def _each(machine: Machine) -> None:
    _ours(machine)
    _biolatency()


def _ours(machine: Machine) -> None:
    _, version, _ = hierarchy(Path("/proc"), "blkio")
    with contextlib.closing(Delays(version, machine)) as delays:
        for threads in THREADS:
            requests = sum(device.requests for device in delays.devices())
            took, seconds = _spent_while_reading(os.getpid(), threads)
            requests = sum(device.requests for device in delays.devices()) - requests
            each = took / requests
            verdict = f"   {scraping.verdict(each, REQUEST_BAR)}" if threads == 1 else ""
            print(f"{threads:9}{requests / seconds:12,.0f}{each:9.0f}{verdict}")
        before = time.process_time()
        for _ in range(READINGS):
            delays.pairs()
        print(f"  CPU time of each reading: {(time.process_time() - before) / READINGS * 1e3:.2f} ms")


def _biolatency() -> None:
    program = shutil.which("biolatency")
    if not program:
        print("  biolatency: not here (apt-get install libbpf-tools)")
        return
    running = subprocess.Popen([program, "3600"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(_SETTLING)
        requests = _requests()
        took, _ = _spent_while_reading(running.pid, 1)
        print(f"  biolatency, one thread: {took / (_requests() - requests):.0f} ns")
    finally:
        running.terminate()
        running.wait(30)


def _iotop() -> None:
    """Its CPU time for each look at all tasks: it counts no requests."""
    program = shutil.which("iotop")
    if not program:
        print("  iotop: not here (apt-get install iotop-c)")
        return
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    looks = ["--batch", f"--iter={READINGS}", "--delay=1", "--quiet"]
    subprocess.run([program, *looks], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  iotop, CPU time of each look at all processes: {took / READINGS * 1e3:.2f} ms")


def _requests() -> int:
    """Reads and writes of all disks, partitions left out (Documentation/block/stat.rst)."""
    words = [file.read_text().split() for file in Path("/sys/block").glob("*/stat")]
    return sum(int(each[0]) + int(each[4]) for each in words)


def _spent_while_reading(pid: int, threads: int) -> tuple[int, float]:
    """The ns that the process's programs took while threads read, and the seconds of that."""
    with _file() as file:
        reader = subprocess.Popen([sys.executable, "-c", reading.SCRIPT, file, str(threads)])
        try:
            time.sleep(1)
            before, begun = spent(pid), time.monotonic()
            time.sleep(SECONDS)
            return spent(pid) - before, time.monotonic() - begun
        finally:
            reader.kill()
            reader.wait(30)


@contextlib.contextmanager
def _file() -> Iterator[str]:
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        yield file.name


if __name__ == "__main__":
    measure()
