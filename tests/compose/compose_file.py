"""compose.yaml, and the lab's, as Docker's own tools read them, and the engine that runs them where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import StackError, compose

CHECKOUT = Path(__file__).resolve().parents[2]
PATH = CHECKOUT / "compose.yaml"
LAB = CHECKOUT / "lab" / "compose.yaml"


def services(variables: Mapping[str, str], path: Path = PATH) -> dict[str, dict[str, Any]]:
    """All services, those of every profile too, with variables, anchors and relative paths filled in."""
    result = subprocess.run(
        [*command(), "--file", path, "config"],
        env={**os.environ, **variables, "COMPOSE_PROFILES": compose.PROFILES},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, dict[str, Any]] = yaml.safe_load(result.stdout)["services"]
    return found


def command() -> list[str]:
    """The command that reads compose files; it needs no running engine for that. Skips where there is none."""
    try:
        return compose.command()
    except StackError:
        missing = "neither `docker compose` nor `docker-compose` is here: apt-get install docker-compose"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)


def require_engine() -> None:
    """Skip where no Docker engine answers."""
    answers = shutil.which("docker") and subprocess.run(["docker", "version"], check=False, capture_output=True)
    if not answers or answers.returncode != 0:
        pytest.skip("no Docker engine answers: https://docs.docker.com/engine/install/")
