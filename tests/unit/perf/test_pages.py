"""The whole page on machines of several kinds: counters, resctrl's values, profiles."""

import os
from pathlib import Path

from tests.golden_pages import assert_golden, assert_lints
from tests.unit.perf.fake_kernel import FakeKernel, FakeMachine
from virtscope.perf import groups, resctrl
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import Counters
from virtscope.perf.metrics import families
from virtscope.perf.profile import Hits, Place, Profiled, live_families
from virtscope.perf.resctrl import Resctrl
from virtscope.toolkit.exposition import Encoder

TESTS = Path(__file__).resolve().parents[2]
EVENTS = {
    "intel-two-sockets": "groups: {cache: [cycles, cache-misses], memory: [uncore_imc/cas_count_read/, task-clock], "
    "energy: [power/energy-pkg/]}",
    "amd-two-caches": "groups: {cache: [cycles, cache-misses], l3: [amd_l3/l3_misses/], tlb: [iTLB-load-misses]}",
    "intel-hybrid": "groups: {cache: [cycles, cache-misses], l3: [amd_l3/l3_misses/]}",
}
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


def counters_page(folder: Path, machine: str) -> bytes:
    (folder / "groups.yml").write_text(EVENTS[machine])
    plan = groups.load(folder / "groups.yml", TESTS / "fixtures/sysfs" / machine)
    kernel = FakeKernel(cpus=12, counters=3)
    fake, opened = FakeMachine(folder / machine, kernel), (lambda _: os.open(folder, os.O_RDONLY))
    counters = Counters(kernel, plan.groups, fake, open_folder=opened, most_files=1000, clock=lambda: 1000.0)
    web = Cgroup('/machine.slice/"web"', 7)
    counters.read([web])
    kernel.pass_time(10)
    return Encoder().text(families(counters.read([web]), plan.absent))


def test_golden_exposition(tmp_path: Path) -> None:
    pages = {machine: counters_page(tmp_path, machine) for machine in EVENTS}
    pages["resctrl"] = Encoder().text(resctrl.families(Resctrl(TESTS / "fixtures/sysfs/intel-two-sockets").read()))
    pages["profile"] = Encoder().text(live_families(PROFILED))
    for name, page in pages.items():
        assert_golden(TESTS / f"golden/perf-{name}.prom", page)
        assert_lints(page)
