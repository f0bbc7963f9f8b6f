"""Requirements of tests: a test is skipped if they are missing, and fails in CI."""

import os
import shutil
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip with the reason; fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def lacking(**brings: str) -> str | None:
    """The remedy for missing programs, each with its Debian package (underscores instead of hyphens)."""
    packages = sorted({package for package, program in brings.items() if shutil.which(program) is None})
    return (
        f"needs: apt-get install --no-install-recommends {' '.join(packages).replace('_', '-')}" if packages else None
    )


def need(**brings: str) -> None:
    """Each of these programs."""
    if reason := lacking(**brings):
        missing(reason)


def need_root(why: str) -> None:
    """Skip for an ordinary user, who runs `make test`."""
    if os.geteuid() != 0:
        pytest.skip(f"only root {why}: run this as root")
