"""Start, show and stop the stack on this machine, without Docker.

    python3 -m deploy.stack up | demo | down | status | logs [NAME] [--follow]

All it makes is in .stack/, prometheus/targets/local/ and an empty local/targets/ of this checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deploy import (
    StackError,
    configuration,
    demo,
    failures,
    grafana,
    health,
    oversights,
    privileges,
    programs,
    python_packages,
    sockets,
    stored_data,
    supervision,
    targets,
    telegraf,
)
from deploy.parts import (
    ALERTMANAGER,
    DEMO_PARTS,
    DEMO_SENSORS,
    EXPORTERS,
    GRAFANA,
    OVERVIEW,
    PARTS,
    PERF_EXPORTER,
    PROMETHEUS,
    SCHED_EXPORTER,
    TELEGRAF,
    Part,
    options,
    options_given,
    ports,
)
from deploy.programs import CHECKOUT, ProgramsError, catalogue
from deploy.programs.catalogue import Suite
from deploy.targets import Machine

SUPERVISORD_CONF = CHECKOUT / "deploy" / "supervisord.conf"
DATA = CHECKOUT / ".stack" / "data"
SOURCES = CHECKOUT / "exporters" / "virtscope"
SETTINGS_FILE = supervision.RUN / "settings.json"
NEEDED_BYTES = 10**9  # at first; DATA_BYTES once programs and packages are there
DATA_BYTES = 5 * 10**8
FULL_BYTES = 10**7
DISCOVERY_SECONDS = 11  # Prometheus hands on what it has found every 5 s, and takes it up every 5 s
TARGETS_READ = supervision.RUN / "targets-read"  # as old as the last `make up`
STORE_SECONDS = 10  # for a sample to be stored, on a busy machine
ORPHAN_SECONDS = 15  # for programs to end after their supervisor was killed
LOG_LINES = 10
ALL_PARTS = (*PARTS, DEMO_SENSORS)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Plan:
    """What is to run on this machine: the parts, and the port of each part there is, by its name."""

    machine: Machine
    parts: tuple[Part, ...]
    ports: dict[str, int]
    options: dict[str, str]
    is_demo: bool = False

    @property
    def ready(self) -> tuple[Part, ...]:
        """The parts that can answer now: Telegraf may still be on its way, and be here the next time."""
        return tuple(part for part in self.parts if part is not TELEGRAF or telegraf.is_ready())


def up() -> None:
    """Start the stack, or bring a running one up to date, and return once all of it works."""
    with alone():
        running_settings = _read_settings() if supervision.is_running() else None
        with step("Looking at this machine"):
            given = {name: value for name, value in os.environ.items() if value}
            settings = {**_given_before(running_settings), **given, demo.SETTING: ""}
            plan = _plan(settings)
            _require_root(plan)
            _require_ports(plan)
            if running_settings is None:
                supervision.require_short_path()
                _require_space(plan)
            python_packages.STACK.require_venv()
        _get_programs(catalogue.PROMETHEUS, catalogue.ALERTMANAGER, catalogue.NODE_EXPORTER)
        stored_data.require_readable(_prometheus_version())
        plan = _plan(settings)  # with Grafana, if it has just come
        with step("Installing Python packages (.stack/venv)"):
            python_packages.STACK.install()
        if TELEGRAF in plan.parts:
            telegraf.take_if_near()
        with step("Checking the configuration"):
            _check_configuration(plan)

        wanted = _settings(plan)
        if running_settings == wanted:
            _refresh(plan)
            _wait(plan)
            print("\nThe stack was running already; its configuration was reloaded.")
        else:
            if running_settings is not None:
                with step("Stopping the running stack: its programs or ports are not the ones wanted now"):
                    supervision.stop()
            _start(plan, wanted)
            stored_data.written_by(_prometheus_version())
        _describe(plan)
        TARGETS_READ.touch()


def play() -> None:
    """Start the demo in the stack's place, with a day of history, and return once all of it works."""
    with alone():
        if supervision.is_running() and not _plan(_read_settings()).is_demo:
            raise StackError("the stack is running on the demo's ports: make down first")
        with step("Looking at this machine"):
            plan = _plan({**{name: value for name, value in os.environ.items() if value}, demo.SETTING: "1"})
            supervision.stop()  # a demo starts over
            supervision.require_short_path()
            _require_ports(plan)
            _require_space(plan)
            python_packages.STACK.require_venv()
        _get_programs(catalogue.PROMETHEUS)
        plan = _plan({**{name: value for name, value in os.environ.items() if value}, demo.SETTING: "1"})
        with step("Installing Python packages (.stack/venv)"):
            python_packages.STACK.install()
        with step("Making a day of history"):
            demo.prepare(plan.ports)
        _start(plan, _settings(plan))
        _describe_demo(plan)


