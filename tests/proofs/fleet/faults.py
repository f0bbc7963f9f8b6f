"""Parts of a running fleet that die, are cut off or are added while the rest continues."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.proofs.fleet.running import Link, Running, metrics

MAX_PENDING = 10 * (10_000 + 2 * 2_000)  # limit of the write queue: deploy/fleet/scraping.py
WRITTEN_SECONDS = 15  # a queue this close to the last appended sample has no backlog: it sends every 5 s
GIVE_UP_SECONDS = 300
_LOOK_SECONDS = 2.0

KINDS = ("prometheus", "receive", "query", "rule", "alertmanager")


@dataclass(frozen=True)
class Plan:
    """Duration of each step of the proof in seconds. Without `each`, parts are only killed all together."""

    calm: float  # without faults
    down: float  # time that a killed part stays down
    cut: float  # time that a shard is cut off from the receivers
    settle: float  # after each step
    each: bool


LONG = Plan(calm=120, down=60, cut=600, settle=60, each=True)
SHORT = Plan(calm=60, down=20, cut=60, settle=30, each=False)


@dataclass
class Step:
    """One step of the proof. Times are seconds since 1970; `drained` is the duration of the backlog after `repaired`.

    `memory` is the resident memory in bytes of the largest watched Prometheus: before, maximum, and after.
    """

    name: str
    begin: float
    repaired: float = 0
    end: float = 0
    drained: float | None = None
    most_pending: float = 0
    memory: tuple[int, int, int] = (0, 0, 0)
    shards: tuple[int, ...] = ()  # shards whose Prometheus were restarted or got hosts from others
    moves: bool = False  # whether hosts move from one shard to another


class Queues:
    """Watches the write queues and memory of each Prometheus during a step."""

    def __init__(self, running: Running, names: Sequence[str]) -> None:
        self._running, self._names = running, names
        self._over = threading.Event()
        self.most_pending, self.most_memory = 0.0, 0
        self.before = self._memory()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def wait_until_drained(self, since: float) -> float | None:
        """Seconds after `since` at which the last queue had no backlog; None if it always had."""
        while time.time() < since + GIVE_UP_SECONDS:
            if all(self._lag(name) <= WRITTEN_SECONDS for name in self._names):
                return time.time() - since
            time.sleep(0.5)
        return None

    def close(self) -> int:
        """Stop watching; return the current memory."""
        self._over.set()
        self._thread.join()
        return self._memory()

    def _lag(self, name: str) -> float:
        """Seconds from the newest appended sample to the newest sent one; 0 if remote write hasn't started."""
        try:
            found = metrics(self._running.processes[name].address)
        except OSError:
            return float("inf")
        if "prometheus_remote_storage_queue_highest_timestamp_seconds" not in found:
            return 0
        appended = found["prometheus_remote_storage_queue_highest_timestamp_seconds"]
        sent = found.get("prometheus_remote_storage_queue_highest_sent_timestamp_seconds", 0.0)
        return appended - sent if appended and sent else float("inf")

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self.most_memory = max(self.most_memory, self._memory())
            for name in self._names:
                try:
                    found = metrics(self._running.processes[name].address)
                except OSError:
                    continue
                pending = found.get("prometheus_remote_storage_samples_pending", 0.0)
                self.most_pending = max(self.most_pending, pending)

    def _memory(self) -> int:
        return max(self._running.processes[name].resident_bytes() for name in self._names)


def steps(running: Running, plan: Plan) -> Iterator[Step]:
    """Run the plan; yields each step as it ends."""
    every = [part.name for part in running.parts("prometheus")]
    yield _step(running, plan, "nothing but the story", every, contextlib.nullcontext(), seconds=plan.calm)

    first = {kind: running.parts(kind)[0].name for kind in KINDS}
    for kind, name in first.items() if plan.each else ():
        what = f"{name} killed for {plan.down:.0f} s"
        killed = _step(running, plan, what, every, _killed(running, [name]), seconds=plan.down)
        killed.shards = (0,) if kind == "prometheus" else ()
        yield killed

    last = [running.parts(kind)[-1].name for kind in KINDS]
    what = f"one of each kind killed for {plan.down:.0f} s"
    killed = _step(running, plan, what, every, _killed(running, last), seconds=plan.down)
    killed.shards = (running.settings.shards - 1,)
    yield killed

    pair = [part.name for part in running.parts("prometheus") if part.shard == 0]
    what = f"shard 0 cut off from the receivers for {plan.cut:.0f} s"
    yield _step(running, plan, what, pair, _cut([running.links[name] for name in pair]), seconds=plan.cut)

    added = _step(running, plan, "a shard added", every, _added(running), seconds=0)
    added.shards, added.moves = (running.settings.shards - 1,), True
    yield added


def _step(
    running: Running,
    plan: Plan,
    name: str,
    watched: Sequence[str],
    broken: contextlib.AbstractContextManager[None],
    *,
    seconds: float,
) -> Step:
    """Break something for this long, then wait for the backlog and some time more; watches these write queues."""
    queues = Queues(running, watched)
    step = Step(name, time.time())
    with broken:
        time.sleep(seconds)
    step.repaired = time.time()
    step.drained = queues.wait_until_drained(step.repaired)
    time.sleep(plan.settle)
    after = queues.close()
    step.most_pending, step.memory = queues.most_pending, (queues.before, queues.most_memory, after)
    step.end = time.time()
    return step


@contextlib.contextmanager
def _killed(running: Running, names: Sequence[str]) -> Iterator[None]:
    processes = [running.processes[name] for name in names]
    for process in processes:
        process.stop(kill=True)  # it can't finish anything
    yield
    for process in processes:
        process.start()
    for process in processes:
        process.wait_until_ready()


@contextlib.contextmanager
def _cut(links: Sequence[Link]) -> Iterator[None]:
    for link in links:
        link.cut()
    yield
    for link in links:
        link.restore()


@contextlib.contextmanager
def _added(running: Running) -> Iterator[None]:
    running.add_shard()
    yield
