"""Counters of the whole machine against `perf stat`, at the same time and on the same CPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.perf.conftest import Load, Start, page, require_perf

pytestmark = pytest.mark.system

METRIC = dict.fromkeys(("context-switches", "page-faults"), "perf_events_total")
METRIC["task-clock"] = "perf_event_seconds_total"
EVENTS = tuple(METRIC)
MARGIN = 0.01


class PerfStat:
    """`perf stat` over all CPUs, that counts from `enable()` to `disable()`; both return once it is so."""

    def __init__(self, folder: Path) -> None:
        require_perf()
        self._said = folder / "perf.csv"
        control, self._control = os.pipe()
        self._answers, answers = os.pipe()
        command = ["perf", "stat", "-a", "-A", "-x,", "-e", ",".join(EVENTS), "-o", str(self._said), "--delay=-1"]
        command += [f"--control=fd:{control},{answers}", "--", "cat"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(control, answers)
        )
        os.close(control)
        os.close(answers)

    def enable(self) -> None:
        self._ask("enable")

    def disable(self) -> None:
        self._ask("disable")

    def end(self) -> dict[tuple[str, str], float]:
        """What it counted, by CPU and event; task-clock in seconds."""
        self._process.communicate(timeout=30)  # closes cat's input
        os.close(self._control)
        os.close(self._answers)
        counted = {}
        for line in self._said.read_text().splitlines():
            if line.startswith("CPU"):
                cpu, value, unit, event, *_ = line.split(",")
                counted[cpu.removeprefix("CPU"), event] = float(value) / (1000 if unit == "msec" else 1)
        return counted

    def _ask(self, command: str) -> None:
        os.write(self._control, f"{command}\n".encode())
        assert os.read(self._answers, 16).startswith(b"ack\n"), "perf has ended"


def test_events_on_each_cpu_as_perf_stat_counts_them(exporter: Start, tmp_path: Path) -> None:
    """Readings of ours lie closely before and after perf's beginning and end: its counts must be between theirs."""
    running = exporter()
    cpus = [str(number) for number in sorted(os.sched_getaffinity(0))]
    perf = PerfStat(tmp_path)
    with Load() as load:
        pages = [page(running)]
        perf.enable()
        pages.append(page(running))
        for cpu in cpus:
            load(f"cpu {cpu}")
            load("fault 50000")
            load("switch 5000")
            load("busy 0.5 1")
        pages.append(page(running))
        perf.disable()
        pages.append(page(running))
    counted = perf.end()
    assert set(counted) >= {(cpu, event) for cpu in cpus for event in EVENTS}
    for cpu in cpus:
        for event in EVENTS:
            before, begun, ending, after = (
                each.value(METRIC[event], group="software", event=event, cpu=cpu) for each in pages
            )
            within, around = ending - begun, after - before
            assert within * (1 - MARGIN) <= counted[cpu, event] <= around * (1 + MARGIN), (cpu, event)
            if event != "task-clock":  # which goes on by itself: there, what is between the readings says nothing
                least = {"page-faults": 50_000, "context-switches": 10_000}[event]
                assert within >= least, "the load was not seen on its CPU"