def down() -> None:
    """Stop all that `up` started. What was recorded stays in .stack/data."""
    with alone():
        if not supervision.is_running():
            supervision.stop()
            print("The stack is not running.")
            return
        with step("Stopping the stack"):
            supervision.stop()
    print("The data is kept in .stack/data. Start again with: make up")


def running_plan() -> Plan:
    """What the stack was last started with."""
    return _plan(_read_settings())


def start_again() -> None:
    """Start what ran when supervisord was killed, as it was; nothing if somebody else just does, or has stopped it."""
    with alone():
        if not supervision.was_killed():
            return
        plan, settings = running_plan(), _read_settings()
        _require_ports(plan)
        supervision.start(settings)
        for part in plan.parts:
            supervision.start_program(part.name)


def status() -> bool:
    """Print the state of every part and target; return whether all of it is as it should be."""
    if not supervision.is_running():
        print("The stack is not running. Start it with: make up")
        return False
    plan = _plan(_read_settings())
    processes = supervision.processes()
    running = [part for part in plan.ready if processes[part.name].state == "running"]
    with ThreadPoolExecutor(len(running) or 1) as asking:
        answering = asking.map(lambda part: health.answers(part, plan.ports[part.name]), running)
        hung = {part for part, answers in zip(running, answering, strict=True) if not answers}
    parts = [("PART", "STATE", "SINCE", "ADDRESS", "VERSION OR REASON")]
    for part in DEMO_PARTS if plan.is_demo else PARTS:
        process = processes[part.name]
        since = f"{process.since.astimezone():%Y-%m-%d %H:%M:%S}" if process.since else ""
        if part in plan.ready:
            state = f"{process.state}, no answer" if part in hung else process.state
            parts.append((part.name, state, since, f"http://127.0.0.1:{plan.ports[part.name]}", _version(part)))
        elif part in plan.parts:
            state, why = _telegraf_state(process)
            parts.append((part.name, state, since, "", why))
        else:
            parts.append((part.name, "not used", "", "", _why_not_used(part, plan.machine)))
    print_table(parts)

    print()
    problem, forgotten = "", list[str]()
    sound = [part for part in running if part not in hung]
    if PROMETHEUS in running and PROMETHEUS not in hung:
        found = health.targets(plan.ports[PROMETHEUS.name])
        print_table([("TARGET", "JOB", "HOST", "HEALTH")] + [(t.address, t.job, t.host, t.health) for t in found])
        problem = _not_stored(plan, found)
        forgotten = [*_without_data(plan, sound), *_oversights(plan, found)]
        well = all(target.up for target in found) and not problem and not forgotten
    else:
        problem, well = f"{PROMETHEUS.name} does not answer, so nothing is known of its targets.", False
    if hung:
        pids = ", ".join(f"{part.name}: pid {processes[part.name].pid}" for part in running if part in hung)
        problem = (
            f"{problem} What runs and doesn't answer may hang ({pids}): if so, it is started again within a minute."
        )
    said = list(filter(None, [problem.strip(), *forgotten, *failures.recent(), *_unavailable(plan, sound)]))
    if said:
        print("\n" + "\n".join(map(health.printable, said)))
    at_work = {name for name, process in processes.items() if process.state == "running"}
    if processes[TELEGRAF.name].state == "starting" and TELEGRAF not in plan.ready:
        at_work.add(TELEGRAF.name)  # on its way
    return at_work >= {part.name for part in plan.parts} and well and not hung


