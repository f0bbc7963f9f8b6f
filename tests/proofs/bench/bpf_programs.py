"""The run time of BPF programs, as the kernel counts it. As root."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

from virtscope.sched.reasons import Machine, before_loading
from virtscope.toolkit.collect import SourceError

_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")


def measured(measure: Callable[[Machine], None]) -> None:
    """Measure while the kernel counts run times, or print why programs can't be measured here."""
    machine = Machine.read(Path("/proc"), Path("/sys"))
    try:
        if reason := before_loading(machine):
            raise reason
        before = _STATISTICS.read_text()
        _STATISTICS.write_text("1")
        try:
            measure(machine)
        finally:
            _STATISTICS.write_text(before)
    except (SourceError, OSError) as error:
        print(f"  not measured: {error}")


def spent(pid: int) -> int:
    """The run time of a process's programs in ns: man proc, fdinfo."""
    texts = []
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            texts.append(file.read_text())
    return sum(int(found[1]) for text in texts if (found := re.search(r"run_time_ns:\s*(\d+)", text)))
