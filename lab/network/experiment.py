"""The steps of network costs: each configuration, one after the other."""

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from deploy import go_programs, programs
from deploy.go_programs import GoProgramsError
from lab import LabError, machine
from lab.environments import NONE, Guest
from lab.factors.servers import enclosed, own_folder
from lab.metrics import Measurement
from lab.network import outputs, paths
from lab.network.outputs import Counted, Served
from lab.network.scenario import ON, Network, Step, WebLoad, guest_path
from lab.processes import output
from lab.progress import Course
from lab.servers import enclosure
from lab.stage import INSTANCES
from lab.study import Experiment, Outcome, Run, Study

STATE = INSTANCES / "network"  # writable for iperf3
BETWEEN_SECONDS = 3.0  # approximate; a path is made, and a step waits until its values are scraped
SLACK_SECONDS = 30.0  # for making a path, in addition to iperf3's run time
THROUGHPUT, REQUESTS, FAILED, CPU = "throughput", "requests", "failed requests", "CPU"
PER_BYTE, PER_REQUEST = " per byte", " per request"
P50, P99 = "latency p50", "latency p99"
LATENCIES = {P50: 0.5, P99: 0.99}


@contextlib.contextmanager
def ready(what: Network, run: Run) -> Iterator[Experiment]:
    if shutil.which("ip") is None:
        raise LabError("network paths are made with ip: install iproute2")
    programs.root(programs.BENCHMARKS)
    if what.web_rates:
        programs.root(programs.WEB_SERVER)
        try:
            go_programs.path("vegeta")  # built before a step needs it
        except GoProgramsError as error:
            raise LabError(f"no vegeta for the web load: {error}; leave web_rates out") from None
    counts, course = counts_events(), run.course
    with contextlib.ExitStack() as ending:
        reached = {guest_path(guest): ending.enter_context(reach(guest)) for guest in what.guests}
        if not counts:
            course.say("This machine counts no instructions and cycles, or has no perf: costs are in CPU seconds.")
        measured = partial(measure, what=what, reached=reached, course=course, events=counts)
        yield Experiment(measured, machine.host(), what.steps)


def plan(what: Network) -> list[str]:
    rates = ", ".join(map(str, what.web_rates or ()))
    web_load = [f"nginx, and vegeta at {rates} requests/s"] if rates else []
    ports = f"iperf3 --server on ports {paths.PORT} and {paths.WARM_UP_PORT}"
    by = "by sh with lab/network/nginx.sh, in a folder of its own in /tmp"
    nginx = f", nginx on port {paths.WEB_PORT} {by}" if rates else ""
    return [
        "On this machine, in network namespaces that only the step's own processes see, gone when these end:",
        *(f"  {path}: {' '.join(command)}" for path in what.paths for command in paths.make(path)),
        f"  at their ends {', '.join(['iperf3', *web_load])}",
        *(f"On {guest.ssh}, at the address where ssh reaches it: {ports}{nginx}" for guest in what.guests),
    ]


def planned_seconds(what: Network, steps: Sequence[Step]) -> float:
    return len(steps) * (what.warm_up + what.duration + BETWEEN_SECONDS)


def counts_events() -> bool:
    command = ["perf", "stat", "-a", "-x,", f"--event={','.join(paths.EVENTS)}", "--", "true"]
    with contextlib.suppress(LabError, OSError):
        return set(outputs.events(output("perf", command, SLACK_SECONDS))) == set(paths.EVENTS)
    return False


@contextlib.contextmanager
def reach(guest: Guest) -> Iterator[tuple[Guest, str]]:
    """A guest and its address. Raises `LabError` if ssh fails, or if traffic to the guest stays on this machine."""
    with guest.ready():
        address = guest.address()
        said = output(f"{guest.name}: ip route", ["ip", "-oneline", "route", "get", address], SLACK_SECONDS)
        if re.search(r"(?<!\S)dev (?!lo )", said) is None:
            raise LabError(f"{guest.name}: {address}, where ssh reached it, is this machine, or nowhere")
        yield guest, address


def measure(
    step: Step, what: Network, reached: Mapping[str, tuple[Guest, str]], course: Course, *, events: bool
) -> Outcome:
    """Run a step on an existing path, or on the one to a guest. Raises `LabError`; in any case everything has ended."""
    course.doing(f"{step.name}: measuring")
    of, seconds = step.configuration, what.warm_up + what.duration
    guest, address = reached.get(of.path) or (None, paths.ends(of.path)[2])
    with own_folder(STATE) as state, contextlib.ExitStack() as serving:
        if isinstance(of, WebLoad):
            seconds, offloads = seconds + paths.TIMEOUT, ON
            ends = paths.web(of, address, what.warm_up, what.duration, STATE)
            by = partial(enclosure.enclosed, state, packages=programs.WEB_SERVER)
        else:
            offloads, by = of.offloads, partial(enclosed, state)
            ends = paths.iperf3(of, address, what.warm_up, what.duration)
        if guest:
            for name, server in ends.in_guest.items():
                there = guest.serving(server, ends.listening, seconds + 2 * SLACK_SECONDS, name)
                serving.enter_context(there)
        script = paths.script(None if guest else of.path, offloads, ends, by, events=events)
        file = STATE / "step.sh"  # not an argument, or it would be in each message
        file.write_text(script)
        said = output(of.name, ["unshare", "--mount", "sh", "-e", file], seconds + SLACK_SECONDS)
    found = outputs.read_web(said, of.rate) if isinstance(of, WebLoad) else outputs.read(said)
    measured = values(step, found, what.duration, guest)
    summary = ", ".join(f"{one.test} {one.value:.4g} {one.unit}" for one in measured)
    return Outcome(f"{step.name}: {summary}", measured)


def values(step: Step, found: Counted | Served, duration: int, guest: Guest | None = None) -> list[Measurement]:
    """A step's measurements: rates, and the cost of each byte or request in CPU time and events."""
    if isinstance(found, Served):
        each, number = "request", float(len(found.latencies))
        rates = [
            (REQUESTS, "requests/s", "higher", number / max(found.seconds, duration)),
            (FAILED, "requests", "lower", found.failed),
            *((test, "s", "lower", found.latency(quantile)) for test, quantile in LATENCIES.items()),
        ]
    else:
        each, number = "byte", found.throughput * duration
        rates = [(THROUGHPUT, "bytes/s", "higher", found.throughput)]
    for test, whole in {CPU: found.cpu_seconds, **found.events}.items():
        unit = "s" if test == CPU else ""
        rates.append((test, f"{unit}/s" if unit else "per second", "lower", whole / duration))
        rates.append((f"{test} per {each}", f"{unit}/{each}" if unit else f"per {each}", "lower", whole / number))
    where = step.configuration.name, guest.platform if guest else NONE, guest is not None and guest.emulated
    return [Measurement(*where, test, unit, better, step.repetition, value) for test, unit, better, value in rates]


STUDY = Study("network", Network.parse, plan, planned_seconds, ready)