def _not_stored(plan: Plan, found: Sequence[health.Target]) -> str:
    """What is wrong and what to do, if Prometheus stores nothing of what it scrapes; else nothing."""
    if not any(target.up for target in found):
        return ""  # there is nothing to be stored
    age = health.seconds_since_stored(plan.ports[PROMETHEUS.name])
    if age is not None and age < 2 * min(target.interval for target in found) + STORE_SECONDS:
        return ""
    since = "no sample of the past minutes" if age is None else f"no sample of the past {age:.0f} s"
    folder = _data(plan)
    free = shutil.disk_usage(folder).free
    if free < FULL_BYTES:
        why = f"the disk of {_shown(folder)} is full ({free // 10**6} MB free). Make space; it continues automatically"
    else:
        why = f"make logs NAME={PROMETHEUS.name} says why"
    return f"Prometheus has stored {since}: {why}."


def _without_data(plan: Plan, parts: Sequence[Part]) -> list[str]:
    """A line for each exporter of this platform that answers, without data of all its sources."""
    return [
        f"{part.name} doesn't get data from all its sources: make logs NAME={part.name} says why."
        for part in parts
        if part.platform and not plan.is_demo and not health.gets_all_data(part, plan.ports[part.name])
    ]


def _unavailable(plan: Plan, parts: Sequence[Part]) -> list[str]:
    """A line for each thing that the kernel, or its permissions, keep from exporters of any platform: no fault."""
    if SCHED_EXPORTER not in parts:
        return []
    reasons = health.why_absent(SCHED_EXPORTER, plan.ports[SCHED_EXPORTER.name])
    return [f"sched-exporter can't say who runs while others wait: {why}" for why in reasons]


def _oversights(plan: Plan, found: Sequence[health.Target]) -> list[str]:
    """A line for each thing that was forgotten or mistyped where no program complains."""
    if plan.is_demo:
        return []
    dropped = health.left_out(plan.ports[PROMETHEUS.name])
    return [*oversights.in_targets(found, dropped), *oversights.in_configuration(), *oversights.in_sensors()]


def _data(plan: Plan) -> Path:
    """The folder in which Prometheus keeps its samples."""
    return demo.FOLDER / "data" if plan.is_demo else DATA / PROMETHEUS.name


def _shown(folder: Path) -> str:
    """A folder of the checkout as the user knows it, and where it is if that is elsewhere."""
    inside, real = str(folder.relative_to(CHECKOUT)), folder.resolve()
    return inside if real.is_relative_to(CHECKOUT.resolve()) else f"{inside} ({real})"


def logs(name: str | None, *, follow: bool) -> None:
    """Show the last lines of one part's log or of all; with `follow` new ones too, until interrupted."""
    there = sorted(supervision.LOG.glob("*.log"))
    chosen = [file for file in there if name in {None, file.stem}]
    if not chosen:
        names = ", ".join(file.stem for file in there) or "none before the first `make up`"
        raise StackError(f"no such log; choose from: {names}")
    command = ["tail", "--lines=20", *(["-F"] if follow else []), *map(str, chosen)]
    # What programs log may be what their clients sent.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as tail:
        assert tail.stdout
        for line in tail.stdout:
            print(_log_line(line), flush=True)


def ports_in_use() -> dict[str, int]:
    """Port of each part by its name, as the stack was last started with here; else as it would be."""
    return ports(_read_settings() if SETTINGS_FILE.exists() else os.environ)


def _given_before(settings: Mapping[str, str] | None) -> dict[str, str]:
    """The ports and options that a running stack was started with, and which it keeps unless others are given."""
    if settings is None:
        return {}
    chosen = ports(settings, ALL_PARTS)
    kept = {part.port_variable: str(chosen[part.name]) for part in ALL_PARTS}
    return {**kept, **options_given(settings, chosen)}


