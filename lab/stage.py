"""Everything that runs during an experiment: applications, clients, sensors, a batch job. All are stopped together."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy import go_programs, programs
from deploy.programs import CHECKOUT, catalogue
from lab import LabError, slow_disk
from lab.batch import Batch, Disk
from lab.cgroups import TierLimits, mounted, require_throttling
from lab.clients.child import Clients, Order
from lab.machine import Cpus, cpus
from lab.processes import Process, beside, free_ports
from lab.scenario import NONE, THROTTLED, Consolidation
from lab.servers.instance import DB, TIERS, WEB, Instance

FOLDER = CHECKOUT / ".stack" / "lab"
INSTANCES, SENSORS = FOLDER / "instances", FOLDER / "sensors"  # a guard removes what a killed lab leaves here
DISK = INSTANCES / "disk"
FILES = DISK / "files"  # where it is mounted
DISK_MEBIBYTES = 128  # for each database
TELEGRAF = CHECKOUT / "telegraf"


class Stage:
    """Sensors and clients for all instances run from the start; instances start as steps need them."""

    def __init__(self, scenario: Consolidation, logs: Path) -> None:
        """Nothing runs yet; logs will be in `logs`."""
        self._scenario = scenario
        self._logs = logs
        self._cpus_available = os.sched_getaffinity(0)
        self._cpus_of_others = cpus(scenario.placement[0], self._cpus_available).others
        disk = FILES if scenario.disk else None
        self._telegraf_port, self._cadvisor_port, *ports = free_ports(2 * max(scenario.instances) + 2)
        self._instances = [
            Instance(f"auction-{number}", INSTANCES / f"auction-{number}", {WEB: web, DB: db}, disk)
            for number, (web, db) in enumerate(zip(ports[::2], ports[1::2], strict=True), 1)
        ]
        self._running: list[Instance] = []
        self._sensors: list[Process] = []
        self._batch: Batch
        self.clients: Clients

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Sensors and clients run while the block lasts; raises `LabError`, and in any case cleans up."""
        with contextlib.ExitStack() as ending:
            self._batch = Batch(INSTANCES / "batch", ending.enter_context(self._disk()))
            for instance in self._instances:
                ending.callback(instance.stop)
            ending.callback(self._batch.stop)
            ending.callback(shutil.rmtree, SENSORS, ignore_errors=True)
            for name, command in self._sensor_commands():
                own = {"TELEGRAF_PORT": str(self._telegraf_port), "TELEGRAF_FOLDER": str(TELEGRAF)}
                environment = {**os.environ, **own, "STATE_DIRECTORY": str(SENSORS)}
                log = self._logs / f"{name.lower()}.log"
                sensor = Process(name, beside(self._cpus_of_others, command), log, environment=environment)
                ending.callback(sensor.stop)
                self._sensors.append(sensor)
            self.clients = Clients(self._logs / "clients.log", self._cpus_of_others)
            ending.callback(self.clients.stop)
            yield

    def set_up(self, instances: int, placement: str, batch: str = NONE) -> int:
        """Run this number of instances in this placement, and the batch job or not.

        Returns the instances' number of CPUs; raises `LabError`.
        """
        where = cpus(placement, self._cpus_available)
        self._batch.set_up(batch, where.others if self._scenario.disk else where.by_tier[WEB])
        while len(self._running) > instances:
            self._running.pop().stop()
        for instance in self._instances[len(self._running) : instances]:
            instance.start(self._limits(instance, where))
            self._running.append(instance)
        for instance in self._running:
            instance.limit(self._limits(instance, where))
        return where.count

    def visit(self, clients: Sequence[int], seed: str, think_seconds: float | None = None) -> None:
        """From now on there are so many clients of each running instance."""
        urls = {instance.name: instance.url for instance in self._running}
        think_seconds = think_seconds or self._scenario.think_time
        of_each = dict(zip(urls, clients, strict=True))
        self.clients.carry_out(Order(seed, think_seconds, self._scenario.timeout, of_each, urls))

    def cap(self, caps: Mapping[str, Mapping[str, float]] | None) -> None:
        """Set the caps of tiers, in CPUs by instance and tier; None: no caps."""
        for instance in self._running:
            instance.cap(dict.fromkeys(TIERS) if caps is None else caps[instance.name])

    def cpu_seconds(self) -> float:
        return sum(instance.cpu_seconds() for instance in self._running)

    def cpu_by_tier(self) -> dict[str, dict[str, float]]:
        """The same by instance and tier."""
        return {instance.name: instance.cpu_by_tier() for instance in self._running}

    def check(self) -> None:
        for instance in self._running:
            instance.check()
        for part in (*self._sensors, self.clients):
            part.check()
        self._batch.check()

    @property
    def ports(self) -> Mapping[str, tuple[int, ...]]:
        """The ports of sensors and clients, on loopback, by Prometheus's job."""
        return {"telegraf": (self._telegraf_port,), "cadvisor": (self._cadvisor_port,), "lab": (self.clients.port,)}

    def _sensor_commands(self) -> Iterator[tuple[str, Sequence[str | Path]]]:
        """Both sensors, for instances that may start later; call `get_sensors` first."""
        SENSORS.mkdir(parents=True, mode=0o700)  # contains the databases' passwords
        for instance in self._instances:
            copy_sensors(instance, SENSORS)
        configuration = ("--config", TELEGRAF / "telegraf.conf", "--config-directory", SENSORS)
        yield "Telegraf", [programs.path("telegraf"), *configuration, "--quiet"]  # errors only
        # As in compose.yaml: it reads at each scrape.
        housekeeping = ("--housekeeping_interval=1m", "--max_housekeeping_interval=1m", "--storage_duration=2m")
        where = ("--listen_ip=127.0.0.1", f"--port={self._cadvisor_port}", "--raw_cgroup_prefix_whitelist=/virtscope/")
        yield "cAdvisor", [programs.path("cadvisor"), *where, *housekeeping]

    def _limits(self, instance: Instance, where: Cpus) -> dict[str, TierLimits]:
        of = {tier: self._scenario.limit(instance.name, tier) for tier in TIERS}
        return {tier: TierLimits(limit.weight, limit.cap, where.by_tier[tier]) for tier, limit in of.items()}

    @contextlib.contextmanager
    def _disk(self) -> Iterator[Disk | None]:
        """The disk of all databases, if the scenario has one."""
        if not self._scenario.disk:
            yield None
            return
        if THROTTLED in self._scenario.batch:
            require_throttling(mounted())
        shutil.rmtree(DISK, ignore_errors=True)  # after a crash of the machine
        # `beside` would have nbdfuse unmount its files when the lab is killed, before the guard finds the loop device.
        aside, size = ("taskset", "--cpu-list", self._cpus_of_others), DISK_MEBIBYTES * max(self._scenario.instances)
        with slow_disk.slow_disk(DISK, self._scenario.disk, mebibytes=size, runs_as=aside) as device:
            slow_disk.mount(device, FILES)
            yield Disk(device, self._scenario.disk)


