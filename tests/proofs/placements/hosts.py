"""Two hosts of one machine: parts of its CPUs, sites of the lab that move between them, and exporters of each host.

A moving site gets the other host's CPUs, and disappears from the pages of the one as it appears on the other's: a live
migration without its cost. Clients and sensors run on all CPUs.
"""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from deploy import programs
from lab import LabError
from lab.cgroups import PARENT, TierLimits, mounted
from lab.clients.child import Clients, Order
from lab.machine import busy_seconds
from lab.processes import LOOPBACK, Process, beside, free_ports
from lab.prometheus import DIRECT
from lab.scenario import Limit
from lab.servers.instance import DB, TIERS, WEB, Instance
from lab.stage import TELEGRAF, copy_sensors
from tests.e2e.running_exporter import RunningExporter
from tests.proofs.placements.pages import PAGES, Shown
from tests.proofs.placements.plan import HOSTS
from tests.proofs.truth.chain import why_absent
from tests.support.endpoints import Exposition, Group
from tests.support.pages import Page

TIMEOUT_SECONDS = 10.0  # of a client
LATE_SECONDS = 0.005  # one of lab.clients.metrics.LATENESS_EDGES, and less than a request takes
_LATENESS = "lab_client_start_lateness_seconds"
FETCH_SECONDS = 4
PLATFORMS = {"node": "base", "cadvisor": "cgroup", "sched": "base", "telegraf": "cgroup"}


@dataclass(frozen=True)
class Counters:
    """What the kernel has counted until a Unix time, in seconds: the use of each host, the pressure of each tier."""

    at: float
    busy: Mapping[str, float]
    pressure: Mapping[tuple[str, str], float]  # by site and tier; empty if the kernel has none
    requests: float  # that clients have sent
    punctual: float  # those of them that were at most LATE_SECONDS late


@dataclass(frozen=True)
class Counted:
    """What it counted between two Unix times, as shares of that time.

    Attributes:
        used: of each host's CPUs.
        pressure: of each site, the share in which a task of a tier waited for a CPU: the tier that waited more.
        late: of the requests that clients sent, the share that was more than `LATE_SECONDS` late.
    """

    began: float
    ended: float
    used: Mapping[str, float]
    pressure: Mapping[str, float]
    late: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass
class Machine:
    """The running hosts: `placement` has the host of each site."""

    cpus: Mapping[str, tuple[int, ...]]
    folder: Path
    instances: Mapping[str, Instance]
    placement: dict[str, str]
    processes: list[Process] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)  # of this machine's exporters, by job
    targets: dict[str, list[Group]] = field(default_factory=dict)  # of the hosts' exporters

    @property
    def clients(self) -> Clients:
        [found] = [process for process in self.processes if isinstance(process, Clients)]
        return found

    @property
    def host_cpus(self) -> int:
        return len(self.cpus[HOSTS[0]])

    def place(self, placement: Mapping[str, str]) -> None:
        """Move the sites that aren't on these hosts yet."""
        for site, host in placement.items():
            if self.placement[site] != host:
                self.instances[site].limit(_limits(self.cpus[host]))
                self.placement[site] = host

    def visit(self, clients: Mapping[str, int], think_seconds: float, seed: str) -> None:
        urls = {site: instance.url for site, instance in self.instances.items()}
        self.clients.carry_out(Order(seed, think_seconds, TIMEOUT_SECONDS, clients, urls))

    def check(self) -> None:
        """Raise `LabError` if something has ended."""
        for instance in self.instances.values():
            instance.check()
        for process in self.processes:
            process.check()

    def cpu_seconds(self) -> float:
        """What all sites have used."""
        return sum(instance.cpu_seconds() for instance in self.instances.values())

    def counters(self) -> Counters:
        lines = Path("/proc/stat").read_text().splitlines()
        busy = {line.split()[0]: busy_seconds(line) for line in lines if line.startswith("cpu")}
        clients = Page.of(f"{LOOPBACK}:{self.clients.port}")
        return Counters(
            time.time(),
            {host: sum(busy[f"cpu{cpu}"] for cpu in cpus) for host, cpus in self.cpus.items()},
            dict(self._pressure()),
            clients.value(f"{_LATENESS}_count"),
            clients.value(f"{_LATENESS}_bucket", le=str(LATE_SECONDS)),
        )

    def counted(self, since: Counters) -> Counted:
        now = self.counters()
        seconds = now.at - since.at
        used = {host: (busy - since.busy[host]) / seconds / self.host_cpus for host, busy in now.busy.items()}
        pressure: dict[str, float] = {}
        for (site, tier), waited in now.pressure.items():
            share = (waited - since.pressure[site, tier]) / seconds
            pressure[site] = max(share, pressure.get(site, 0.0))
        late = 1 - (now.punctual - since.punctual) / max(now.requests - since.requests, 1.0)
        return Counted(since.at, now.at, used, pressure, late)

    def page(self, host: str, job: str) -> str:
        """What this exporter of the host shows now."""
        address = self.addresses[job]
        with DIRECT.open(f"http://{address}", timeout=FETCH_SECONDS) as answer:
            text: str = answer.read().decode()
        present = frozenset(site for site, its in self.placement.items() if its == host)
        return PAGES[job](text, Shown(self.cpus[host], present))

    def _pressure(self) -> Iterator[tuple[tuple[str, str], float]]:
        """Seconds in which a task of a site's tier waited for a CPU (PSI, some)."""
        hierarchies = mounted()
        root = hierarchies.unified or hierarchies.by_controller["cpu"]
        for site, tier in itertools.product(self.instances, TIERS):
            with contextlib.suppress(FileNotFoundError):  # the kernel has no pressure
                file = root / PARENT / f"{site}-{tier}" / "cpu.pressure"
                yield (site, tier), parse_pressure(file.read_text())