def _plan(settings: Mapping[str, str]) -> Plan:
    """What to run on this machine, on the ports that the settings say."""
    machine = targets.this_machine()
    chosen = ports(settings, ALL_PARTS)
    if settings.get(demo.SETTING):
        parts = tuple(part for part in DEMO_PARTS if part is not GRAFANA or grafana.home() is not None)
        return Plan(machine, parts, chosen, options(settings, chosen), is_demo=True)
    parts = tuple(
        part
        for part in PARTS
        if part.platform in {None, machine.platform}
        and (part is not GRAFANA or grafana.home() is not None)
        and (part is not TELEGRAF or telegraf.is_wanted())
    )
    return Plan(machine, parts, chosen, options(settings, chosen))


def _telegraf_state(telegraf_process: supervision.Process) -> tuple[str, str]:
    """What `status` says of Telegraf before it is there, and why."""
    if telegraf_process.state not in {"starting", "running"} or telegraf_process.since is None:
        return "missing", f"{telegraf.why_missing()}; to try again: make up"
    minutes = (datetime.now(UTC) - telegraf_process.since).total_seconds() / 60
    return f"on its way, {minutes:.0f} min so far", f"a download, or a build of {telegraf.BUILD_TIME}; then it starts"


def _version(part: Part) -> str:
    """Which release of the part runs, and whose; empty for ours, and for a Grafana that is installed."""
    found = next((programs.got(suite) for suite in programs.SUITES if suite.name == part.name), None)
    return f"{found.version}, {found.source}" if found else ""


def _why_not_used(part: Part, machine: Machine) -> str:
    if part is GRAFANA:
        return grafana.why_missing()
    return telegraf.HOW_TO_USE_IT if part is TELEGRAF else machine.why


def _require_root(plan: Plan) -> None:
    """Raise `StackError` for a user who can't give the exporter of this platform the capabilities that it needs."""
    for part in plan.parts:
        if part.platform and part.capabilities and os.geteuid() != 0:
            raise StackError(f"only root may start {part.name}, and this is {plan.machine.why}: use sudo")


def _get_programs(*suites: Suite) -> None:
    """Have these programs and, where it can be had, Grafana; say which, and why they are no official releases."""
    missing = [suite for suite in suites if programs.got(suite) is None]
    titles = ", ".join(suite.title for suite in missing) or "nothing new"
    if grafana.is_to_be_tried():
        titles += ", Grafana" if missing else ": only Grafana"
    with step(f"Fetching programs: {titles}"):
        programs.get(*suites)
        grafana.get()
    for suite in missing:
        found = programs.got(suite)
        if found is not None and found.because:
            print(health.printable(f"  {suite.title} {found.version}, {found.source}: {found.because}"))


def _prometheus_version() -> str:
    found = programs.got(catalogue.PROMETHEUS)
    assert found is not None  # it runs
    return found.version


def _require_ports(plan: Plan) -> None:
    """Raise `StackError` unless the ports of the parts that don't run yet are free."""
    processes = supervision.processes() if supervision.is_running() else {}
    running = {name for name, process in processes.items() if process.state in {"starting", "running"}}
    patience = ORPHAN_SECONDS if supervision.left_without_stopping() else 0
    sockets.require_free([(part, plan.ports[part.name]) for part in plan.parts if part.name not in running], patience)


def _require_space(plan: Plan) -> None:
    """Raise `StackError` unless there is space for what is still to come, where it will be: data may be elsewhere."""
    needed = DATA_BYTES if python_packages.STACK.is_installed() else NEEDED_BYTES
    for folder, where, bytes_needed in (
        (CHECKOUT, "this checkout", needed),
        (_data(plan), _shown(_data(plan)), DATA_BYTES),
    ):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        if free < bytes_needed:
            raise StackError(
                f"only {free // 10**6} MB are free where {where} is, and {bytes_needed // 10**6} are needed"
            )


