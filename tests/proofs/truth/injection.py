"""One episode on this machine: containers with loads, a guest, and the wait as seen by the chain and by the kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lab import wait_until
from lab.cgroups import Cgroup, Hierarchies, TierLimits
from tests.proofs.truth.chain import LIMIT, PREFIX, Chain
from tests.proofs.truth.episodes import BUSY_GUEST, GUEST, LEAD_SECONDS, Episode, Load
from tests.proofs.truth.guests import Domain
from tests.proofs.truth.judgement import Observed

_START_SECONDS = 10.0
_END_SECONDS = 10.0
_NOT_RUNNABLE = frozenset("TXZ")


class WorkerError(Exception):
    """The loads can't be built or don't run; the message has a remedy."""


def build(folder: Path) -> Path:
    """The load program, compiled into this folder; raises `WorkerError`."""
    program = folder / "worker"
    source = Path(__file__).with_name("worker.c")
    try:
        built = subprocess.run(
            ["cc", "-O2", "-o", program, source, "-lpthread", "-lm"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise WorkerError("no C compiler: apt-get install --no-install-recommends gcc libc6-dev") from None
    if built.returncode:
        raise WorkerError(f"worker.c doesn't compile: {built.stderr}")
    return program


class Machine(NamedTuple):
    """Shared by all episodes: the load program, CPUs in the order of `episodes.BOTH`, cgroups, guests."""

    worker: Path
    cpus: Sequence[int]
    hierarchies: Hierarchies
    domains: Mapping[str, Domain]


class Injection:
    """An episode's containers. They are created before it starts, as containers exist before they disturb others."""

    def __init__(self, episode: Episode, machine: Machine) -> None:
        self._episode = episode
        self._machine = machine
        scene = episode.scene
        self._names = [*scene.culprits, *scene.decoys, *(["web"] if scene.victim else [])]
        self._cgroups = {name: Cgroup(f"{PREFIX}{episode.number}-{name}", machine.hierarchies) for name in self._names}
        self._processes: list[subprocess.Popen[bytes]] = []

    def make(self) -> None:
        """Create them empty; raises `CgroupError`."""
        for name, cgroup in self._cgroups.items():
            cgroup.make(TierLimits(cap=self._episode.scene.cap if name == "web" else None))

    def remove(self) -> None:
        """End all their processes, and remove them."""
        for cgroup in self._cgroups.values():
            if cgroup.lock is not None:  # it was made
                cgroup.remove()
        for process in self._processes:
            process.wait(_END_SECONDS)
        self._processes.clear()

    def carry_out(self, chain: Chain) -> Observed:
        """Run the episode; raises `WorkerError`. Guests are paused at the end, containers run until `remove`."""
        episode, scene, domains = self._episode, self._episode.scene, self._machine.domains
        app = f"{PREFIX}{episode.app}"
        chain.await_application(app)
        began = time.time()
        try:
            if scene.victim:
                self._begin({"web": scene.victim})
            else:
                domains[GUEST].go_on()
            self._begin(scene.decoys)
            charged, delayed = self._waited(chain)
            if episode.disturbed:
                time.sleep(LEAD_SECONDS)
            if scene.busy_guest:
                domains[BUSY_GUEST].go_on()
            self._begin(scene.culprits)
            disturbed = time.time()
            time.sleep(max(0.0, began + episode.seconds(LIMIT) - disturbed))
            after = self._waited(chain)
        finally:
            for guest in episode.guests:
                domains[guest].pause()
        self._check()
        named = chain.named(app, began)
        strangers = frozenset(by for _, by in named if not by.removeprefix("virtscope/").startswith(PREFIX))
        return Observed(
            episode.number,
            episode.kind,
            episode.to_name,
            episode.disturbed,
            tuple((round(at - disturbed, 1), self._in_the_scene(by)) for at, by in named if by not in strangers),
            strangers,
            after[0] - charged,
            after[1] - delayed,
        )

    def _begin(self, loads: Mapping[str, Load]) -> None:
        """Start loads, and return once all their threads exist."""
        for name, load in loads.items():
            command = [str(self._machine.worker), *load.words(self._machine.cpus)]
            self._processes.append(subprocess.Popen(self._cgroups[name].joining(command), stdin=subprocess.DEVNULL))
        deadline = time.monotonic() + _START_SECONDS
        for name, load in loads.items():
            while len(_threads(self._cgroups[name].processes())) < load.threads:
                self._check()
                if time.monotonic() > deadline:
                    raise WorkerError(f"the load in {self._cgroups[name].path} has not started")
                time.sleep(0.01)

    def _check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise WorkerError(f"a load has ended with status {process.returncode}: {process.args!r}")

    def _waited(self, chain: Chain) -> tuple[float, float]:
        """The victim's wait so far in seconds, as charged by the exporter and as counted by the kernel.

        The victim is stopped meanwhile, so that both have the same value however long reading takes.
        """
        domain = None if self._episode.scene.victim else self._machine.domains[GUEST]
        path = domain.cgroup if domain else self._cgroups["web"].path
        pids = [domain.guest.pid] if domain else self._cgroups["web"].processes()
        with _stopped(pids):
            return chain.charged(path), run_delay(pids)

    def _in_the_scene(self, vserver: str) -> str:
        """The episode's name of a virtual server; others keep their name."""
        if vserver == f"{PREFIX}{BUSY_GUEST}":
            return BUSY_GUEST
        name = vserver.removeprefix(f"virtscope/{PREFIX}{self._episode.number}-")
        return name if name in self._cgroups else vserver


def run_delay(pids: Iterable[int]) -> float:
    """Seconds that all threads of these processes have waited for a CPU (Documentation/scheduler/sched-stats.rst)."""
    found = 0.0
    for thread in _threads(pids):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a QEMU thread that has ended
            found += int((thread / "schedstat").read_text().split()[1]) / 1e9
    return found


@contextlib.contextmanager
def _stopped(pids: Iterable[int]) -> Iterator[None]:
    """Processes whose threads neither run nor wait within the block."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        if not wait_until(
            lambda: all(_state(thread) in _NOT_RUNNABLE for thread in _threads(pids)), _START_SECONDS, 0.01
        ):
            raise WorkerError(f"processes {pids} don't stop")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _state(thread: Path) -> str:
    """Its state, such as "T" for stopped; proc(5)."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def _threads(pids: Iterable[int]) -> list[Path]:
    return [thread for pid in pids for thread in Path("/proc", str(pid), "task").glob("[0-9]*")]
