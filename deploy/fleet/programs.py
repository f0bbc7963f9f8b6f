"""The programs that a fleet consists of, as deploy.go_programs builds them: releases that Debian doesn't have."""

from __future__ import annotations

from pathlib import Path

from deploy import go_programs
from deploy.fleet import FleetError

_BUILT_AS = {"prometheus": "prometheus3", "alertmanager": "alertmanager034", "thanos": "thanos"}


def path(program: str) -> Path:
    """Where a program of a part is; built first if it is missing, which takes minutes. Raises FleetError."""
    try:
        return go_programs.path(_BUILT_AS[program])
    except go_programs.GoProgramsError as error:
        raise FleetError(str(error)) from None


def is_built(program: str) -> bool:
    """Whether `path` has nothing to build."""
    return go_programs.state(_BUILT_AS[program]).name == "built"
