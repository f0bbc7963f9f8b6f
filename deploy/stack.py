"""Start, show and stop the stack on this machine, without Docker.

    python3 -m deploy.stack up | demo | down | status | logs [NAME] [--follow]

It writes only to this checkout: .stack/, prometheus/targets/local/, running.yml in prometheus/ and alerts/, and local/.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from deploy import (
    StackError,
    configuration,
    demo,
    failures,
    grafana,
    health,
    privileges,
    programs,
    python_packages,
    sockets,
    status,
    stored_data,
    supervision,
    targets,
    telegraf,
)
from deploy.interruption import interruptible, uninterruptible
from deploy.parts import ALERTMANAGER, GRAFANA, PARTS, PROMETHEUS, TELEGRAF, Part, kept
from deploy.plan import DATA, SETTINGS_FILE, Plan, plan, running_plan, running_settings, settings_of
from deploy.programs import CHECKOUT, catalogue
from deploy.programs.catalogue import Suite
from deploy.terminal import alone, printable, step

NEEDED_BYTES = 10**9  # at first; DATA_BYTES once programs and packages are installed
DATA_BYTES = 5 * 10**8
DISCOVERY_SECONDS = 11  # Prometheus publishes discovered targets every 5 s, and applies them every 5 s
TARGETS_READ = supervision.RUN / "targets-read"  # as old as the last `make up`
ORPHAN_SECONDS = 15  # for programs to end after their supervisord was killed
LOG_LINES = 10
COMMANDS = "`make up` or `make down`"


def up() -> None:
    """Start the stack, or bring a running one up to date, and return once all parts work."""
    with alone(supervision.RUN, COMMANDS):
        running = running_settings() if supervision.is_running() else None
        settings = {**kept(running or {}), **_given(), demo.SETTING: ""}
        with step("Looking at this machine"):
            _require_machine(plan(settings), is_running=running is not None)
        _get_programs(catalogue.PROMETHEUS, catalogue.ALERTMANAGER, catalogue.NODE_EXPORTER, wants_sensors=True)
        stored_data.require_readable(_prometheus_version())
        wanted = plan(settings)  # with Grafana and Telegraf, if just installed
        with step("Installing Python packages (.stack/venv)"):
            python_packages.STACK.install()
        with step("Checking the configuration"):
            _check_configuration(wanted)
        if running == settings_of(wanted):
            _refresh(wanted)
            _wait(wanted)
            print("\nThe stack was running already; its configuration was reloaded.")
        else:
            if running is not None:
                with step("Stopping the running stack: its programs or ports are not the ones wanted now"):
                    supervision.stop()
            _start(wanted)
            stored_data.written_by(_prometheus_version())
        status.describe(wanted)
        TARGETS_READ.touch()


def play() -> None:
    """Start the demo instead of the stack, with a day of history, and return once all parts work."""
    with alone(supervision.RUN, COMMANDS):
        if supervision.is_running() and not running_plan().is_demo:
            raise StackError("the stack is running on the demo's ports: make down first")
        settings = {**_given(), demo.SETTING: "1"}
        with step("Looking at this machine"):
            supervision.stop()  # a demo starts over
            _require_machine(plan(settings), is_running=False)
        _get_programs(catalogue.PROMETHEUS)
        wanted = plan(settings)
        with step("Installing Python packages (.stack/venv)"):
            python_packages.STACK.install()
        with step("Making a day of history"):
            demo.prepare(wanted.ports)
        _start(wanted)
        status.describe_demo(wanted)


def down() -> None:
    """Stop all that `up` started. Recorded data stays in .stack/data."""
    with alone(supervision.RUN, COMMANDS):
        if not supervision.is_running():
            supervision.stop()
            print("The stack is not running.")
            return
        with step("Stopping the stack"):
            supervision.stop()
    print("The data is kept in .stack/data. Start again with: make up")


def start_again() -> None:
    """Restart the stack or demo after supervisord was killed, unless another process does, or has stopped it."""
    with alone(supervision.RUN, COMMANDS):
        if supervision.was_killed():
            _require_ports(running_plan())
            supervision.start(running_settings())
            for part in running_plan().parts:
                supervision.start_program(part.name)


def logs(name: str | None, *, follow: bool) -> None:
    """Show the last lines of one part's log, or of all; with `follow`, new lines until interrupted."""
    there = sorted(supervision.LOG.glob("*.log"))
    chosen = [file for file in there if name in {None, file.stem}]
    if not chosen:
        names = ", ".join(file.stem for file in there) or "none before the first `make up`"
        raise StackError(f"no such log; choose from: {names}")
    command = ["tail", "--lines=20", *(["-F"] if follow else []), *map(str, chosen)]
    # Logs may contain data from clients.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as tail:
        assert tail.stdout
        for line in tail.stdout:
            print(_log_line(line), flush=True)