def _check_configuration(plan: Plan) -> None:
    """Raise `StackError` with the first complaint of the checkers that Prometheus, Alertmanager and Telegraf bring."""
    configuration.write()
    for program, command_line, running in (
        ("promtool", ["check", "config"], configuration.PROMETHEUS),
        ("amtool", ["check-config"], configuration.ALERTMANAGER),
    ):
        file = str(configuration.unchecked(running).relative_to(CHECKOUT))
        # As their own user, and from where they start: root could read more.
        unpacked = str(programs.path(program).relative_to(CHECKOUT))
        command = ["setpriv", *privileges.setpriv(), unpacked, *command_line, file]
        environment = privileges.environment(os.environ)
        check = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
        if check.returncode != 0:
            said = check.stderr if "FAILED:" in check.stderr else check.stdout
            if privileges.setpriv() and "permission denied" in (check.stdout + check.stderr).lower():
                raise StackError(
                    f"user nobody, which Prometheus and Alertmanager run as, can't read {file} and "
                    "what it names: chmod go+x . && chmod -R go+rX alerts docs local prometheus"
                )
            complaint = said.partition("FAILED:")[2].partition("FAILED:")[0] or said
            raise StackError(f"{configuration.origin(running)} is not valid: {' '.join(complaint.split())}")
    configuration.take()
    if TELEGRAF in plan.ready:
        telegraf.check()


def _settings(plan: Plan) -> dict[str, str]:
    """The environment in which supervisord reads supervisord.conf; a running stack with another one is out of date."""
    content = hashlib.sha256(SUPERVISORD_CONF.read_bytes() + python_packages.STACK.wanted().encode())
    for source in sorted(path for path in SOURCES.rglob("*") if path.suffix in {".o", ".py", ".yml"}):
        content.update(source.read_bytes())  # they run from the checkout, which may be a newer one now
    programs_got = [programs.got(suite) for suite in programs.SUITES if suite is not catalogue.TELEGRAF]
    content.update(repr((programs_got, catalogue.TELEGRAF)).encode())  # Telegraf comes and goes beside the rest
    return {
        **{part.port_variable: str(plan.ports[part.name]) for part in ALL_PARTS},
        **{
            part.privileges_variable: " ".join(privileges.setpriv(part.capabilities, part.groups)) for part in ALL_PARTS
        },
        **{part.arguments_variable: "" if plan.is_demo else configuration.arguments(part.name) for part in EXPORTERS},
        **demo.sources(plan.is_demo),
        "VIRTSCOPE_CONFIGURATION": content.hexdigest(),
        "GRAFANA_HOME": str(grafana.home() or ""),
        **grafana.environment(plan.ports),
        **plan.options,
    }


def _read_settings() -> dict[str, str]:
    settings: dict[str, str] = json.loads(SETTINGS_FILE.read_text())
    return settings


def _start(plan: Plan, settings: dict[str, str]) -> None:
    """Start all parts and wait until they work; if that fails, or is interrupted, none of them stays."""
    try:
        with step("Starting supervisord"):
            _require_ports(plan)  # again: downloads may have taken minutes
            if GRAFANA in plan.parts:
                grafana.make_password()
            supervision.RUN.mkdir(parents=True, exist_ok=True)
            SETTINGS_FILE.write_text(json.dumps(settings))
            failures.FILE.unlink(missing_ok=True)
            telegraf.keep_environment()
            _write_targets(plan)
            for part in (PROMETHEUS, ALERTMANAGER):
                privileges.hand_over(DATA / part.name)
            supervision.start(settings)
            for part in plan.parts:
                supervision.start_program(part.name)
        _wait(plan)
    except BaseException:
        _ignore_stop_signals()  # whatever failed, Ctrl-C must not leave half of it running
        supervision.stop()
        raise


