"""Everything that runs during an experiment: applications, clients, sensors, a batch job. All are stopped together."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from deploy.programs import CHECKOUT
from lab import LabError, batch, scrapes
from lab.clients.child import Clients, Counts
from lab.clients.orders import Application, Habits, Order
from lab.machine import Cpus, cpus
from lab.scenario import Scenario
from lab.sensors import Sensors
from lab.servers import DB, TIERS, WEB, Instance, TierLimits

FOLDER = CHECKOUT / ".stack" / "lab"
# Below the kernel's range of ephemeral ports, which the clients' connections use.
PORTS = range(21_000, 31_000)
STEP_SCRAPES = 3  # per step, the minimum for comparisons: see lab.report.runs


class Stage:
    """Sensors and clients for all instances run from the start; instances are started as steps need them."""

    def __init__(self, scenario: Scenario, logs: Path, prometheus_port: int) -> None:
        """Nothing runs yet; logs will be in `logs`, and Prometheus is on this port."""
        self._scenario = scenario
        self._prometheus_port = prometheus_port
        self._logs = logs
        self._cpus_available = os.sched_getaffinity(0)
        names = [f"auction-{number}" for number in range(1, max(scenario.instances) + 1)]
        ports = _free_ports(2 * len(names) + 2)
        self._sensor_ports = next(ports), next(ports)
        where = cpus(scenario.placement[0], self._cpus_available)
        self._cpus_of_others = where.others
        self._instances = [
            Instance(
                name,
                FOLDER / "instances" / name,
                web_port=next(ports),
                db_port=next(ports),
                web=self._limits(name, WEB, where),
                db=self._limits(name, DB, where),
            )
            for name in names
        ]
        self._running: list[Instance] = []
        self._batch = batch.BatchJob(FOLDER / "instances" / batch.NAME)
        self._ending = contextlib.ExitStack()
        self._sensors: Sensors
        self._clients: Clients

    def __enter__(self) -> Self:
        """Start sensors and clients; raises `LabError` and cleans up."""
        try:
            self._ending.callback(self._stop_instances)
            self._ending.callback(self._batch.stop)
            sensors_folder = FOLDER / "sensors"
            shutil.rmtree(sensors_folder, ignore_errors=True)  # a killed lab's
            self._ending.callback(shutil.rmtree, sensors_folder, ignore_errors=True)
            self._sensors = Sensors(
                sensors_folder, self._logs, self._instances, self._sensor_ports, self._cpus_of_others
            )
            self._ending.callback(self._sensors.stop)
            self._clients = Clients(self._logs / "clients.log", self._cpus_of_others)
            self._ending.callback(self._clients.stop)
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def set_up(self, instances: int, placement: str, *, beside_batch: bool = False) -> int:
        """Run this number of instances in this placement, and a batch job on the web tiers' CPU or none.

        Returns the instances' number of CPUs; raises `LabError`.
        """
        where = cpus(placement, self._cpus_available)
        if beside_batch:
            self._batch.start(where.by_tier[WEB])
        else:
            self._batch.stop()
        while len(self._running) > instances:
            self._running.pop().stop()
        for instance in self._running:
            for tier in TIERS:
                instance.limit(tier, self._limits(instance.name, tier, where))
        for instance in self._instances[len(self._running) : instances]:
            instance.start()
            self._running.append(instance)
            for tier in TIERS:
                instance.limit(tier, self._limits(instance.name, tier, where))
        return where.count

    def visit(self, clients: int, seed: str, think_seconds: float | None = None) -> None:
        """Load each running instance with this number of new clients, and the others with none."""
        running = {instance.name for instance in self._running}
        applications = {
            instance.name: Application(instance.url, clients if instance.name in running else 0)
            for instance in self._instances
        }
        habits = Habits(seed, think_seconds or self._scenario.think_time, self._scenario.timeout)
        self._clients.carry_out(Order(habits, applications))

    def counts(self) -> Counts:
        """What the clients have counted so far."""
        return self._clients.counts()

    def cpu_seconds(self) -> float:
        """CPU time that all tiers of all running instances have used so far."""
        return sum(instance.cpu_seconds(tier) for instance in self._running for tier in TIERS)

    def check(self) -> None:
        """Raise `LabError` if anything has ended unexpectedly."""
        for instance in self._running:
            instance.check()
        self._batch.check()
        self._sensors.check()
        self._clients.check()

    def await_step(self, run: str, step: str, seconds: float) -> None:
        """Return once Prometheus has enough samples of a step; raises `LabError` if it doesn't.

        The step has been exposed since `shown`. Usually that is enough; but scrapes may fail on an overloaded machine,
        and a step without samples must not count as done.
        """
        shown = time.monotonic() - seconds

        def samples() -> str:
            marks = f'lab_step_info{{run="{run}", step="{step}"}}[{math.ceil(time.monotonic() - shown)}s]'
            return f"count_over_time({marks}) >= {STEP_SCRAPES}"

        too_few = f"step {step} less than {STEP_SCRAPES} times"
        scrapes.await_samples(self._prometheus_port, samples, too_few, self.check)

    @property
    def ports(self) -> Mapping[str, tuple[int, ...]]:
        """Of sensors and clients, on loopback, by Prometheus's job."""
        telegraf, cadvisor = self._sensor_ports
        return {"telegraf": (telegraf,), "cadvisor": (cadvisor,), "lab": (self._clients.port,)}

    def _limits(self, instance: str, tier: str, where: Cpus) -> TierLimits:
        limit = self._scenario.limit(instance, tier)
        return TierLimits(limit.weight, limit.cap, where.by_tier[tier])

    def _stop_instances(self) -> None:
        for instance in self._instances:
            instance.stop()


def _free_ports(count: int) -> Iterator[int]:
    """Unused ports."""
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
        count -= 1
        if not count:
            return
    raise LabError(f"there are no {count} free ports from {PORTS[0]} to {PORTS[-1]}")