def _given() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if value}


def _require_machine(wanted: Plan, *, is_running: bool) -> None:
    """Raise `StackError` if this user, this machine or its ports are unsuitable."""
    for part in wanted.parts:
        if part.platform and part.capabilities and os.geteuid() != 0 and not wanted.is_demo:
            raise StackError(f"only root may start {part.name}, and this is {wanted.machine.why}: use sudo")
    _require_ports(wanted)
    if not is_running:
        supervision.require_short_path()
        _require_space(wanted)
    python_packages.STACK.require_venv()


def _require_ports(wanted: Plan) -> None:
    """Raise `StackError` unless the ports of parts that don't run yet are free."""
    processes = supervision.processes() if supervision.is_running() else {}
    running = {name for name, process in processes.items() if process.state in {"starting", "running"}}
    patience = ORPHAN_SECONDS if supervision.was_killed() else 0
    sockets.require_free(
        [(part, wanted.ports[part.name]) for part in wanted.parts if part.name not in running], patience
    )


def _require_space(wanted: Plan) -> None:
    """Raise `StackError` without enough space for downloads and data, which may be on another disk."""
    needed = DATA_BYTES if python_packages.STACK.is_installed() else NEEDED_BYTES
    for folder, where, bytes_needed in (
        (CHECKOUT, "this checkout", needed),
        (wanted.data, status.shown(wanted.data), DATA_BYTES),
    ):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        if free < bytes_needed:
            raise StackError(
                f"only {free // 10**6} MB are free where {where} is, and {bytes_needed // 10**6} are needed"
            )


def _get_programs(*suites: Suite, wants_sensors: bool = False) -> None:
    """Get these programs and, if available, Grafana and Telegraf; print why they aren't official releases."""
    missing = [suite for suite in suites if programs.got(suite) is None]
    titles = ", ".join(suite.title for suite in missing) or "nothing new"
    if grafana.is_to_be_tried():
        titles += ", Grafana" if missing else ": only Grafana"
    if wants_sensors and telegraf.is_missing():
        titles += f", Telegraf, which may take a build of {telegraf.BUILD_TIME}, once"
    with step(f"Fetching programs: {titles}"):
        programs.get(*suites)
        grafana.get()
        if wants_sensors:
            telegraf.get()
    for suite in missing:
        found = programs.got(suite)
        if found is not None and found.because:
            print(printable(f"  {suite.title} {found.version}, {found.source}: {found.because}"))


def _prometheus_version() -> str:
    found = programs.got(catalogue.PROMETHEUS)
    assert found is not None  # it is running
    return found.version


