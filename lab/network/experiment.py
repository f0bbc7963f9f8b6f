"""The steps of network costs: each configuration, one after the other."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deploy import go_programs, programs
from deploy.go_programs import GoProgramsError
from lab import LabError, machine
from lab.environments import NONE, Base, Guest
from lab.factors.servers import enclosed, own_folder
from lab.measurements import Measurement
from lab.network import outputs, paths, scenario, web
from lab.network.outputs import Counted, Served
from lab.network.scenario import FILES, ON, UNCHANGED, Configuration, Network, Step, WebLoad, guest_path
from lab.stage import FOLDER
from lab.study import Experiment, Outcome, Run, Study

STATE = FOLDER / "instances" / "network"  # what iperf3 may write to; a killed lab's guard removes it
BETWEEN_SECONDS = 3.0  # about; a path is made, and a step waits until its values are scraped
SLACK_SECONDS = 30.0  # in which a path is made, beyond the time for which iperf3 runs
THROUGHPUT, REQUESTS, FAILED, CPU = "throughput", "requests", "failed requests", "CPU"
PER_BYTE, PER_REQUEST = " per byte", " per request"
P50, P99 = "latency p50", "latency p99"
LATENCIES = {P50: 0.5, P99: 0.99}
ADDRESS = "ADDRESS"  # of a guest, in a plan: nobody has asked it yet


@contextlib.contextmanager
def ready(what: Network, run: Run) -> Iterator[Experiment]:
    """As `Study.ready`."""
    if shutil.which("ip") is None:
        raise LabError("network paths are made with ip: install iproute2")
    programs.root(programs.BENCHMARKS)
    if what.web_rates:
        programs.root(programs.WEB_SERVER)
        _vegeta()
    cpus, counts, course = ends_on(sorted(os.sched_getaffinity(0))), counts_events(), run.course
    with contextlib.ExitStack() as ending:
        reached = {guest_path(guest): ending.enter_context(reach(guest)) for guest in what.guests}
        if not counts:
            course.say("This machine counts no instructions and cycles, or has no perf: costs are in CPU seconds.")
        for path, to in reached.items():
            course.say(f"{path}: {to.address}, through {to.device}")

        def measure_step(step: Step) -> Outcome:
            course.doing(f"{step.name}: measuring")
            found = measured(step, what, reached, cpus, events=counts)
            values = (f"{one.test} {one.value:.4g} {one.unit}" for one in found)
            return Outcome(f"{step.name}: {', '.join(values)}", found)

        yield Experiment(measure_step, machine.host(), what.steps)


def plan(what: Network) -> list[str]:
    """What a run makes on this machine, and what it runs in guests, as lines to read."""
    lines = ["On this machine, in network namespaces that only the step's own processes see, gone when these end:"]
    for path in what.paths:
        _, _, address, _ = paths.ends(path)
        lines += [f"  {path}: {' '.join(command)}" for command in paths.make(path)]
        of = Configuration(path, what.directions[0], what.sizes[0], what.offloads[0])
        lines.append(f"  {path}: {' '.join(paths.iperf3_client(of, address, what.duration))}")
        lines += [f"  {path}: {' '.join(web.SERVER)}"] if what.web_rates else []
        for load in (WebLoad(path, size, rate) for size in FILES for rate in what.web_rates or ()):
            lines.append(f"  {path}: {' '.join(web.attack(load, what.duration))}, which is {web.target(load, address)}")
    for guest in what.guests:
        of = Configuration(guest_path(guest), what.directions[0], what.sizes[0], UNCHANGED)
        lines += [
            f'On {guest.ssh}: echo "$SSH_CONNECTION", which says its {ADDRESS}',
            *(
                f"On {guest.ssh}: {' '.join(server)}"
                for server in paths.iperf3(of, ADDRESS, what.warm_up, what.duration).servers.values()
            ),
            f"On this machine: {' '.join(paths.iperf3_client(of, ADDRESS, what.duration))}",
        ]
        if what.web_rates:
            lines.append(f"On {guest.ssh}: nginx by sh with lab/network/nginx.sh, in a folder of its own in /tmp")
        for load in (WebLoad(guest_path(guest), size, rate) for size in FILES for rate in what.web_rates or ()):
            asked = web.target(load, ADDRESS)
            lines.append(f"On this machine: {' '.join(web.attack(load, what.duration))}, which is {asked}")
    return lines


def planned_seconds(what: Network, steps: Sequence[Step]) -> float:
    """As `Study.planned_seconds`."""
    return len(steps) * (what.warm_up + what.duration + BETWEEN_SECONDS)


def ends_on(available: Sequence[int]) -> paths.Cpus:
    """The client on the last CPU, the server on the one before it; on one CPU both.

    >>> ends_on([0, 1, 2])
    Cpus(server='1', client='2')
    """
    return paths.Cpus(str(available[-2:][0]), str(available[-1]))


def counts_events() -> bool:
    """Whether perf can count all of `paths.EVENTS` on this machine."""
    command = ["perf", "stat", "-a", "-x,", f"--event={','.join(paths.EVENTS)}", "--", "true"]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stderr
    except OSError:
        return False
    return set(outputs.events(said)) == set(paths.EVENTS)


@dataclass(frozen=True)
class Reached:
    """A guest, at which address it is, and through which of this machine's devices."""

    guest: Guest
    address: str
    device: str


