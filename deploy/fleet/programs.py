"""The programs of a fleet, built by deploy.go_programs: releases that Debian doesn't have."""

from pathlib import Path

from deploy import go_programs

_BUILT_AS = {"prometheus": "prometheus3", "alertmanager": "alertmanager034", "thanos": "thanos"}


def path(program: str) -> Path:
    """The path of a part's program, built first if missing, which takes minutes. Raises GoProgramsError."""
    return go_programs.path(_BUILT_AS[program])


def is_built(program: str) -> bool:
    """Whether the program is built already."""
    return go_programs.is_built(_BUILT_AS[program])