def _check_configuration(wanted: Plan) -> None:
    """Raise `StackError` with the first error of Prometheus's, Alertmanager's and Telegraf's own checkers."""
    configuration.write()
    for program, check, running in (
        ("promtool", ["check", "config"], configuration.PROMETHEUS),
        ("amtool", ["check-config"], configuration.ALERTMANAGER),
    ):
        # As their own user, and from their working directory: root could read more.
        unpacked, file = (
            str(path.relative_to(CHECKOUT)) for path in (programs.path(program), configuration.unchecked(running))
        )
        checked = subprocess.run(
            ["setpriv", *privileges.setpriv(), unpacked, *check, file],
            cwd=CHECKOUT, env=privileges.environment(os.environ), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if checked.returncode != 0:
            if privileges.setpriv() and "permission denied" in (checked.stdout + checked.stderr).lower():
                origin = configuration.origin(running)
                raise StackError(
                    f"user nobody, which Prometheus and Alertmanager run as, can't read {origin} and what it names: "
                    "chmod go+x . && chmod -R go+rX alerts docs local prometheus"
                )
            said = checked.stderr if "FAILED:" in checked.stderr else checked.stdout
            complaint = said.partition("FAILED:")[2].partition("FAILED:")[0] or said
            if configuration.local_file(running).exists() and "SD file" not in complaint:
                complaint = re.sub(r"\bline \d+: ", "", complaint)  # of the merged file
            raise StackError(f"{configuration.origin(running)} is not valid: {' '.join(complaint.split())}")
    configuration.take()
    if TELEGRAF in wanted.parts:
        (DATA / TELEGRAF.name).mkdir(parents=True, exist_ok=True)
        privileges.hand_over(DATA / TELEGRAF.name)
        telegraf.check()


def _start(wanted: Plan) -> None:
    """Start all parts and wait until they work; stop all if that fails or is interrupted."""
    try:
        with step("Starting supervisord"):
            _require_ports(wanted)  # again: downloads may have taken minutes
            if GRAFANA in wanted.parts:
                grafana.make_password()
            supervision.RUN.mkdir(parents=True, exist_ok=True)
            settings = settings_of(wanted)
            SETTINGS_FILE.write_text(json.dumps(settings))
            failures.FILE.unlink(missing_ok=True)
            _write_targets(wanted)
            for part in (PROMETHEUS, ALERTMANAGER):
                privileges.hand_over(DATA / part.name)
            supervision.start(settings)
            for part in wanted.parts:
                supervision.start_program(part.name)
        _wait(wanted)
    except BaseException:
        uninterruptible()  # Ctrl-C must not leave half of the parts running
        supervision.stop()
        raise


def _refresh(wanted: Plan) -> None:
    """Reload a running stack's files; start parts that supervisord has given up, stop unwanted parts."""
    with step("Reading the configuration again"):
        running = supervision.processes()
        _write_targets(wanted)
        for part in PARTS:
            if part not in wanted.parts:
                supervision.stop_program(part.name)
        for part in wanted.parts:
            supervision.start_program(part.name)
        for part in (PROMETHEUS, ALERTMANAGER, TELEGRAF):
            if running[part.name].state == "running":  # otherwise just started, and may not handle signals yet
                supervision.reload_program(part.name)
    if targets.edited_since(TARGETS_READ):
        with step("Waiting until Prometheus has taken up the edited targets"):
            time.sleep(DISCOVERY_SECONDS)
            health.wait_until_tried(wanted.ports[PROMETHEUS.name])


def _write_targets(wanted: Plan) -> None:
    targets.write(wanted.machine, {part.name: wanted.ports[part.name] for part in wanted.parts})


def _wait(wanted: Plan) -> None:
    pids = dict[Part, int]()
    for part in wanted.parts:
        with step(f"Waiting until {part.name} is ready"):
            pids[part] = health.wait_until_healthy(part, wanted.ports[part.name])
    with step("Waiting until Prometheus has scraped all of them"):
        health.wait_until_scraped([part for part in pids if part is not GRAFANA], wanted.ports)
    # By now, a slow starter with another program on its port has ended, and may have been restarted.
    for part, pid in pids.items():
        if health.wait_until_healthy(part, wanted.ports[part.name]) != pid:
            raise health.PartFailedError(part, f"{part.name} ended right after its start")


def _log_line(line: str) -> str:
    return printable(line.rstrip("\n").expandtabs())


def _log_end(file: Path) -> str:
    """The last lines of a log, with the remedy for known errors."""
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    last = [f"  {_log_line(line)}" for line in lines[-LOG_LINES:]]
    said = "\n".join([f"The last lines of {file.relative_to(CHECKOUT)}:", *last])
    if damaged := re.findall(r"opening storage failed: (\.stack/data/\S+?):", said):
        said += (
            f"\nPrometheus's data is damaged: move {damaged[-1]} elsewhere, then: make up. What was in this file alone "
            "is lost; what is in chunks_head/ is in wal/ too."
        )
    return said


def main() -> int:
    """Return the exit status: 0 on success (for status: if all is well), 1 on failure, 130 if interrupted."""
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

    os.umask(0o022)  # parts may run as other users; secret files get their own mode
    interruptible()  # `up` then stops the parts that it has started
    try:
        configuration.add_settings(os.environ)
        match arguments.command:
            case "logs":
                logs(arguments.name, follow=arguments.follow)
            case "status":
                well = status.status()
                sys.stdout.flush()
                return 0 if well else 1
            case command:
                {"up": up, "demo": play, "down": down}[command]()
        return 0
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has ended: make status | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushing would raise again at exit
    except PermissionError as error:
        whose = error.filename or supervision.STACK.socket
        print(f"error: {whose} belongs to another user: run this as that user", file=sys.stderr)
    except (StackError, OSError) as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        if isinstance(error, health.PartFailedError):
            print(_log_end(supervision.LOG / f"{error.part.name}.log"), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