def get_sensors() -> None:
    """Download both programs if missing, and print how long that takes; raises `LabError`."""
    for suite in (catalogue.TELEGRAF, catalogue.CADVISOR):
        if programs.got(suite) is None:
            build_time = go_programs.PROGRAMS[suite.name].module.build_time
            print(f"Getting {suite.title}, once: by download, or a build of {build_time} ...", flush=True)
        programs.get(suite)


def copy_sensors(instance: Instance, folder: Path) -> None:
    """Write the configuration of an instance's sensors."""
    places = {
        "apache_access_log": ("/var/log/apache2/access.log", str(instance.web_log)),
        "apache_status": ("http://127.0.0.1/server-status?auto", instance.status_url),
        "mysql": ("telegraf@unix(/run/mysqld/mysqld.sock)/", instance.db_dsn),
    }
    for sensor, replacement in places.items():
        text = (TELEGRAF / "sensors" / f"{sensor}.conf").read_text()
        for before, after in (replacement, ('app = "shop"', f'app = "{instance.name}"')):
            if before not in text:
                raise LabError(f"{TELEGRAF}/sensors/{sensor}.conf no longer has {before!r}: update lab/stage.py")
            text = text.replace(before, after)
        (folder / f"{instance.name}-{sensor}.conf").write_text(text)
