"""A trace of scheduler and block layer, and what each estimator makes of it: `COMPARE=1`. Pure, except `recording`.

Each estimator says how many seconds a victim waited for each neighbour:

- `REPLAY` reads the whole trace: who ran on the victim's CPU, or whom its disk served, while it waited. The others and
  this project's ledger are compared with it.
- `SWITCHED_IN`: the whole wait of a preempted task is the doing of the task that replaced it.
- `SLICE_ENDED`: the whole wait is the doing of the task that ran last before it.
- `USE`: the wait divided by share of CPU time, or of the disk's requests.
- `PRESSURE`: PSI's `some` of the victim's cgroup, divided in the same way.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.proofs.truth.judgement import Resource

REPLAY = "a replay of the trace"
SWITCHED_IN = "the task that switched in"
SLICE_ENDED = "the task whose slice ended"
USE = "share of use"
PRESSURE = "PSI by share of use"

_EVENTS = ("sched:sched_switch", "sched:sched_wakeup", "block:block_bio_queue", "block:block_rq_complete")
_LINE = re.compile(r"\s*(\d+) \[(\d+)\] +([\d.]+): +\w+:(\w+): (.*)")
_SWITCH = re.compile(r".*prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+) ")
_WAKEUP = re.compile(r".* pid=(\d+) ")
_REQUEST = re.compile(r"(\d+,\d+) \S+ (?:\(.*\) )?(\d+) ")
_RUNS = 1000  # remembered by CPU or disk

Seconds = Mapping[str, float]
"""By neighbour."""


_Sums = defaultdict[str, float]


class TraceError(Exception):
    """Events can't be recorded or read; the message has a remedy if there is one."""


class Event(NamedTuple):
    """One line of `perf script`; which of the fields matter depends on its name."""

    name: str
    at: float
    cpu: int
    tid: int  # of the task in whose context it happened; of sched_wakeup, the woken one
    runnable: bool = False  # sched_switch: `tid` was preempted
    following: int = 0  # sched_switch: the next task
    disk: str = ""  # "major,minor"
    sector: int = 0


class Meanwhile(NamedTuple):
    """Somebody had a CPU or a disk."""

    begin: float
    end: float
    who: str


@contextlib.contextmanager
def recording(file: Path) -> Iterator[None]:
    """Record the machine's events into `file` within the block; raises `TraceError`."""
    chosen = [word for event in _EVENTS for word in ("--event", event)]
    command = ["perf", "record", "--quiet", "--all-cpus", "--mmap-pages", "4M", *chosen, "--output", str(file)]
    try:
        perf = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise TraceError("no perf: apt-get install --no-install-recommends linux-perf") from None
    try:
        yield
    finally:
        perf.send_signal(signal.SIGINT)
        status = perf.wait(60)
    if status not in (0, -signal.SIGINT):
        raise TraceError(f"perf record has ended with status {status}")


