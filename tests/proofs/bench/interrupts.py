"""Cost of sched-exporter's programs in interrupts, per softirq with a packet, compared with softirqs'. As root.

The kernel's run time statistics count what all programs took; a process floods its own loopback meanwhile, so that
nearly each softirq receives one packet.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.proofs.bench import scraping
from tests.proofs.bench.bpf_programs import measured, spent
from tests.support import flooding
from virtscope.sched.irq import Interrupts
from virtscope.sched.reasons import Machine
from virtscope.toolkit.hierarchy import hierarchy

SOFTIRQ_BAR = 3.0  # times softirqs, which sees no packets
ROUNDS = 3
SECONDS = 3.0

_SETTLING = 2.0  # seconds until softirqs has attached its programs


def measure() -> None:
    """Print all results, or why they can't be measured here."""
    print(
        "\nInterrupts: ns per softirq that receives a packet, by the kernel's own count, whose clock is part of it"
        f"\n  Bar: {SOFTIRQ_BAR} times softirqs"
    )
    measured(_measure)


def _measure(machine: Machine) -> None:
    _, version, _ = hierarchy(Path("/proc"), "cpu")
    program = shutil.which("softirqs")
    ours, theirs = [], []
    for _ in range(ROUNDS):
        with contextlib.closing(Interrupts(version, machine)):
            ours.append(_each(os.getpid()))
        if program:
            running = subprocess.Popen([program, "3600"], stdout=subprocess.DEVNULL)
            try:
                time.sleep(_SETTLING)
                theirs.append(_each(running.pid))
            finally:
                running.terminate()
                running.wait(30)
    print(f"  sched-exporter: {min(ours):.0f}")
    if theirs:
        ratio = min(ours) / min(theirs)
        print(f"  softirqs: {min(theirs):.0f}   {ratio:.1f} times   {scraping.verdict(ratio, SOFTIRQ_BAR)}")
    else:
        print("  softirqs: not here (apt-get install libbpf-tools)")


def _each(pid: int) -> float:
    """The ns that the process's programs took per softirq of kind NET_RX."""
    cpu = str(max(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        command = [*flooding.COMMAND, "taskset", "-c", cpu, sys.executable, "-c", flooding.SCRIPT, cpu, folder]
        flood = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert flood.stdout
            flood.stdout.readline()
            before, softirqs = spent(pid), _softirqs()
            time.sleep(SECONDS)
            return (spent(pid) - before) / (_softirqs() - softirqs)
        finally:
            flood.kill()
            flood.communicate(timeout=30)


def _softirqs() -> int:
    """Softirqs of kind NET_RX of all CPUs (Documentation/filesystems/proc.rst)."""
    (line,) = (each for each in Path("/proc/softirqs").read_text().splitlines() if "NET_RX" in each)
    return sum(map(int, line.split()[1:]))


if __name__ == "__main__":
    measure()
