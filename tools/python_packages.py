"""The stack's Python packages, as pinned with hashes in requirements/stack.txt, in a virtual environment of its own."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

from tools import StackError, programs
from tools.programs import CHECKOUT

REQUIREMENTS = CHECKOUT / "requirements" / "stack.txt"
ENVIRONMENT = CHECKOUT / ".stack" / "venv"
PYTHON = ENVIRONMENT / "bin" / "python"
# pip's temporary files: in /tmp they would stay behind when it is interrupted.
SCRATCH = ENVIRONMENT / "tmp"
# Written last, so an environment without it, or with another content, is one that was never finished or is out of date.
COMPLETE = ENVIRONMENT / "complete"


def wanted() -> str:
    """What decides the environment's content: the pins and this very Python."""
    python = f"{Path(sys.executable).resolve()} {sys.version}"
    return hashlib.sha256(REQUIREMENTS.read_bytes() + python.encode()).hexdigest()


def is_installed() -> bool:
    """Whether `PYTHON` is there with all the packages."""
    return COMPLETE.is_file() and COMPLETE.read_text() == wanted() and PYTHON.exists()


def require_venv() -> None:
    """Raise `StackError` if this Python can't make a virtual environment with pip, and one is needed."""
    if not is_installed() and importlib.util.find_spec("ensurepip") is None:
        # Debian keeps this part of the standard library in a package of its own.
        raise StackError("Python's venv module lacks ensurepip: install it with `apt-get install python3-venv`")


def install() -> None:
    """Make `PYTHON` an interpreter with the packages, unless it is one. Raises `StackError` if that can't be done.

    The exporters aren't installed: supervisord.conf runs them from exporters/, so that no build backend is needed.
    """
    if is_installed():
        return
    venv.create(ENVIRONMENT, clear=True, symlinks=True)
    SCRATCH.mkdir()
    pip_itself = _python("ensurepip", "--default-pip")
    if pip_itself.returncode != 0:
        raise StackError(f"cannot install pip in {ENVIRONMENT}: {_complaint(pip_itself)}")
    wheels = programs.cache("wheels")
    install_from_cache = ["install", "--no-index", "--find-links", str(wheels)]
    with programs.exclusively(wheels):
        if _pip(*install_from_cache).returncode != 0:
            download = _pip("download", "--retries=1", "--timeout=30", "--dest", str(wheels))
            if download.returncode != 0:
                raise StackError(f"cannot download the Python packages: {_complaint(download)}")
            installation = _pip(*install_from_cache)
            if installation.returncode != 0:
                raise StackError(f"cannot install the Python packages: {_complaint(installation)}")
    COMPLETE.write_text(wanted())


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    # No cache directory: pip's own is outside the checkout. Only wheels: building may need a compiler.
    flags = ["--no-cache-dir", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary=:all:"]
    return _python("pip", *arguments, *flags, "--requirement", str(REQUIREMENTS))


def _python(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PYTHON), "-m", module, *arguments],
        env={**os.environ, "TMPDIR": str(SCRATCH)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _complaint(pip: subprocess.CompletedProcess[str]) -> str:
    """Why pip failed, in one line."""
    if "connection broken" in pip.stderr:
        return "the package index can't be reached; check the network"
    errors = [line for line in pip.stderr.splitlines() if line.startswith("ERROR:")]
    return errors[-1].removeprefix("ERROR:").strip() if errors else f"pip ended with status {pip.returncode}"
