"""`make status`, and the end of `make up`: the state of every part and target, and problems."""

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy import failures, grafana, health, oversights, programs, supervision, telegraf
from deploy.health import Target
from deploy.parts import DEMO_PARTS, GRAFANA, OVERVIEW, PARTS, PERF_EXPORTER, PROMETHEUS, SCHED_EXPORTER, TELEGRAF, Part
from deploy.plan import Plan, running_plan
from deploy.programs import CHECKOUT
from deploy.terminal import print_table, printable

FULL_BYTES = 10**7
STORE_SECONDS = 10  # for a sample to be stored, on a busy machine


def status() -> bool:
    """Print the state of every part and target; return whether all are healthy."""
    if not supervision.is_running():
        print("The stack is not running. Start it with: make up")
        return False
    plan, processes = running_plan(), supervision.processes()
    running = [part for part in plan.parts if processes[part.name].state == "running"]
    with ThreadPoolExecutor(len(running) or 1) as asking:
        answering = asking.map(lambda part: health.answers(part, plan.ports[part.name]), running)
        hung = {part for part, answers in zip(running, answering, strict=True) if not answers}
    sound = [part for part in running if part not in hung]
    parts = [_row(plan, part, processes[part.name], part in hung) for part in (DEMO_PARTS if plan.is_demo else PARTS)]
    print_table([("PART", "STATE", "SINCE", "ADDRESS", "VERSION OR REASON"), *parts])
    print()
    if PROMETHEUS in sound:
        found = health.targets(plan.ports[PROMETHEUS.name])
        print_table([("TARGET", "JOB", "HOST", "HEALTH")] + [(t.address, t.job, t.host, t.health) for t in found])
        wrong = _problems(plan, sound, found)
        well = all(target.up for target in found) and not wrong
    else:
        wrong, well = [f"{PROMETHEUS.name} does not answer, so nothing is known of its targets."], False
    if hung:
        pids = ", ".join(f"{part.name}: pid {processes[part.name].pid}" for part in running if part in hung)
        wrong.append(f"What runs and doesn't answer may hang ({pids}): if so, it is started again within a minute.")
    if said := [*wrong, *failures.recent(), *_unavailable(plan, sound)]:
        print("\n" + "\n".join(map(printable, said)))
    return set(running) == set(plan.parts) and well and not hung


def _row(plan: Plan, part: Part, process: supervision.Process, hangs: bool) -> tuple[str, ...]:
    """A part's row in the table of `status`."""
    since = f"{process.since.astimezone():%Y-%m-%d %H:%M:%S}" if process.since else ""
    if part in plan.parts:
        state = f"{process.state}, no answer" if hangs else process.state
        got = next((programs.got(suite) for suite in programs.SUITES if suite.name == part.name), None)
        version = f"{got.version}, {got.source}" if got else ""
        return part.name, state, since, f"http://127.0.0.1:{plan.ports[part.name]}", version
    if part is TELEGRAF and telegraf.is_missing():
        return part.name, "missing", "", "", telegraf.why_missing()
    why = {GRAFANA: grafana.why_missing(), TELEGRAF: telegraf.HOW_TO_USE_IT}.get(part, plan.machine.why)
    return part.name, "not used", "", "", why


def _not_stored(plan: Plan, found: Sequence[Target]) -> list[str]:
    """The problem and the remedy if Prometheus doesn't store scraped samples."""
    if not any(target.up for target in found):
        return []  # nothing to store
    age = health.seconds_since_stored(plan.ports[PROMETHEUS.name])
    if age is not None and age < 2 * min(target.interval for target in found) + STORE_SECONDS:
        return []
    since = "no sample of the past minutes" if age is None else f"no sample of the past {age:.0f} s"
    why, free = f"make logs NAME={PROMETHEUS.name} says why", shutil.disk_usage(plan.data).free
    if free < FULL_BYTES:
        disk = f"the disk of {shown(plan.data)} is full ({free // 10**6} MB free)"
        why = f"{disk}. Make space; it continues automatically"
    return [f"Prometheus has stored {since}: {why}."]


