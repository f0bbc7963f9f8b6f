"""The whole page, on fake machines of several kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.golden_pages import assert_golden, assert_lints
from tests.unit.perf.fake_kernel import FakeKernel, FakeMachine
from virtscope.perf import groups
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Counters
from virtscope.perf.metrics import Families
from virtscope.toolkit.exposition import Encoder

TESTS = Path(__file__).resolve().parents[2]
EVENTS = {
    "intel-two-sockets": "groups: {cache: [cycles, cache-misses], memory: [uncore_imc/cas_count_read/, task-clock], "
    "energy: [power/energy-pkg/]}",
    "amd-two-caches": "groups: {cache: [cycles, cache-misses], l3: [amd_l3/l3_misses/], tlb: [iTLB-load-misses]}",
    "intel-hybrid": "groups: {cache: [cycles, cache-misses], l3: [amd_l3/l3_misses/]}",
}


def page(folder: Path, machine: str) -> bytes:
    sysfs = TESTS / "fixtures/sysfs" / machine
    (folder / "groups.yml").write_text(EVENTS[machine])
    plan = groups.load(folder / "groups.yml", sysfs)
    kernel = FakeKernel(cpus=12, counters=3)
    now = 1000.0
    counters = Counters(
        kernel,
        plan.groups,
        FakeMachine(folder / "machine", kernel),
        open_folder=lambda _: os.open(folder, os.O_RDONLY),
        most_files=1000,
        clock=lambda: now,
    )
    web = Cgroup('/machine.slice/"web"', 7)
    counters.read([web])
    kernel.pass_time(10)
    return Encoder().text(Families(plan.absent).of(counters.read([web])))


@pytest.mark.parametrize("machine", EVENTS)
def test_golden_exposition(machine: str, tmp_path: Path) -> None:
    golden = TESTS / f"golden/perf-{machine}.prom"
    exposed = page(tmp_path, machine)
    assert_golden(golden, exposed)
    assert_lints(exposed)
