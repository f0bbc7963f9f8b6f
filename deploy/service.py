"""A systemd unit that starts the stack at boot.

    python3 -m deploy.service install | remove

root gets a system unit, other users a user unit. The unit keeps the settings that were passed (PROMETHEUS_PORT and
others, deploy/parts.py); pass all of them again to change one.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy import StackError, parts, supervision
from deploy.programs import CHECKOUT

NAME = "virtscope.service"
# Type=forking: `up` returns once everything works, and leaves supervisord. A first start may build programs.
_UNIT = """\
[Unit]
Description=virtscope: Prometheus, Alertmanager, Grafana and exporters
Wants=network-online.target
After=network-online.target

[Service]
Type=forking
PIDFile={pid_file}
WorkingDirectory={checkout}
{environment}ExecStart={python} -m deploy.stack up
ExecReload={python} -m deploy.stack up
ExecStop={python} -m deploy.stack down
Restart=on-failure
RestartSec=30s
TimeoutStartSec=1h
TimeoutStopSec=2min

[Install]
WantedBy={target}
"""


def unit(settings: Mapping[str, str], *, system: bool) -> str:
    """The unit's text (systemd.service(5)), including `settings`."""
    return _UNIT.format(
        # In a value up to the end of the line, only specifiers have a meaning.
        checkout=str(CHECKOUT).replace("%", "%%"),
        pid_file=str(supervision.STACK.pid_file).replace("%", "%%"),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in settings.items()),
        python=_quoted(sys.executable),
        target="multi-user.target" if system else "default.target",
    )


def _quoted(word: str) -> str:
    """Quote a word of a command line or an assignment for systemd."""
    escaped = re.sub(r'[\\"]', r"\\\g<0>", word).replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def install(environment: Mapping[str, str], *, system: bool, folder: Path) -> None:
    """Write the unit and start it, now and at each boot; raises StackError if systemd doesn't run."""
    _require_systemd()
    settings = {name: environment[name] for name in parts.SETTINGS if environment.get(name)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(unit(settings, system=system))
    _systemctl("daemon-reload", system=system)
    _systemctl("enable", "--now", NAME, system=system)
    print(f"Started, now and at each boot: {folder / NAME}")
    if not system:
        print("Without a login it runs only if you may linger: loginctl enable-linger")


def remove(*, system: bool, folder: Path) -> None:
    """Stop the stack and remove its unit; data stays in .stack/data."""
    _require_systemd()
    if not (folder / NAME).exists():
        raise StackError(f"there is no {folder / NAME}")
    _systemctl("disable", "--now", NAME, system=system)
    (folder / NAME).unlink()
    _systemctl("daemon-reload", system=system)
    print(f"Stopped, and removed {folder / NAME}. The data is kept in .stack/data.")


def _require_systemd() -> None:
    if not Path("/run/systemd/system").exists():
        raise StackError("systemd doesn't run here: start the stack with make up")


def _systemctl(*arguments: str, system: bool) -> None:
    """Run systemctl, with its output shown; raises StackError if it fails."""
    command = ["systemctl", *([] if system else ["--user"]), *arguments]
    if subprocess.run(command, check=False).returncode != 0:
        raise StackError(f"{' '.join(command)} failed; journalctl -u {NAME} says why")


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.service", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["install", "remove"])
    command = parser.parse_args().command
    system = os.geteuid() == 0
    folder = Path("/etc/systemd/system") if system else Path.home() / ".config" / "systemd" / "user"
    try:
        if command == "install":
            install(os.environ, system=system, folder=folder)
        else:
            remove(system=system, folder=folder)
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