def _refresh(plan: Plan) -> None:
    """Have a running stack read its files again; start what has given up, stop what is no longer wanted."""
    with step("Reading the configuration again"):
        running = supervision.processes()
        telegraf.keep_environment()
        _write_targets(plan)
        for part in PARTS:
            if part not in plan.parts:
                supervision.stop_program(part.name)
        for part in plan.parts:
            supervision.start_program(part.name)
        for part in (PROMETHEUS, ALERTMANAGER, TELEGRAF):
            if running[part.name].state == "running":  # else it has just been started, and knows no signals yet
                supervision.reload_program(part.name)
    if targets.edited_since(TARGETS_READ):
        with step("Waiting until Prometheus has taken up the edited targets"):
            time.sleep(DISCOVERY_SECONDS)
            health.wait_until_tried(plan.ports[PROMETHEUS.name])


def _write_targets(plan: Plan) -> None:
    """Have Prometheus scrape the parts that can answer; a Telegraf that is on its way adds itself when it can."""
    ready = plan.ready
    unknown = {TELEGRAF} & (set(plan.parts) - set(ready))
    jobs = {job: part for job, part in targets.JOBS.items() if part not in unknown}
    targets.write(plan.machine, {part.name: plan.ports[part.name] for part in ready}, jobs=jobs)


def _wait(plan: Plan) -> None:
    pids = {}
    for part in plan.ready:
        with step(f"Waiting until {part.name} is ready"):
            pids[part] = health.wait_until_healthy(part, plan.ports[part.name])
    with step("Waiting until Prometheus has scraped all of them"):  # but a Telegraf that has come since
        health.wait_until_scraped([part for part in pids if part is not GRAFANA], plan.ports)
    # By now, one that starts slowly and finds another program at its port has ended, and may have been started again.
    for part, pid in pids.items():
        if health.wait_until_healthy(part, plan.ports[part.name]) != pid:
            raise health.PartFailedError(part, f"{part.name} ended right after its start")


def _describe(plan: Plan) -> None:
    """Say what is watched, and where to look."""
    machine = plan.machine
    print(f"\nWatching this machine, {machine.host}, as platform {machine.platform} ({machine.why}).")
    own = {f"127.0.0.1:{port}" for port in plan.ports.values()}
    found = health.targets(plan.ports[PROMETHEUS.name])
    for target in found:
        if target.address not in own:
            print(f"Watching {target.host}, {target.job} at {target.address}: {target.health}.")
    for problem in filter(None, [_not_stored(plan, found), *_oversights(plan, found)]):
        print(f"But {health.printable(problem)}")
    for problem in _without_data(plan, plan.parts):
        print(f"But {problem}")
    if health.is_refused(plan.ports[PERF_EXPORTER.name]):
        print("But perf-exporter counts nothing: run this as root, or set kernel.perf_event_paranoid to 0.")
    for missing in _unavailable(plan, plan.parts):
        print(f"But {health.printable(missing)}")
    _print_addresses(plan, plan.ready)
    print("\nmake status, make logs, make down. To watch more hosts: docs/watched-hosts.md")
    if machine.platform == "base":
        print("No hypervisor here? To see simulated hosts with one: make down, then make demo")


def _describe_demo(plan: Plan) -> None:
    """Say that nothing of it is measured, and where to look."""
    print(
        "\nThis is the demo. All data is simulated (docs/demo.md). Three hosts, demo-xen, demo-openvz and demo-base,"
        "\nrun one, two and four applications of 500 to 800 clients, as in a study. On a fourth one, demo-kvm, a shop"
        "\nwaits for a batch job, and for its own cap. The hour repeats."
    )
    _print_addresses(plan, [part for part in plan.parts if part in {PROMETHEUS, GRAFANA}])
    print("\nmake status, make logs, make down. To watch this machine instead: make up")