def shown(folder: Path) -> str:
    """A folder's path in the checkout, with its target if it is a symbolic link."""
    inside, real = str(folder.relative_to(CHECKOUT)), folder.resolve()
    return inside if real.is_relative_to(CHECKOUT.resolve()) else f"{inside} ({real})"


def _problems(plan: Plan, parts: Sequence[Part], found: Sequence[Target]) -> list[str]:
    """A line for each problem that no part reports; `parts` are those that answer."""
    if plan.is_demo:
        return _not_stored(plan, found)
    without_data = [
        f"{part.name} doesn't get data from all its sources: make logs NAME={part.name} says why."
        for part in parts
        if part.platform and not health.gets_all_data(part, plan.ports[part.name])
    ]
    missing = [f"no sensor is read without Telegraf: {telegraf.why_missing()}"] if telegraf.is_missing() else []
    dropped = health.left_out(plan.ports[PROMETHEUS.name])
    typed = [
        *oversights.in_targets(found, dropped),
        *oversights.in_configuration(),
        *oversights.in_notifications(),
        *oversights.in_sensors(),
    ]
    return [*_not_stored(plan, found), *without_data, *missing, *typed]


def _unavailable(plan: Plan, parts: Sequence[Part]) -> list[str]:
    """A line for each source that the kernel or permissions deny to exporters of any platform: not a failure."""
    if SCHED_EXPORTER not in parts:
        return []
    reasons = health.why_absent(SCHED_EXPORTER, plan.ports[SCHED_EXPORTER.name])
    return [f"sched-exporter can't say who runs while others wait: {why}" for why in reasons]


def describe(plan: Plan) -> None:
    """Print what is monitored, and the addresses."""
    machine = plan.machine
    print(f"\nWatching this machine, {machine.host}, as platform {machine.platform} ({machine.why}).")
    own = {f"127.0.0.1:{port}" for port in plan.ports.values()}
    found = health.targets(plan.ports[PROMETHEUS.name])
    for target in found:
        if target.address not in own:
            print(f"Watching {target.host}, {target.job} at {target.address}: {target.health}.")
    wrong = _problems(plan, plan.parts, found)
    if health.is_refused(plan.ports[PERF_EXPORTER.name]):
        wrong.append("perf-exporter counts nothing: run this as root, or set kernel.perf_event_paranoid to 0.")
    for problem in (*wrong, *_unavailable(plan, plan.parts)):
        print(f"But {printable(problem)}")
    _print_addresses(plan, plan.parts)
    print("\nmake status, make logs, make down. To watch more hosts: docs/watched-hosts.md")
    if machine.platform == "base":
        print("No hypervisor here? To see simulated hosts with one: make down, then make demo")


def describe_demo(plan: Plan) -> None:
    """Print that the demo's data isn't measured, and the addresses."""
    print(
        "\nThis is the demo. All data is simulated (docs/demo.md). Three hosts, demo-xen, demo-openvz and demo-base,"
        "\nrun one, two and four applications of 500 to 800 clients, as in a study. On a fourth one, demo-kvm, a shop"
        "\nwaits for a batch job, and for its own cap. The hour repeats."
    )
    _print_addresses(plan, [part for part in plan.parts if part in {PROMETHEUS, GRAFANA}])
    print("\nmake status, make logs, make down. To watch this machine instead: make up")


def _print_addresses(plan: Plan, parts: Sequence[Part]) -> None:
    """Print these parts' addresses, and why parts are missing; without Grafana, the page of all hosts is first."""
    login = f"  (user admin, password in {grafana.PASSWORD_FILE.relative_to(CHECKOUT)})"
    addresses = [
        (part.name, f"http://127.0.0.1:{plan.ports[part.name]}{login if part is GRAFANA else ''}") for part in parts
    ]
    overview = ("overview", f"http://127.0.0.1:{plan.ports[PROMETHEUS.name]}{OVERVIEW}")
    if GRAFANA in plan.parts:
        addresses.append(overview)
    else:
        addresses = [overview, *addresses, (GRAFANA.name, grafana.why_missing())]
    print()
    print_table(addresses)
