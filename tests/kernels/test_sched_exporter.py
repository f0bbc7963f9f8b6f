"""sched-exporter's committed program loads and counts correctly in other kernels than this machine's.

A container and a service run endless loads on one CPU, a container with a cap on the other. All loads are stopped while
counters are read, so that they can be compared with the kernel's exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.distributions.chroots import DEBIAN_11, DEBIAN_12, DEBIAN_13
from tests.kernels.machine import DISK, Load, Look, Machine, Setup
from tests.support import caching, flooding
from tests.support.pages import Page
from tests.support.reporting import Report
from tests.support.waiting import wait_for

SETUPS = (
    Setup("Debian 11", DEBIAN_11, "5.10."),
    Setup("Debian 12", DEBIAN_12, "6.1."),
    Setup("Debian 12, cgroups v1", DEBIAN_12, "6.1.", "systemd.unified_cgroup_hierarchy=0"),
    Setup("Debian 13", DEBIAN_13, "6.12."),
    Setup("Debian 13, newest kernel", DEBIAN_13, None),
)
VICTIM = Load(f"docker-{'a' * 64}.scope", cpu=1)
ANTAGONIST = Load("backup.service", cpu=1)
CAPPED = Load(f"docker-{'c' * 64}.scope", cpu=0, properties=("CPUQuota=20%",))
LOADS = (VICTIM, ANTAGONIST, CAPPED)
SECONDS = 300  # until the kernel has counted enough to compare:
WAITED, THROTTLED = 5.0, 10.0
CHARGED = 0.03  # of the kernel's run_delay
OF_THE_CAP = 0.05  # of cpu.stat's; an emulated CPU may pause for a moment
CAP_BPF = 1 << 39
WAIT = "sched_wait_seconds_total"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),  # the first test also builds and boots
    pytest.mark.parametrize("machine", SETUPS, indirect=True, ids=lambda setup: setup.name, scope="module"),
]


class Window(NamedTuple):
    """Two readings, between which the loads ran."""

    first: Look
    last: Look

    def grown(self, metric: str, **labels: str) -> float:
        """The increase of the sum of these counters."""
        return self.last.page.total(metric, **labels) - self.first.page.total(metric, **labels)

    def waited(self, load: Load) -> float:
        """Seconds counted by the kernel."""
        return self.last.waited[load] - self.first.waited[load]

    def charged(self, load: Load) -> dict[str, float]:
        """Seconds counted by the exporter, by what ran."""
        names = {sample.labels["running"] for sample in self.last.page.all(WAIT, cgroup=load.path)}
        return {name: self.grown(WAIT, cgroup=load.path, running=name) for name in names}


@pytest.fixture(scope="module")
def window(machine: Machine) -> Window:
    machine.start(LOADS)
    first = machine.look(LOADS)
    machine.resume(LOADS)
    # However much of this machine's CPU the emulated machine gets.
    wait_for(lambda: machine.waited(VICTIM) - first.waited[VICTIM] > WAITED, SECONDS, every=2)
    wait_for(lambda: machine.throttled(CAPPED) - first.throttled[CAPPED] > THROTTLED, SECONDS, every=2)
    machine.stop(LOADS)
    return Window(first, machine.look(LOADS))


def test_it_is_the_kernel_that_was_wanted_and_no_right_is_kept_that_reading_does_not_need(
    machine: Machine, report: Report
) -> None:
    """Linux before 5.19 also refuses to read maps without CAP_BPF if unprivileged bpf() is disabled."""
    version = machine.run("uname -r").strip()
    report(f"{machine.setup.name}: Linux {version}")
    if machine.setup.kernel is None:
        assert tuple(map(int, version.split(".")[:2])) > (6, 12), "Debian 13's own"
    else:
        assert version.startswith(machine.setup.kernel)
    assert machine.has_cgroup_v1 == bool(machine.setup.options)
    status = machine.run("cat /proc/$(systemctl show --property=MainPID --value sched-exporter)/status")
    rights = {name: int(bits, 16) for name, bits in (line.split() for line in status.splitlines() if "Cap" in line)}
    needed = CAP_BPF if machine.setup.kernel == "5.10." else 0
    assert rights["CapEff:"] & ~needed == rights["CapPrm:"] & ~needed == 0


def test_what_a_container_waited_is_the_kernels_and_who_ran_meanwhile_is_named(
    machine: Machine, window: Window, report: Report
) -> None:
    waited, charged = window.waited(VICTIM), window.charged(VICTIM)
    total = sum(charged.values())
    parts = {name: seconds / total for name, seconds in charged.items()}
    shown = ", ".join(f"{name} {part:.1%}" for name, part in sorted(parts.items(), key=lambda item: -item[1]))
    report(f"{machine.setup.name}: charged {total:.3f} s of {waited:.3f} s: {total / waited:.2%}; running: {shown}")
    assert total == pytest.approx(waited, rel=CHARGED)
    assert parts.get(ANTAGONIST.path, 0) > 0.9
    assert parts.get(CAPPED.path, 0) < 0.01, "it computes on the other CPU"
    assert parts.get("(cap)", 0) < 0.01, "it has none"


def test_what_a_cap_held_is_no_neighbours(machine: Machine, window: Window, report: Report) -> None:
    throttled = window.last.throttled[CAPPED] - window.first.throttled[CAPPED]
    charged = window.charged(CAPPED)
    held, total = charged.get("(cap)", 0), sum(charged.values())
    report(
        f"{machine.setup.name}: (cap) {held:.3f} s of {throttled:.3f} s in cpu.stat:"
        f" {held / throttled:.1%}; all it waited: {total:.3f} s of {window.waited(CAPPED):.3f} s"
    )
    assert held == pytest.approx(throttled, rel=OF_THE_CAP)
    assert total == pytest.approx(window.waited(CAPPED), rel=CHARGED)


def test_hardly_any_waiting_of_the_whole_machine_is_missed(machine: Machine, window: Window, report: Report) -> None:
    charged, kernel = (window.grown(f"sched_wait_{what}_seconds_total") for what in ("charged", "kernel"))
    switches = window.grown("sched_switches_total")
    report(f"{machine.setup.name}: whole machine {charged:.3f} s of {kernel:.3f} s: {charged / kernel:.2%}")
    assert switches > 0
    assert charged == pytest.approx(kernel, rel=CHARGED)
    assert window.grown("sched_wait_lost_seconds_total") == 0


READER = Load(f"docker-{'d' * 64}.scope", cpu=0, reads=1)
BACKUP = Load("archive.service", cpu=1, reads=4)
HELD = Load(f"docker-{'e' * 64}.scope", cpu=0, properties=(f"IOReadIOPSMax=/dev/{DISK} 10",), reads=1)
READERS = (READER, BACKUP, HELD)
ENOUGH = 100  # requests
DELAY, REQUESTS = "blk_delay_seconds_total", "blk_requests_total"


def test_what_a_container_s_disk_requests_take_is_the_kernels_and_whom_the_disk_served_is_named(
    machine: Machine, report: Report
) -> None:
    machine.start(READERS)
    seconds, before = machine.disk_seconds(), Page.of(machine.exporter)
    machine.resume(READERS)
    wait_for(lambda: Page.of(machine.exporter).total(REQUESTS, cgroup=READER.path) > ENOUGH, SECONDS, every=2)
    machine.stop(READERS)
    seconds, page = machine.disk_seconds() - seconds, Page.of(machine.exporter)
    charged, lost = (
        page.total(f"blk_delay_{each}_seconds_total", device=DISK)
        - before.total(f"blk_delay_{each}_seconds_total", device=DISK)
        for each in ("charged", "lost")
    )
    of = {load: {each.labels["by"]: each.value for each in page.all(DELAY, cgroup=load.path)} for load in READERS}
    report(f"{machine.setup.name}: charged {charged:.2f} s of {seconds:.2f} s; {of}")
    (source,) = page.all("sched_source_info", source="block")
    sees_io_max = "io.max" not in source.labels["detail"]
    assert charged - (of[HELD]["(throttled)"] if sees_io_max else 0) == pytest.approx(seconds, rel=CHARGED)
    assert lost == 0
    total = sum(of[READER].values())
    assert of[READER][BACKUP.path] > total / 2
    assert of[READER]["(throttled)"] < total / 20
    assert of[BACKUP] == {}, "a service that isn't selected has no series"
    if sees_io_max and not machine.has_cgroup_v1:  # where systemd limits no operations
        assert of[HELD]["(throttled)"] > sum(of[HELD].values()) / 3


def test_interrupts_take_time_from_tasks(machine: Machine, report: Report) -> None:
    page = Page.of(machine.exporter)
    (source,) = page.all("sched_source_info", source="interrupts")
    assert "absent" not in source.labels["detail"]
    total, named = page.total("irq_seconds_total"), page.total("irq_delay_seconds_total")
    charged, lost = (page.value(f"irq_delay_{each}_seconds_total") for each in ("charged", "lost"))
    report(f"{machine.setup.name}: interrupts took {total:.3f} s, from tasks {charged:.3f} s, by name {named:.3f} s")
    assert 0 < charged <= total
    assert charged / 2 < named, "containers that are gone have no series"
    assert round(named, 6) <= round(charged, 6)
    assert lost == 0


FLOODED, FLOOD = (f"docker-{digit * 64}.scope" for digit in "89")
ENOUGH_TAKEN = 0.2  # seconds
TAKEN = "irq_delay_seconds_total"


def test_who_floods_another_container_s_cpu_with_packets_is_named(machine: Machine, report: Report) -> None:
    flooded, flood = (f"/system.slice/{unit}" for unit in (FLOODED, FLOOD))
    machine.put("/run/flood.py", flooding.SCRIPT.encode())
    machine.run("mkdir -p /run/flood")
    # With cgroups v1, systemd gives a scope a cgroup of the controller cpu only if it is to count.
    scope = "systemd-run --quiet --scope --slice=system.slice --property=CPUAccounting=yes"
    floods = f"{' '.join(flooding.COMMAND)} python3 /run/flood.py 1 /run/flood"
    machine.run(f"{scope} --unit={FLOODED} taskset -c 1 python3 -c 'while True: pass' </dev/null >/dev/null 2>&1 &")
    machine.run(f"{scope} --unit={FLOOD} taskset -c 0 {floods} </dev/null >/run/flood.log 2>&1 &")

    def taken() -> dict[str, float]:
        page = Page.of(machine.exporter)
        return {each.labels["by"]: each.value for each in page.all(TAKEN, cgroup=flooded)}

    wait_for(
        lambda: taken().get(flood, 0.0) > ENOUGH_TAKEN,
        SECONDS,
        every=2,
        explain=lambda: machine.run("cat /run/flood.log"),
    )
    found, page = taken(), Page.of(machine.exporter)
    machine.run(f"systemctl kill --signal=KILL {FLOODED} {FLOOD}")
    report(f"{machine.setup.name}: interrupts took from the flooded container {found}")
    assert found[flood] > sum(found.values()) / 2
    assert flooded not in page.labels(TAKEN, "by")


KEPT, BATCH = f"docker-{'f' * 64}.scope", "batch.service"
KEPT_MIB, BATCH_MIB = 250, 700  # too much for the machine, which has 1 GiB
ENOUGH_PAGES = 20_000
ALLOCATE = f"""
import time
while True:
    memory = []
    while len(memory) < {BATCH_MIB // 10}:
        memory.append(bytearray(b"x") * (10 << 20))
        time.sleep(0.1)
"""
STALL, EVICTED = "memory_delay_seconds_total", "memory_evicted_pages_total"


def test_what_kswapd_evicts_is_the_kernels_and_nobody_is_named_but_who_fills_the_memory(
    machine: Machine, report: Report
) -> None:
    """A container keeps a sparse file in the page cache: reading it takes no disk. A service allocates memory."""
    kept, batch = (f"/system.slice/{unit}" for unit in (KEPT, BATCH))
    machine.put("/run/cache.py", caching.SCRIPT.encode())
    machine.put("/run/allocate.py", ALLOCATE.encode())
    machine.run(f"truncate --size={KEPT_MIB}M /var/tmp/kept")
    machine.run(
        f"systemd-run --quiet --scope --unit={KEPT} --slice=system.slice"
        " python3 /run/cache.py /var/tmp/kept 0.005 </dev/null >/run/kept 2>&1 &"
    )
    wait_for(lambda: machine.run("cat /run/kept"), SECONDS, every=2)  # it has read its file
    assert Page.of(machine.exporter).total(EVICTED, cgroup=kept) == 0
    machine.run(f"systemd-run --quiet --unit={BATCH} --slice=system.slice python3 /run/allocate.py")

    def evicted_pages() -> float:
        return Page.of(machine.exporter).total(EVICTED, cgroup=kept)

    wait_for(lambda: evicted_pages() > ENOUGH_PAGES, SECONDS, every=2, explain=machine.log)
    machine.run(f"systemctl kill --signal=STOP {KEPT} {BATCH}")
    page = Page.of(machine.exporter)
    stat = machine.run(f"cd /sys/fs/cgroup; [ -d memory ] && cd memory; cat .{kept}/memory.stat").split()
    machine.run(f"systemctl kill --signal=KILL {KEPT} {BATCH}")
    refaults = int(dict(zip(stat[::2], stat[1::2], strict=True))["workingset_refault_file"])
    evicted, stall = (
        {each.labels["by"]: each.value for each in page.all(name, cgroup=kept)} for name in (EVICTED, STALL)
    )
    report(f"{machine.setup.name}: refaults {refaults}; evicted {evicted}; stall {stall}")
    assert refaults <= sum(evicted.values()) <= refaults + KEPT_MIB * 256 * 1.05
    assert evicted["(kswapd)"] > 0
    # Once the container reads its pages again, most evictions are for that, so the service may be in (rest).
    assert {by for by, seconds in stall.items() if by.startswith("/") and seconds} <= {batch}
    assert stall["(cap)"] == 0
    assert page.total("memory_evicted_lost_pages_total") == 0