def lines(file: Path) -> Iterator[str]:
    """The recorded events as text; raises `TraceError`."""
    command = ["perf", "script", "--input", str(file), "--fields", "tid,cpu,time,event,trace"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as script:
        assert script.stdout is not None
        yield from script.stdout
    if script.returncode:
        raise TraceError(f"perf script has ended with status {script.returncode}")


def parse(text: Iterable[str]) -> Iterator[Event]:
    """Lines of `perf script`, of which others are left out; raises ValueError for a line of a different format."""
    for line in text:
        if not (found := _LINE.match(line)):
            continue
        tid, cpu, at, name, rest = found.groups()
        event = Event(name, float(at), int(cpu), int(tid))
        pattern = {"sched_switch": _SWITCH, "sched_wakeup": _WAKEUP}.get(name, _REQUEST)
        if not (fields := pattern.match(rest)):
            raise ValueError(f"perf script: {line!r}")
        match name:
            case "sched_switch":
                state = fields[2].startswith("R")
                yield event._replace(tid=int(fields[1]), runnable=state, following=int(fields[3]))
            case "sched_wakeup":
                yield event._replace(tid=int(fields[1]))
            case _:
                yield event._replace(disk=fields[1], sector=int(fields[2]))


class Replay:
    """Follows the events, and sums up the victim's wait by each estimator."""

    def __init__(self, names: Mapping[int, str], victim: str, disk: str) -> None:
        """`names` has the containers' threads; `disk` is the victim's, as "major,minor"."""
        self._names, self._victim, self._disk = names, victim, disk
        self._waits: dict[int, tuple[float, int]] = {}  # of the victim's threads: since when, and who replaced it
        self._ran: dict[int, deque[Meanwhile]] = defaultdict(lambda: deque(maxlen=_RUNS))
        self._since: dict[int, float] = {}  # by CPU
        self._queued: dict[int, tuple[float, str]] = {}  # by sector: when and whose
        self._served: deque[Meanwhile] = deque(maxlen=_RUNS)
        self.waited: dict[Resource, float] = {"cpu": 0.0, "disk": 0.0}
        self.used = {resource: _Sums(float) for resource in self.waited}
        self.charged: dict[Resource, dict[str, _Sums]] = {
            "cpu": {what: _Sums(float) for what in (REPLAY, SWITCHED_IN, SLICE_ENDED)},
            "disk": {REPLAY: _Sums(float)},
        }

    def follow(self, events: Iterable[Event]) -> None:
        """All of them, in the order of time."""
        for event in events:
            match event.name:
                case "sched_switch":
                    self._switch(event)
                case "sched_wakeup" if self._name(event.tid) == self._victim:
                    self._waits.setdefault(event.tid, (event.at, 0))
                case "block_bio_queue" if event.disk == self._disk:
                    self._queued[event.sector] = event.at, self._name(event.tid)
                case "block_rq_complete" if event.disk == self._disk and event.sector in self._queued:
                    self._complete(event)

    def estimates(self, pressure: Mapping[Resource, float]) -> dict[Resource, dict[str, Seconds]]:
        """Seconds by resource and estimator; `pressure` has the growth of PSI's `some`."""
        found: dict[Resource, dict[str, Seconds]] = {}
        for resource, used in self.used.items():
            others = {name: value for name, value in used.items() if name not in ("", self._victim)}
            whole = sum(others.values())
            shares = {name: value / whole for name, value in others.items()} if whole else {}
            divided = {USE: self.waited[resource], PRESSURE: pressure.get(resource, 0.0)}
            by_share = {what: {name: share * wait for name, share in shares.items()} for what, wait in divided.items()}
            charged = {
                what: {name: value for name, value in of.items() if name not in ("", self._victim)}
                for what, of in self.charged[resource].items()
            }
            found[resource] = {**charged, **by_share}
        return found

    def _name(self, tid: int) -> str:
        return self._names.get(tid, "")

    def _switch(self, event: Event) -> None:
        name = self._name(event.tid)
        begin = self._since.get(event.cpu, event.at)
        self._ran[event.cpu].append(Meanwhile(begin, event.at, name))
        self.used["cpu"][name] += event.at - begin
        self._since[event.cpu] = event.at
        if name == self._victim and event.runnable:
            self._waits[event.tid] = event.at, event.following
        if event.following in self._waits:
            began, replaced_by = self._waits.pop(event.following)
            wait = event.at - began
            self.waited["cpu"] += wait
            charged = self.charged["cpu"]
            charged[SLICE_ENDED][name] += wait
            charged[SWITCHED_IN][self._name(replaced_by)] += wait
            _charge(charged[REPLAY], self._ran[event.cpu], began)

    def _complete(self, event: Event) -> None:
        queued, name = self._queued.pop(event.sector)
        self.used["disk"][name] += 1
        if name == self._victim:
            self.waited["disk"] += event.at - queued
            _charge(self.charged["disk"][REPLAY], self._served, queued)
        last = self._served[-1].end if self._served else queued
        self._served.append(Meanwhile(max(queued, last), event.at, name))


def _charge(charged: _Sums, log: deque[Meanwhile], begin: float) -> None:
    """Add the seconds since `begin`, by who had it."""
    for each in reversed(log):
        if each.end <= begin:
            break
        charged[each.who] += each.end - max(each.begin, begin)
