"""The stack's Telegraf: needed for sensors, downloaded or built, which takes minutes."""

import os
import re
import subprocess

from deploy import StackError, go_programs, privileges, programs
from deploy.parts import TELEGRAF
from deploy.programs import CHECKOUT, catalogue

BUILD_TIME = go_programs.PROGRAMS["telegraf"].module.build_time
SENSORS = CHECKOUT / "telegraf" / "local"
HOW_TO_USE_IT = "no sensor in telegraf/local: see docs/sensors.md"


def is_wanted() -> bool:
    """Whether a sensor is configured."""
    return any(SENSORS.glob("*.conf"))


def is_missing() -> bool:
    """Whether it is wanted, but not installed."""
    return is_wanted() and programs.got(catalogue.TELEGRAF) is None


def get() -> None:
    """Get it if wanted; the stack works without."""
    if is_missing():
        programs.get_if_possible(catalogue.TELEGRAF)


def why_missing() -> str:
    """The reason of the last failure."""
    return f"{programs.why_missing(catalogue.TELEGRAF)}; to try again: make up"


def check() -> None:
    """Raise `StackError` with Telegraf's first error in its configuration."""
    command = ["setpriv", *privileges.setpriv(groups=TELEGRAF.groups), ".stack/bin/telegraf", "config", "check"]
    command += ["--config", "telegraf/telegraf.conf", "--config-directory", "telegraf/local"]
    environment = {**privileges.environment(os.environ), "TELEGRAF_FOLDER": "telegraf"}
    environment["STATE_DIRECTORY"] = ".stack/data/telegraf"
    checked = subprocess.run(
        command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if checked.returncode:
        complaints = re.findall(r" E! (.*)", checked.stderr) or [f"it ended with status {checked.returncode}"]
        hint = ""
        if "undefined but requested" in complaints[0]:
            hint = (
                "; a Telegraf built here has only the plugins that telegraf/sensors use: for others, "
                "`make tools-update` where its release can be downloaded"
            )
        elif "permission denied" in complaints[0]:
            hint = f"; {'user nobody' if os.getuid() == 0 else 'you'} must be able to read it: chmod -R go+rX telegraf"
        raise StackError(f"Telegraf says: {complaints[0]}{hint}")
