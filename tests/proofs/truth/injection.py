"""One episode on this machine: containers with loads, a guest, and the wait as seen by the chain and by others."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, get_args

from lab import wait_until
from lab.cgroups import PARENT, Cgroup, Hierarchies, TierLimits
from tests.proofs.truth import trace
from tests.proofs.truth.chain import LIMIT, PREFIX, Chain
from tests.proofs.truth.episodes import BUSY_GUEST, GUEST, LEAD_SECONDS, DiskName, Episode, Load
from tests.proofs.truth.guests import Domain
from tests.proofs.truth.judgement import LEDGER, Observed, Resource, Rounds, Waited
from tests.proofs.truth.trace import Seconds
from tests.support import flooding

_START_SECONDS = 10.0
_END_SECONDS = 10.0
_COUNTERS = struct.Struct("=3q")
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


class _Counters(NamedTuple):
    """Of worker.c."""

    waited: int  # ns
    response: int  # ns
    rounds: int


class Machine(NamedTuple):
    """Shared by all episodes: the load program, CPUs in the order of `episodes.BOTH`, cgroups, guests, disks."""

    worker: Path
    cpus: Sequence[int]
    hierarchies: Hierarchies
    domains: Mapping[str, Domain]
    devices: Mapping[DiskName, str]
    compares: bool


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
        self._share_memory(scene.memory_mib)
        began = time.time()
        estimates: dict[Resource, dict[str, Seconds]] = {}
        try:
            if scene.victim:
                self._begin({"web": scene.victim})
            else:
                domains[GUEST].go_on()
            self._begin(scene.decoys)
            before, first = self._waited(chain), time.time()
            done = [self._rounds(chain)]
            if episode.disturbed:
                time.sleep(LEAD_SECONDS)
                done.append(self._rounds(chain))
            if scene.busy_guest:
                domains[BUSY_GUEST].go_on()
            with self._compared(chain, estimates):
                self._begin(scene.culprits)
                disturbed = time.time()
                time.sleep(max(0.0, began + episode.seconds(LIMIT) - disturbed))
            after, last = self._waited(chain), time.time()
            done.append(self._rounds(chain))
        finally:
            self._share_memory(0)
            for guest in episode.guests:
                domains[guest].pause()
        self._check()
        named = chain.named(app, began)
        strangers = frozenset(
            who.name for _, who in named if not who.name.removeprefix("virtscope/").startswith(PREFIX)
        )
        return Observed(
            episode.number,
            episode.kind,
            episode.to_name,
            episode.disturbed,
            tuple(
                (round(at - disturbed, 1), who._replace(name=self._in_the_scene(who.name)))
                for at, who in named
                if who.name not in strangers
            ),
            strangers,
            {
                resource: Waited(charged - before[resource].charged, counted - before[resource].counted)
                for resource, (charged, counted) in after.items()
            },
            last - first,
            tuple(later.since(earlier) for earlier, later in pairwise(each for each in done if each)),
            estimates,
        )

    def _share_memory(self, mib: int) -> None:
        """Limit the memory of all loads together; 0: no limit."""
        hierarchies, version_1 = self._machine.hierarchies, "memory" in self._machine.hierarchies.by_controller
        root = hierarchies.by_controller.get("memory", hierarchies.unified)
        assert root is not None  # one of them exists: see parse_mounts
        unlimited = "-1" if version_1 else "max"
        file = root / PARENT / ("memory.limit_in_bytes" if version_1 else "memory.max")
        file.write_text(str(mib << 20) if mib else unlimited)

    def _begin(self, loads: Mapping[str, Load]) -> None:
        """Start loads, and return once all their threads exist."""
        for name, load in loads.items():
            command = self._flood(load, name) if load.resource == "interrupts" else self._work(load, name)
            self._processes.append(subprocess.Popen(self._cgroups[name].joining(command), stdin=subprocess.DEVNULL))
        deadline = time.monotonic() + _START_SECONDS
        for name, load in loads.items():
            while len(_threads(self._cgroups[name].processes())) < load.threads:
                self._check()
                if time.monotonic() > deadline:
                    raise WorkerError(f"the load in {self._cgroups[name].path} has not started")
                time.sleep(0.01)

    def _work(self, load: Load, name: str) -> list[str]:
        """Its command, and its files."""
        counters, file = self._file(name, "counters"), self._file(name, "cached")
        counters.write_bytes(_COUNTERS.pack(0, 0, 0))
        if load.file_mib:
            with file.open("wb") as sparse:
                sparse.truncate(load.file_mib << 20)
        words = load.words(self._machine.cpus, self._machine.devices, str(counters), str(file))
        return [str(self._machine.worker), *words]

    def _flood(self, load: Load, name: str) -> list[str]:
        sysfs = self._file(name, "sys")
        sysfs.mkdir()
        assert load.floods is not None
        pinned = ["taskset", "--cpu-list", str(self._machine.cpus[load.cpus[0]])]
        receives = str(self._machine.cpus[load.floods])
        return [*pinned, *flooding.COMMAND, sys.executable, "-c", flooding.SCRIPT, receives, str(sysfs)]

    def _check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise WorkerError(f"a load has ended with status {process.returncode}: {process.args!r}")

    @contextlib.contextmanager
    def _compared(self, chain: Chain, estimates: dict[Resource, dict[str, Seconds]]) -> Iterator[None]:
        """Add what each estimator makes of the block, if they are to be compared."""
        victim = self._episode.scene.victim
        if not self._machine.compares or victim is None:
            yield
            return
        device = self._machine.devices[victim.disk] if victim.disk else ""
        file = self._machine.worker.with_name("trace")
        charged, pressed = self._charges(chain), self._pressure()
        with trace.recording(file):
            yield
        ledger, pressure = self._charges(chain), self._pressure()
        names = {int(thread.name): name for name, of in self._cgroups.items() for thread in _threads(of.processes())}
        replay = trace.Replay(names, "web", _numbers(device) if device else "")
        replay.follow(trace.parse(trace.lines(file)))
        grown = {resource: seconds - pressed.get(resource, 0.0) for resource, seconds in pressure.items()}
        for resource, of in replay.estimates(grown).items():
            charges = {
                name: seconds - charged.get((found, name), 0.0)
                for (found, name), seconds in ledger.items()
                if found == resource
            }
            estimates[resource] = {LEDGER: charges, **of}

    def _charges(self, chain: Chain) -> dict[tuple[Resource, str], float]:
        """Seconds that the exporter has charged so far to each other load of the episode, by resource and name."""
        paths = {cgroup.path: name for name, cgroup in self._cgroups.items()}
        return {
            (resource, paths[by]): seconds
            for resource in get_args(Resource)
            for by, seconds in chain.charges(resource, self._cgroups["web"].path).items()
            if paths.get(by, "web") != "web"
        }

    def _pressure(self) -> dict[Resource, float]:
        """The seconds in which some of the victim's tasks waited (Documentation/accounting/psi.rst)."""
        root = self._machine.hierarchies.unified
        files: dict[Resource, str] = {"cpu": "cpu.pressure", "disk": "io.pressure"}
        found: dict[Resource, float] = {}
        for resource, name in files.items():
            with contextlib.suppress(FileNotFoundError):  # a kernel without PSI
                text = (Path(root or "/") / self._cgroups["web"].path[1:] / name).read_text()
                found[resource] = int(text.splitlines()[0].rpartition("total=")[2]) / 1e6
        return found

    def _file(self, name: str, what: str) -> Path:
        """One of a load's files."""
        return self._machine.worker.with_name(f"{self._episode.number}-{name}.{what}")

    def _counters(self) -> _Counters:
        """The victim's."""
        return _Counters(*_COUNTERS.unpack(self._file("web", "counters").read_bytes()))

    def _rounds(self, chain: Chain) -> Rounds | None:
        """What the victim has done so far; None of a guest."""
        if not self._episode.scene.victim:
            return None
        path, found = self._cgroups["web"].path, self._counters()
        own = {path, "(self)", "(device)"}
        delayed = sum(
            seconds
            for resource in get_args(Resource)
            for by, seconds in chain.charges(resource, path).items()
            if by not in own
        )
        return Rounds(found.rounds, found.response / 1e9, delayed)

    def _waited(self, chain: Chain) -> dict[Resource, Waited]:
        """The victim's wait so far, as charged by the exporter, and as counted by the kernel or the victim.

        The victim is stopped meanwhile, so that both have the same value however long reading takes.
        """
        domain = None if self._episode.scene.victim else self._machine.domains[GUEST]
        path = domain.cgroup if domain else self._cgroups["web"].path
        pids = [domain.guest.pid] if domain else self._cgroups["web"].processes()
        with _stopped(pids):
            found: dict[Resource, Waited] = {"cpu": Waited(chain.charged("cpu", path), run_delay(pids))}
            if self._episode.scene.victim and self._episode.scene.victim.disk:
                found["disk"] = Waited(chain.charged("disk", path), self._counters().waited / 1e9)
            return found

    def _in_the_scene(self, vserver: str) -> str:
        """The episode's name of a virtual server; others keep their name."""
        if vserver == f"{PREFIX}{BUSY_GUEST}":
            return BUSY_GUEST
        name = vserver.removeprefix(f"virtscope/{PREFIX}{self._episode.number}-")
        return name if name in self._cgroups else vserver


def _numbers(device: str) -> str:
    """Its numbers, as traces have them."""
    number = Path(device).stat().st_rdev
    return f"{os.major(number)},{os.minor(number)}"


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
