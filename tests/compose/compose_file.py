"""compose.yaml, and the lab's, as parsed by docker-compose."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy import StackError, compose
from tests.support.needs import missing

CHECKOUT = Path(__file__).resolve().parents[2]
PATH = CHECKOUT / "compose.yaml"
LAB = CHECKOUT / "lab" / "compose.yaml"


def services(variables: Mapping[str, str], *paths: Path) -> dict[str, dict[str, Any]]:
    """All services of compose.yaml, or of these files merged, of every profile. Variables, anchors and relative paths
    are filled in."""
    files = [f"--file={path}" for path in paths or [PATH]]
    environment = {**os.environ, **variables, "COMPOSE_PROFILES": compose.PROFILES}
    asked = [*command(), *files, "config"]
    result = subprocess.run(asked, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    found: dict[str, dict[str, Any]] = yaml.safe_load(result.stdout)["services"]
    return found


def command() -> list[str]:
    """The command that reads compose files, which needs no running engine. Skips if it isn't installed."""
    try:
        return compose.command()
    except StackError:
        missing("neither `docker compose` nor `docker-compose` is here: apt-get install docker-compose")