def _print_addresses(plan: Plan, parts: Sequence[Part]) -> None:
    """Where these parts answer, and why others don't; without Grafana the page of all hosts comes first."""
    login = f"  (user admin, password in {grafana.PASSWORD_FILE.relative_to(CHECKOUT)})"
    addresses = [
        (part.name, f"http://127.0.0.1:{plan.ports[part.name]}{login if part is GRAFANA else ''}") for part in parts
    ]
    if TELEGRAF in plan.parts and TELEGRAF not in plan.ready:
        addresses.append(
            (TELEGRAF.name, f"is on its way, once: a download, or a build of {telegraf.BUILD_TIME}; then it starts")
        )
    overview = ("overview", f"http://127.0.0.1:{plan.ports[PROMETHEUS.name]}{OVERVIEW}")
    if GRAFANA in plan.parts:
        addresses.append(overview)
    else:
        addresses = [overview, *addresses, (GRAFANA.name, grafana.why_missing())]
    print()
    print_table(addresses)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; what a cell holds moves no cursor, and each row is a line."""
    cells = [[health.printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextlib.contextmanager
def alone(run: Path | None = None, commands: str = "`make up` or `make down`") -> Iterator[None]:
    """One of the commands that start and stop what is in the folder `run`, the stack's if none is given, at a time."""
    run = run or supervision.RUN
    run.mkdir(parents=True, exist_ok=True)
    with (run / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"another {commands} is running in this checkout: wait for it") from None
        yield


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Show what is being done and how long it took."""
    print(f"{what} ...", end=" ", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - start:.1f} s", flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Whatever the signal, end as by Ctrl-C; only once, since make passes on a SIGTERM that we may have got already."""
    _ignore_stop_signals()
    raise KeyboardInterrupt


def _ignore_stop_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _log_end(file: Path) -> str:
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    last = [f"  {_log_line(line)}" for line in lines[-LOG_LINES:]]
    return "\n".join([f"The last lines of {file.relative_to(CHECKOUT)}:", *last])


def _what_to_do(log_end: str) -> str:
    """Where a program says what is wrong, and not how it is put right."""
    damaged = re.findall(r"opening storage failed: (\.stack/data/\S+?):", log_end)
    if not damaged:
        return ""
    return (
        f"Prometheus's data is damaged: move {damaged[-1]} elsewhere, then: make up. What was in this file alone is "
        "lost; what is in chunks_head/ is in wal/ too."
    )


def _log_line(line: str) -> str:
    return health.printable(line.rstrip("\n").expandtabs())


def _say(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):  # who reads has enough: make status | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left would raise again at exit
    else:
        print(f"error: {health.printable(str(error))}", file=sys.stderr)


def main() -> int:
    """Exit status: 0 if it was done (for status: if all is well), 1 if not, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.stack", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the stack, or bring a running one up to date")
    commands.add_parser("demo", help="start simulated hosts instead of the stack")
    commands.add_parser("down", help="stop it; data is kept")
    commands.add_parser("status", help="show every part and target")
    log_parser = commands.add_parser("logs", help="show the last lines of the logs")
    log_parser.add_argument("name", nargs="?", help="a part, as in status")
    log_parser.add_argument("--follow", action="store_true", help="follow new lines")
    arguments = parser.parse_args()

    os.umask(0o022)  # the parts may be other users'; what is secret gets a mode of its own
    # Stopped by whatever means, `up` takes back what it has started.
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    try:
        match arguments.command:
            case "up":
                up()
            case "demo":
                play()
            case "down":
                down()
            case "status":
                well = status()
                sys.stdout.flush()
                return 0 if well else 1
            case "logs":
                logs(arguments.name, follow=arguments.follow)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except (StackError, ProgramsError) as error:
        print(f"error: {health.printable(str(error))}", file=sys.stderr)
        if isinstance(error, health.PartFailedError):
            end = _log_end(supervision.LOG / f"{error.part.name}.log")
            print("\n".join(filter(None, [end, _what_to_do(end)])), file=sys.stderr)
        return 1
    except PermissionError as error:
        print(
            f"error: {error.filename or supervision.STACK.socket} belongs to another user: run this as that user",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        _say(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
