"""What is to run on this machine: which parts, on which ports, with which settings."""

from __future__ import annotations

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
    """The parts that are to run on this machine, and the port of each part there is, by its name."""

    machine: Machine
    parts: tuple[Part, ...]
    ports: dict[str, int]
    options: dict[str, str]
    is_demo: bool = False

    @property
    def data(self) -> Path:
        """The folder in which Prometheus keeps its samples."""
        return demo.FOLDER / "data" if self.is_demo else DATA / PROMETHEUS.name


def plan(settings: Mapping[str, str]) -> Plan:
    """What to run on this machine, on the ports that the settings say."""
    machine, chosen, is_demo = targets.this_machine(), ports(settings, ALL_PARTS), bool(settings.get(demo.SETTING))
    missing = set() if grafana.home() else {GRAFANA}
    if not is_demo:
        missing |= {TELEGRAF} if telegraf.is_missing() or not telegraf.is_wanted() else set()
        missing |= {part for part in PARTS if part.platform not in {None, machine.platform}}
    parts = tuple(part for part in (DEMO_PARTS if is_demo else PARTS) if part not in missing)
    return Plan(machine, parts, chosen, options(settings, chosen), is_demo)


def running_settings() -> dict[str, str]:
    """The settings that the stack was started with last; OSError if it never was."""
    settings: dict[str, str] = json.loads(SETTINGS_FILE.read_text())
    return settings


def running_plan() -> Plan:
    """What the stack was started with last."""
    return plan(running_settings())


def ports_in_use() -> dict[str, int]:
    """Port of each part by its name, as the stack was last started with here; else as it would be."""
    return ports(running_settings() if SETTINGS_FILE.exists() else os.environ)


def settings_of(wanted: Plan) -> dict[str, str]:
    """The environment in which supervisord reads supervisord.conf; a running stack with another one is out of date."""
    content = hashlib.sha256(SUPERVISORD_CONF.read_bytes() + python_packages.STACK.wanted().encode())
    for source in sorted(path for path in _SOURCES.rglob("*") if path.suffix in {".o", ".py", ".yml"}):
        content.update(source.read_bytes())  # they run from the checkout, which may be a newer one now
    # Telegraf comes and goes beside the rest.
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
