"""The plan for this machine: parts, ports and settings."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import configuration, demo, grafana, privileges, programs, python_packages, supervision, targets, telegraf
from deploy.parts import DEMO_PARTS, DEMO_SENSORS, EXPORTERS, GRAFANA, PARTS, PROMETHEUS, TELEGRAF, Part, options, ports
from deploy.programs import CHECKOUT, catalogue
from deploy.targets import Machine

SUPERVISORD_CONF = CHECKOUT / "deploy" / "supervisord.conf"
DATA = CHECKOUT / ".stack" / "data"
SETTINGS_FILE = supervision.RUN / "settings.json"
ALL_PARTS = (*PARTS, DEMO_SENSORS)
_SOURCES = CHECKOUT / "exporters" / "virtscope"


@dataclass(frozen=True)
class Plan:
    """The parts for this machine, and the ports of all parts, by name."""

    machine: Machine
    parts: tuple[Part, ...]
    ports: dict[str, int]
    options: dict[str, str]
    is_demo: bool = False

    @property
    def data(self) -> Path:
        """Prometheus's data folder."""
        return demo.FOLDER / "data" if self.is_demo else DATA / PROMETHEUS.name


def plan(settings: Mapping[str, str]) -> Plan:
    """The plan for this machine, with ports from the settings."""
    machine, chosen, is_demo = targets.this_machine(), ports(settings, ALL_PARTS), bool(settings.get(demo.SETTING))
    missing = set() if grafana.home() else {GRAFANA}
    if not is_demo:
        missing |= {TELEGRAF} if telegraf.is_missing() or not telegraf.is_wanted() else set()
        missing |= {part for part in PARTS if part.platform not in {None, machine.platform}}
    parts = tuple(part for part in (DEMO_PARTS if is_demo else PARTS) if part not in missing)
    return Plan(machine, parts, chosen, options(settings, chosen), is_demo)


def running_settings() -> dict[str, str]:
    """The settings of the stack's last start; OSError if it was never started."""
    settings: dict[str, str] = json.loads(SETTINGS_FILE.read_text())
    return settings


def running_plan() -> Plan:
    """The plan of the stack's last start."""
    return plan(running_settings())


def ports_in_use() -> dict[str, int]:
    """Port of each part by name, from the stack's last start, or else for the next one."""
    return ports(running_settings() if SETTINGS_FILE.exists() else os.environ)


def settings_of(wanted: Plan) -> dict[str, str]:
    """The environment for supervisord.conf; a running stack with another environment is out of date."""
    content = hashlib.sha256(SUPERVISORD_CONF.read_bytes() + python_packages.STACK.wanted().encode())
    for source in sorted(path for path in _SOURCES.rglob("*") if path.suffix in {".o", ".py", ".yml"}):
        content.update(source.read_bytes())  # they run from the checkout, which may have been updated
    # Telegraf may come and go without a restart of the others.
    content.update(repr([programs.got(suite) for suite in programs.SUITES if suite is not catalogue.TELEGRAF]).encode())
    found = {part.port_variable: str(wanted.ports[part.name]) for part in ALL_PARTS}
    for part in ALL_PARTS:
        found[part.privileges_variable] = " ".join(privileges.setpriv(part.capabilities, part.groups))
    for part in EXPORTERS:
        found[part.arguments_variable] = "" if wanted.is_demo else configuration.arguments(part.name)
    return {
        **found,
        **demo.sources(wanted.is_demo),
        "VIRTSCOPE_CONFIGURATION": content.hexdigest(),
        "GRAFANA_HOME": str(grafana.home() or ""),
        **grafana.environment(wanted.ports),
        **wanted.options,
    }
