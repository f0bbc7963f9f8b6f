"""What stands beside the counters on the exporter's page: resctrl's values and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import Metric

from tests.golden_pages import assert_golden, assert_lints
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
    golden = TESTS / f"golden/perf-{source}.prom"
    exposed = Encoder().text(pages()[source])
    assert_golden(golden, exposed)
    assert_lints(exposed)
