"""sched-exporter's interrupts, as root on this machine's kernel: who floods a CPU, and from whom that takes time."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support import burning, flooding, reading, routing
from tests.support.needs import missing, need, need_root
from tests.support.pages import Page
from tests.support.routing import Network
from tests.support.waiting import wait_for
from virtscope.toolkit.hierarchy import hierarchy

DELAY, TOTAL, CHARGED = "irq_delay_seconds_total", "irq_seconds_total", "irq_delay_charged_seconds_total"
ENOUGH_SECONDS = 0.3
ENOUGH_BLOCK_SECONDS = 0.01

pytestmark = pytest.mark.system


class Container:
    """A cgroup that the exporter takes for a container, with a process on one CPU."""

    def __init__(self, name: str, cpu: int, *command: str, controllers: tuple[str, ...] = ("cpu",)) -> None:
        self.path = f"/virtscope/{name}-{os.getpid()}"
        folders = {hierarchy(Path("/proc"), each).root / self.path.strip("/") for each in controllers}
        self._folders = sorted(folders)
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        enter = " ".join(f"echo $$ >{folder}/cgroup.procs;" for folder in self._folders)
        pinned = ["taskset", "-c", str(cpu), *command]
        self.process = subprocess.Popen(
            ["sh", "-ec", f'{enter} exec "$@"', "sh", *pinned], stdout=subprocess.PIPE, text=True
        )

    def remove(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)
        for folder in self._folders:  # it may be in it for a moment
            wait_for(folder.rmdir, 60, until=lambda _: True, not_yet=(OSError,))


class Interrupts:
    """What interrupts took, since the exporter began."""

    def __init__(self, exporter: RunningExporter) -> None:
        self._exporter = exporter

    def page(self) -> Page:
        return Page.of(self._exporter.address)

    def of(self, victim: Container, page: Page | None = None) -> dict[str, float]:
        """Seconds by whose packets or requests were handled."""
        page = page or self.page()
        return {each.labels["by"]: each.value for each in page.all(DELAY, cgroup=victim.path)}

    def of_others(self, victim: Container) -> float:
        """Seconds by other containers."""
        return sum(seconds for by, seconds in self.of(victim).items() if by.startswith("/"))


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[RunningExporter]:
    need_root("may load programs into the kernel and make cgroups")
    with RunningExporter(tmp_path, package="virtscope.sched") as exporter:
        exporter.get()
        for line in exporter.log_lines("source can't be measured"):
            missing(line["why"])
        yield exporter


def test_who_floods_another_s_cpu_with_packets_is_named_and_who_only_computes_is_not(
    exporter: RunningExporter, tmp_path: Path
) -> None:
    need(util_linux="unshare")
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        missing("needs two CPUs")
    interrupts = Interrupts(exporter)
    (tmp_path / "sys").mkdir()
    flood = (*flooding.COMMAND, sys.executable, "-c", flooding.SCRIPT, str(cpus[-1]), str(tmp_path / "sys"))
    with contextlib.ExitStack() as at_end:
        made = {}
        for name, cpu, command in (
            ("shop", cpus[-1], (sys.executable, "-c", burning.SCRIPT)),
            ("batch", cpus[-1], (sys.executable, "-c", burning.SCRIPT)),
            ("flood", cpus[0], flood),
        ):
            made[name] = Container(name, cpu, *command)
            at_end.callback(made[name].remove)
        shop, batch, culprit = made.values()
        assert culprit.process.stdout
        assert culprit.process.stdout.readline() == "ready\n"
        wait_for(lambda: interrupts.of_others(shop) > ENOUGH_SECONDS)
        page = interrupts.page()
        of_shop, of_batch, of_culprit = (interrupts.of(each, page) for each in (shop, batch, culprit))
        named, charged, total = (page.total(each) for each in (DELAY, CHARGED, TOTAL))
        received = page.value(TOTAL, kind="net_rx")
    assert of_shop[culprit.path] > 0.9 * sum(of_shop.values())
    assert of_batch[culprit.path] > 0.9 * sum(of_batch.values())
    assert of_culprit["(self)"] > 0.9 * sum(of_culprit.values()), "its own CPU passes its packets on"
    assert page.labels(DELAY, "by").isdisjoint({shop.path, batch.path})
    assert of_shop[culprit.path] + of_batch[culprit.path] <= received
    assert named == pytest.approx(charged, rel=0.03)
    assert charged <= total


@pytest.fixture
def network() -> Iterator[Network]:
    need(util_linux="unshare", iproute2="ip")
    if not routing.has_tun():
        missing("needs /dev/net/tun")
    with Network() as network:
        yield network


@pytest.mark.parametrize("receiver", ["container", "guest"])
def test_packets_that_nobody_known_sent_belong_to_the_container_or_guest_that_gets_them(
    exporter: RunningExporter, network: Network, receiver: str
) -> None:
    cpu = max(os.sched_getaffinity(0))
    command, address = {
        "container": (network.container(), routing.CONTAINER),
        "guest": (network.guest(), routing.GUEST),
    }[receiver]
    with contextlib.ExitStack() as at_end:
        shop = Container("shop", cpu, sys.executable, "-c", burning.SCRIPT)
        at_end.callback(shop.remove)
        owner = Container(receiver, min(os.sched_getaffinity(0)), *command)
        at_end.callback(owner.remove)
        assert owner.process.stdout
        assert owner.process.stdout.readline() == "ready\n"
        before = Page.of(exporter.address)
        sender = in_the_root_cgroup(*network.flood(address))
        at_end.callback(sender.communicate, timeout=30)
        at_end.callback(sender.kill)

        def grown() -> dict[str, float]:
            page = Page.of(exporter.address)
            return {by: page.total(DELAY, by=by) - before.total(DELAY, by=by) for by in page.labels(DELAY, "by")}

        wait_for(lambda: grown().get(owner.path, 0) > ENOUGH_SECONDS)
        seconds = grown()
    assert seconds[owner.path] > sum(seconds.values()) / 2, "the rest is of the machine's other processes"
    assert shop.path not in seconds


def test_packets_over_a_bridge_to_the_host_are_their_sender_s(exporter: RunningExporter, network: Network) -> None:
    """A bridge has each of them received twice: by the veth, and as its own."""
    network.bridge()
    interrupts = Interrupts(exporter)
    container = Container("container", max(os.sched_getaffinity(0)), *network.flood_from_container())
    with contextlib.ExitStack() as at_end:
        at_end.callback(container.remove)
        wait_for(lambda: sum(interrupts.of(container).values()) > ENOUGH_SECONDS)
        of_container = interrupts.of(container)
    assert of_container["(self)"] > 0.9 * sum(of_container.values())


def in_the_root_cgroup(*command: str) -> subprocess.Popen[str]:
    """A process that counts as nobody known, as packets from a NIC do."""
    enter = f"echo $$ >{hierarchy(Path('/proc'), 'cpu').root}/cgroup.procs"
    return subprocess.Popen(["sh", "-ec", f'{enter}; exec "$@"', "sh", *command], stdout=subprocess.PIPE, text=True)


def charge_disks() -> None:
    """Enable the controller by which the kernel charges disk requests."""
    mounted = hierarchy(Path("/proc"), "blkio")
    if mounted.version == 2:
        (mounted.root / "virtscope").mkdir(exist_ok=True)
        for folder in (mounted.root, mounted.root / "virtscope"):
            (folder / "cgroup.subtree_control").write_text("+io")


def test_whose_disk_requests_a_softirq_completes_is_named(exporter: RunningExporter, tmp_path: Path) -> None:
    interrupts = Interrupts(exporter)
    charge_disks()
    file = tmp_path / "read"
    file.write_bytes(os.urandom(64 << 20))
    with file.open("rb") as written:
        os.fsync(written.fileno())
    with contextlib.ExitStack() as at_end:
        busy = [
            Container(f"shop-{each}", each, sys.executable, "-c", burning.SCRIPT) for each in os.sched_getaffinity(0)
        ]
        for each in busy:  # an idle CPU is no victim
            at_end.callback(each.remove)
        command = (sys.executable, "-c", reading.SCRIPT, str(file), "4")
        backup = Container("backup", min(os.sched_getaffinity(0)), *command, controllers=("cpu", "blkio"))
        at_end.callback(backup.remove)
        wait_for(lambda: interrupts.page().total(DELAY, by=backup.path) > ENOUGH_BLOCK_SECONDS)
        page = interrupts.page()
    assert page.labels(DELAY, "by").isdisjoint(each.path for each in busy)
