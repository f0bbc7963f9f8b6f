"""Everything that runs during an experiment: applications, clients, sensors, a batch job. All are stopped together."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from deploy.programs import CHECKOUT
from lab import guard, scrapes, sensors
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.clients.child import Clients, Counts
from lab.clients.orders import Application, Habits, Order
from lab.machine import Cpus, cpus
from lab.processes import Process, free_ports
from lab.scenario import Consolidation
from lab.servers import DB, TIERS, WEB, Instance

FOLDER = CHECKOUT / ".stack" / "lab"
STEP_SCRAPES = 3  # per step, the minimum for comparisons: see lab.report.runs
BATCH = "batch"  # the cgroup of the batch job
BATCH_COMMAND = ("sha256sum", "/dev/zero")  # computes without end
BATCH_WEIGHT = 10_000  # the maximum: whose weight is less has as much less of the CPU


class Stage:
    """Sensors and clients for all instances run from the start; instances are started as steps need them."""

    def __init__(self, scenario: Consolidation, logs: Path, prometheus_port: int) -> None:
        """Nothing runs yet; logs will be in `logs`, and Prometheus is on this port."""
        self._scenario = scenario
        self._prometheus_port = prometheus_port
        self._logs = logs
        self._cpus_available = os.sched_getaffinity(0)
        names = [f"auction-{number}" for number in range(1, max(scenario.instances) + 1)]
        telegraf, cadvisor, *ports = free_ports(2 * len(names) + 2)
        self._sensor_ports = telegraf, cadvisor
        where = cpus(scenario.placement[0], self._cpus_available)
        self._cpus_of_others = where.others
        self._instances = [
            Instance(
                name,
                FOLDER / "instances" / name,
                web_port=web_port,
                db_port=db_port,
                web=self._limits(name, WEB, where),
                db=self._limits(name, DB, where),
            )
            for name, web_port, db_port in zip(names, ports[::2], ports[1::2], strict=True)
        ]
        self._running: list[Instance] = []
        self._batch: Process | None = None
        self._ending, self._ending_batch = contextlib.ExitStack(), contextlib.ExitStack()
        self._sensors: list[Process] = []
        self._clients: Clients

    def __enter__(self) -> Self:
        """Start sensors and clients; raises `LabError` and cleans up."""
        with contextlib.ExitStack() as ending:
            for instance in self._instances:
                ending.callback(instance.stop)
            ending.callback(self._stop_batch)
            folder = FOLDER / "sensors"
            shutil.rmtree(folder, ignore_errors=True)  # a killed lab's
            ending.callback(shutil.rmtree, folder, ignore_errors=True)
            for sensor in sensors.start(folder, self._logs, self._instances, self._sensor_ports, self._cpus_of_others):
                self._sensors.append(ending.enter_context(sensor))
            self._clients = Clients(self._logs / "clients.log", self._cpus_of_others)
            ending.callback(self._clients.stop)
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def set_up(self, instances: int, placement: str, *, beside_batch: bool = False) -> int:
        """Run this number of instances in this placement, and a batch job on the web tiers' CPU or none.

        Returns the instances' number of CPUs; raises `LabError`.
        """
        where = cpus(placement, self._cpus_available)
        if beside_batch:
            self._start_batch(where.by_tier[WEB])
        else:
            self._stop_batch()
        while len(self._running) > instances:
            self._running.pop().stop()
        for instance in self._instances[len(self._running) : instances]:
            instance.start()
            self._running.append(instance)
        for instance in self._running:
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
        for process in (*self._sensors, self._clients, *([self._batch] if self._batch else [])):
            process.check()

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

    def _start_batch(self, cpus: str) -> None:
        """Start a job beside the sites, which takes as much of these CPUs as it gets, unless it runs."""
        if self._batch is not None:
            return
        cgroup = Cgroup(BATCH, mounted())
        with contextlib.ExitStack() as ending:
            limits = TierLimits(BATCH_WEIGHT, None, cpus)
            ending.enter_context(guard.guarded(FOLDER / "instances" / BATCH, [(cgroup, limits)]))
            self._batch = Process("the batch job", cgroup.joining(BATCH_COMMAND), self._logs / "batch.log")
            self._ending_batch = ending.pop_all()

    def _stop_batch(self) -> None:
        self._ending_batch.close()
        if self._batch is not None:
            self._batch.stop()
            self._batch = None
