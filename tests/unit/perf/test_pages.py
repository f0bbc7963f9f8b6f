"""What stands beside the counters on the exporter's page: resctrl's values and profiles."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from prometheus_client import Metric

from tools import programs
from virtscope.perf import resctrl
from virtscope.perf.profile import Hits, Place, Profiled, live_families
from virtscope.perf.resctrl import Resctrl
from virtscope.toolkit.exposition import Encoder

TESTS = Path(__file__).resolve().parents[2]

PROFILED = Profiled(
    {
        Place("cache-misses", "[kernel.kallsyms]", "copy_page", "kernel"): Hits(1873, 4.1e7),
        Place("cache-misses", "httpd", "(no symbols)", "user"): Hits(12, 2.5e5),
        Place("cache-misses", "", "(no symbols)", "guest_kernel", "guests"): Hits(7, 1.5e5),
        Place("cache-misses", "(other)", "(other)", ""): Hits(90, 1.9e6),
        Place("cpu-clock", "[kernel.kallsyms]", "pv_native_safe_halt", "kernel"): Hits(495, 5.0),
    },
    lost=3,
    seconds=85.0,
    events=[("cache-misses", "99 Hz", "this kernel and its KVM guests"), ("cpu-clock", "99 Hz", "this kernel")],
)


def pages() -> dict[str, list[Metric]]:
    return {
        "resctrl": resctrl.families(Resctrl(TESTS / "fixtures/sysfs/intel-two-sockets").read()),
        "profile": live_families(PROFILED),
    }


@pytest.mark.parametrize("source", ["resctrl", "profile"])
def test_golden_exposition(source: str) -> None:
    """So that a change of any name, label, help text or unit shows. UPDATE_GOLDEN=1 rewrites it."""
    golden = TESTS / f"golden/perf-{source}.prom"
    exposed = Encoder().text(pages()[source])
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_bytes(exposed)
    assert exposed == golden.read_bytes()
    lint = subprocess.run(
        [programs.path("promtool"), "check", "metrics"], input=exposed, capture_output=True, check=False
    )
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, b"")
