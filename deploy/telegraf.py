"""The stack's Telegraf: wanted once a sensor is there, fetched once, beside the running stack, and then run.

    python -m deploy.telegraf [OPTION OF SETPRIV]...

is what supervisord runs, with the rights that `make up` has: it downloads Telegraf if that is missing, or builds it
where its release can't be had, and becomes it with the rights that the options leave.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import NoReturn

from deploy import StackError, go_programs, privileges, programs, supervision, targets
from deploy.parts import TELEGRAF, ports
from deploy.programs import CHECKOUT, NoWayError, ProgramsError, catalogue

BUILD_TIME = go_programs.PROGRAMS["telegraf"].module.build_time
CONFIGURATION = CHECKOUT / "telegraf"
SENSORS = CONFIGURATION / "local"
OTHER_PLUGINS = "for others, `make tools-update` where its release can be downloaded"
HOW_TO_USE_IT = "no sensor in telegraf/local: see docs/sensors.md"
PROGRAM = programs.BIN / "telegraf"
STATE = CHECKOUT / ".stack" / "data" / "telegraf"  # how far the sensors have read each log
GETTING = "getting Telegraf"
ENVIRONMENT = supervision.RUN / "download-environment.json"
NOT_GOT = 69  # exit status (EX_UNAVAILABLE of sysexits.h) after which supervisord does not try again


def is_wanted() -> bool:
    """Whether there is a sensor for it to run."""
    return any(SENSORS.glob("*.conf"))


def is_ready() -> bool:
    """Whether it is there to be run."""
    return programs.got(catalogue.TELEGRAF) is not None


def take_if_near() -> None:
    """Take it from the cache if it is there, so that it needn't be waited for."""
    if programs.is_near(catalogue.TELEGRAF):
        programs.get(catalogue.TELEGRAF)


def keep_environment() -> None:
    """Keep what `make up` has in its environment for a download or build beside the stack: proxies, mirrors, caches.

    The stack's programs get next to nothing of it, and nobody can read the file.
    """
    ENVIRONMENT.unlink(missing_ok=True)
    if is_wanted() and not is_ready():
        ENVIRONMENT.touch(0o600)
        ENVIRONMENT.write_text(json.dumps(dict(os.environ)))


def why_missing() -> str:
    """What the last try to get it ended with, by its log."""
    log = supervision.LOG / f"{TELEGRAF.name}.log"
    last_try = log.read_text(errors="replace").rpartition(GETTING)[2] if log.exists() else ""
    complaint = re.search(r"^error: (.*)", last_try, re.MULTILINE)
    return complaint[1] if complaint else "it was interrupted"


def check() -> None:
    """Raise `StackError` with Telegraf's first complaint about its configuration."""
    command = ["setpriv", *privileges.setpriv(groups=TELEGRAF.groups), *_command("config", "check")]
    checked = subprocess.run(
        command, cwd=CHECKOUT, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if checked.returncode:
        complaints = re.findall(r" E! (.*)", checked.stderr) or [f"it ended with status {checked.returncode}"]
        hint = ""
        if "undefined but requested" in complaints[0]:
            hint = f"; a Telegraf built here has only the plugins that telegraf/sensors use: {OTHER_PLUGINS}"
        elif "permission denied" in complaints[0]:
            hint = f"; {'user nobody' if os.getuid() == 0 else 'you'} must be able to read it: chmod -R go+rX telegraf"
        raise StackError(f"Telegraf says: {complaints[0]}{hint}")


def run(setpriv_options: list[str]) -> NoReturn:
    """Get Telegraf if it is missing, and become it; end with `NOT_GOT` if it can't be had."""
    # What asks Telegraf to read its configuration again comes too early: it is going to read it anyway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # a build ends with us
    machine, job = targets.this_machine(), {"telegraf": TELEGRAF}
    try:
        if not is_ready():
            targets.write(machine, {}, jobs=job)  # it can't be scraped before
            print(f"{GETTING}: by download, or a build of {BUILD_TIME}", flush=True)
            if ENVIRONMENT.exists():
                for name, value in json.loads(ENVIRONMENT.read_text()).items():
                    os.environ.setdefault(name, value)
        programs.get(catalogue.TELEGRAF)
    except (ProgramsError, OSError) as error:
        print(f"error: {error.why if isinstance(error, NoWayError) else error}", flush=True)
        sys.exit(NOT_GOT)
    STATE.mkdir(parents=True, exist_ok=True)
    privileges.hand_over(STATE)
    targets.write(machine, ports(os.environ), jobs=job)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)  # what is ignored stays so in the program that we become
    command = ["setpriv", "--pdeathsig", "TERM", *setpriv_options, *_command()]
    os.execvpe(command[0], command, _environment())


def _command(*subcommand: str) -> list[str]:
    relative = {path: str(path.relative_to(CHECKOUT)) for path in (PROGRAM, CONFIGURATION, SENSORS)}
    configuration = ["--config", f"{relative[CONFIGURATION]}/telegraf.conf", "--config-directory", relative[SENSORS]]
    return [relative[PROGRAM], *subcommand, *configuration]


def _environment() -> dict[str, str]:
    """Environment of the sensors: relative paths, since the folders above the checkout may be closed to nobody."""
    return {
        **privileges.environment(os.environ),
        TELEGRAF.port_variable: os.environ.get(TELEGRAF.port_variable) or str(TELEGRAF.default_port),
        "TELEGRAF_FOLDER": str(CONFIGURATION.relative_to(CHECKOUT)),
        "STATE_DIRECTORY": str(STATE.relative_to(CHECKOUT)),
    }


if __name__ == "__main__":
    run(sys.argv[1:])
