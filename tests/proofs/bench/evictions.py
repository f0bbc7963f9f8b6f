"""Cost of sched-exporter's programs in the page reclaim, as a share of the reclaim that they watch. As root.

A process reads a file of zeros, in single pages, below a limit of its cgroup: each page that it reads evicts another.
The kernel's run time statistics count what the programs took, which is part of the reclaim.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.bench import scraping
from tests.proofs.bench.bpf_programs import measured, spent
from virtscope.sched.memory import Evictions
from virtscope.sched.reasons import Machine
from virtscope.toolkit.hierarchy import hierarchy

SHARE_BAR = 0.2  # of the cheapest reclaim: of clean pages, without a disk
LIMIT_BYTES, FILE_BYTES = 64 << 20, 1 << 30

_READ = """
import os, sys
file, size = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead, so that each page is one of its own
for at in range(0, size, 4096):
    os.pread(file, 4096, at)
"""


def measure() -> None:
    """Print the result, or why it can't be measured here."""
    print(
        "\nWho evicts whose pages: ns per evicted page by the kernel's own count, whose clock is part of it"
        f"\n  Bar: {SHARE_BAR:.0%} of the reclaim\n  pages/s of reclaim  ns each  of the reclaim"
    )
    measured(_ours)


def _ours(machine: Machine) -> None:
    root, version, _ = hierarchy(Path("/proc"), "memory")
    with _file() as file, _limited(root, version) as folder, contextlib.closing(Evictions(version, machine)) as counted:
        before = spent(os.getpid())
        enter = f'echo $$ >{folder}/cgroup.procs; exec "$@"'
        subprocess.run(["sh", "-ec", enter, "sh", sys.executable, "-c", _READ, file, str(FILE_BYTES)], check=True)
        cost = spent(os.getpid()) - before
        cgroup = folder.stat().st_ino
        pages = sum(waited.ns for (victim, _), waited in counted.pairs().items() if victim == cgroup)
        seconds = sum(waited.ns for (of, _), waited in counted.reclaims().items() if of == cgroup) / 1e9
        share = cost / 1e9 / seconds
        verdict = scraping.verdict(share * 100, SHARE_BAR * 100)
        print(f"  {pages / seconds:18,.0f}{cost / pages:9.0f}{share:15.1%}   {verdict}")


@contextlib.contextmanager
def _limited(root: Path, version: int) -> Iterator[Path]:
    folder = root / f"virtscope-bench-{os.getpid()}"
    if version == 2:
        (root / "cgroup.subtree_control").write_text("+memory")
    folder.mkdir()
    try:
        (folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).write_text(str(LIMIT_BYTES))
        yield folder
    finally:
        folder.rmdir()


@contextlib.contextmanager
def _file() -> Iterator[str]:
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        file.truncate(FILE_BYTES)
        yield file.name


if __name__ == "__main__":
    measure()