def parse_pressure(text: str) -> float:
    """The seconds in the line `some` of a file of pressure; raises `ValueError` if there is none."""
    [total] = re.findall(r"^some .*total=(\d+)$", text, re.MULTILINE | re.ASCII)
    return int(total) / 1e6


def parts(available: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The CPUs of each host: halves of those that are available."""
    half = len(available) // len(HOSTS)
    return {host: tuple(available[number * half : (number + 1) * half]) for number, host in enumerate(HOSTS)}


@contextlib.contextmanager
def running(folder: Path, placement: Mapping[str, str]) -> Iterator[Machine]:
    """Sites on these hosts, clients, sensors and exporters; raises `LabError`, and in any case cleans up."""
    available = sorted(os.sched_getaffinity(0))
    telegraf_port, cadvisor_port, node_port, *ports = free_ports(3 + 2 * len(placement))
    instances = {
        site: Instance(site, folder / "sites" / site, {WEB: web, DB: db})
        for site, web, db in zip(placement, ports[::2], ports[1::2], strict=True)
    }
    machine = Machine(parts(available), folder, instances, dict(placement))
    # What runs beside the sites stays on its host, as no host's own work goes to another one.
    of_clients, of_sensors = (",".join(map(str, machine.cpus[host])) for host in HOSTS)
    with contextlib.ExitStack() as ending:
        for site, instance in instances.items():
            ending.callback(instance.stop)
            instance.start(_limits(machine.cpus[placement[site]]))
        logs = folder / "logs"
        logs.mkdir()
        for name, command, environment in _sensors(machine, telegraf_port, cadvisor_port, node_port):
            process = Process(name, beside(of_sensors, command), logs / f"{name}.log", environment=environment)
            ending.callback(process.stop)
            machine.processes.append(process)
        sched = ending.enter_context(RunningExporter(logs, package="virtscope.sched"))
        if reason := why_absent(Page.of(sched.address)):
            raise LabError(f"sched-exporter can't count waits here: {reason}")
        clients = Clients(logs / "clients.log", of_clients)
        ending.callback(clients.stop)
        machine.processes.append(clients)
        machine.addresses = {
            "node": f"{LOOPBACK}:{node_port}/metrics",
            "cadvisor": f"{LOOPBACK}:{cadvisor_port}/metrics?max_age=0s",  # as in prometheus.yml
            "sched": f"{sched.address}/metrics",
            "telegraf": f"{LOOPBACK}:{telegraf_port}/metrics",
        }
        for job, platform in PLATFORMS.items():
            exposed = {host: ending.enter_context(Exposition(partial(_answer, machine, host, job))) for host in HOSTS}
            machine.targets[job] = [page.group(host, platform) for host, page in exposed.items()]
        yield machine


def _answer(machine: Machine, host: str, job: str) -> str:
    """A page; empty if the exporter doesn't answer, so that its series end."""
    try:
        return machine.page(host, job)
    except OSError:
        return ""


def _sensors(
    machine: Machine, telegraf_port: int, cadvisor_port: int, node_port: int
) -> Iterator[tuple[str, list[str | Path], dict[str, str]]]:
    """As in lab.stage, with node_exporter."""
    sensors = machine.folder / "sensors"
    sensors.mkdir(mode=0o700)  # contains the databases' passwords
    for instance in machine.instances.values():
        copy_sensors(instance, sensors)
    own = {"TELEGRAF_PORT": str(telegraf_port), "TELEGRAF_FOLDER": str(TELEGRAF), "STATE_DIRECTORY": str(sensors)}
    configuration = ("--config", TELEGRAF / "telegraf.conf", "--config-directory", sensors)
    yield "telegraf", [programs.path("telegraf"), *configuration, "--quiet"], {**os.environ, **own}
    where = (f"--listen_ip={LOOPBACK}", f"--port={cadvisor_port}", f"--raw_cgroup_prefix_whitelist=/{PARENT}/auction-")
    housekeeping = ("--housekeeping_interval=1m", "--max_housekeeping_interval=1m", "--storage_duration=2m")
    yield "cadvisor", [programs.path("cadvisor"), *where, *housekeeping], dict(os.environ)
    listen = f"--web.listen-address={LOOPBACK}:{node_port}"
    yield "node_exporter", [programs.path("node_exporter"), listen], dict(os.environ)


def _limits(cpus: Sequence[int]) -> dict[str, TierLimits]:
    """With the lab's weight: clients and sensors hardly disturb."""
    return dict.fromkeys(TIERS, TierLimits(Limit().weight, cpus=",".join(map(str, cpus))))