@contextlib.contextmanager
def reach(guest: Guest) -> Iterator[Reached]:
    """Where a guest is. Raises `LabError` if ssh doesn't reach it, or if what is sent to it stays on this machine."""
    with guest.ready():
        address = guest.address()
        device = paths.device(Base(name=guest.name).run(["ip", "-oneline", "route", "get", address], SLACK_SECONDS))
        if device in ("", "lo"):
            raise LabError(
                f"{guest.name}: {address}, where ssh reached it, is {'this machine' if device else 'nowhere'}"
            )
        yield Reached(guest, address, device)


def measured(
    step: Step, what: Network, reached: Mapping[str, Reached], cpus: paths.Cpus, *, events: bool
) -> list[Measurement]:
    """Run a step on a path that is made, or on that to a guest. Raises `LabError`; in any case everything has ended."""
    of, to, duration = step.configuration, reached.get(step.configuration.path), what.duration
    address, guest = (to.address, to.guest) if to else (paths.ends(of.path)[2], None)
    with own_folder(STATE) as state, contextlib.ExitStack() as serving:
        if isinstance(of, WebLoad):
            seconds, offloads = what.warm_up + duration + web.TIMEOUT, ON
            web.prepare(STATE, web.target(of, address))
            ends = web.ends(of, what.warm_up, duration)
            enclosed_ends = ends.enclosed(partial(web.enclosed, state))
            servers = [(web.server_in_guest(address), web.STARTED, "nginx")]
        else:
            seconds, offloads = what.warm_up + duration, of.offloads
            ends = paths.iperf3(of, address, what.warm_up, duration)
            enclosed_ends = ends.enclosed(partial(enclosed, state))
            servers = [(list(server), paths.LISTENING, "") for server in ends.servers.values()]
        if guest:
            for server, listening, called in servers:
                serving.enter_context(guest.serving(server, listening, seconds + 2 * SLACK_SECONDS, called))
            script = paths.script_to_guest(enclosed_ends, cpus, events=events)
        else:
            script = paths.script(of.path, offloads, enclosed_ends, cpus, events=events)
        said = _said(of.name, script, seconds)
    if isinstance(of, WebLoad):
        return web_values(step, outputs.read_web(said, of.rate), duration, guest)
    return values(step, outputs.read(said), duration, guest)


def _said(name: str, script: str, seconds: float) -> str:
    """What a step's script prints, which runs what is measured for so many seconds."""
    file = STATE / "step.sh"  # not an argument, or it would be in each message
    file.write_text(script)
    return Base(name=name).run(["unshare", "--mount", "sh", "-e", str(file)], seconds + SLACK_SECONDS)


def _vegeta() -> None:
    """Have it built, before it is needed in a step."""
    try:
        go_programs.path("vegeta")
    except GoProgramsError as error:
        raise LabError(f"no vegeta for the web load: {error}; leave web_rates out") from None


@dataclass(frozen=True)
class _Value:
    test: str
    unit: str
    better: str
    value: float


def values(step: Step, counted: Counted, duration: int, guest: Guest | None = None) -> list[Measurement]:
    """What a step has measured: rates, and what each byte cost, by CPU time and by event."""
    found = [_Value(THROUGHPUT, "bytes/s", "higher", counted.throughput)]
    found += _costs(counted, "byte", counted.throughput * duration, duration)
    return _measurements(step, found, guest)


def web_values(step: Step, served: Served, duration: int, guest: Guest | None = None) -> list[Measurement]:
    """The same of requests that were answered, and how long their answers took."""
    answered = len(served.latencies)
    found = [
        _Value(REQUESTS, "requests/s", "higher", answered / max(served.seconds, duration)),
        _Value(FAILED, "requests", "lower", served.failed),
        *(_Value(test, "s", "lower", served.latency(quantile)) for test, quantile in LATENCIES.items()),
        *_costs(served, "request", answered, duration),
    ]
    return _measurements(step, found, guest)


def _costs(counted: Counted | Served, of: str, number: float, duration: int) -> Iterator[_Value]:
    """What was used per second, and for each of so many."""
    for test, whole, unit in ((CPU, counted.cpu_seconds, "s"), *((name, n, "") for name, n in counted.events.items())):
        yield _Value(test, f"{unit}/s" if unit else "per second", "lower", whole / duration)
        yield _Value(f"{test} per {of}", f"{unit}/{of}" if unit else f"per {of}", "lower", whole / number)


def _measurements(step: Step, found: Sequence[_Value], guest: Guest | None) -> list[Measurement]:
    where, platform = step.configuration.name, guest.virtualization if guest else NONE
    emulated = guest is not None and guest.emulated
    return [
        Measurement(where, platform, emulated, one.test, one.unit, one.better, step.repetition, one.value)
        for one in found
    ]


STUDY = Study(scenario.STUDY, scenario.parse, plan, planned_seconds, ready)
