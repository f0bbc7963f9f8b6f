"""The Python packages of the stack and of the lab, as pinned with hashes in requirements/, in virtual environments."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from deploy import StackError, programs
from deploy.programs import CHECKOUT


@dataclass(frozen=True)
class Environment:
    """A virtual environment in `folder` with what `requirements` pins.

    The exporters aren't installed: supervisord.conf runs them from exporters/, so that no build backend is needed.
    """

    requirements: Path
    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter; there after `install`."""
        return self.folder / "bin" / "python"

    @property
    def complete(self) -> Path:
        """Written last: an environment without it, or with other content, was never finished or is out of date."""
        return self.folder / "complete"

    @property
    def scratch(self) -> Path:
        """pip's temporary files: in /tmp they would stay behind when it is interrupted."""
        return self.folder / "tmp"

    def wanted(self) -> str:
        """What decides the environment's content: the pins and this very Python."""
        python = f"{Path(sys.executable).resolve()} {sys.version}"
        return hashlib.sha256(self.requirements.read_bytes() + python.encode()).hexdigest()

    def is_installed(self) -> bool:
        """Whether `python` is there with all the packages."""
        return self.complete.is_file() and self.complete.read_text() == self.wanted() and self.python.exists()

    def require_venv(self) -> None:
        """Raise `StackError` if this Python can't make a virtual environment with pip, and one is needed."""
        if not self.is_installed() and importlib.util.find_spec("ensurepip") is None:
            # Debian keeps this part of the standard library in a package of its own.
            raise StackError("Python's venv module lacks ensurepip: install it with `apt-get install python3-venv`")

    def install(self) -> None:
        """Make `python` an interpreter with the packages, unless it is one. Raises `StackError` if it can't be."""
        if self.is_installed():
            return
        venv.create(self.folder, clear=True, symlinks=True)
        self.scratch.mkdir()
        pip_itself = self._python("ensurepip", "--default-pip")
        if pip_itself.returncode != 0:
            raise StackError(f"cannot install pip in {self.folder}: {_complaint(pip_itself)}")
        wheels = programs.cache("wheels")
        install_from_cache = ["install", "--no-index", "--find-links", str(wheels)]
        with programs.exclusively(wheels):
            if self._pip(*install_from_cache).returncode != 0:
                download = self._pip("download", "--retries=1", "--timeout=30", "--dest", str(wheels))
                if download.returncode != 0:
                    raise StackError(f"cannot download the Python packages: {_complaint(download)}")
                installation = self._pip(*install_from_cache)
                if installation.returncode != 0:
                    raise StackError(f"cannot install the Python packages: {_complaint(installation)}")
        self.complete.write_text(self.wanted())

    def _pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # No cache directory: pip's own is outside the checkout. Only wheels: building may need a compiler.
        flags = [
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--require-hashes",
            "--no-deps",
            "--only-binary=:all:",
        ]
        return self._python("pip", *arguments, *flags, "--requirement", str(self.requirements))

    def _python(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-m", module, *arguments],
            env={**os.environ, "TMPDIR": str(self.scratch)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


STACK = Environment(CHECKOUT / "requirements" / "stack.txt", CHECKOUT / ".stack" / "venv")
# Not in the stack's: that it is used, or brought up to date, is no reason to restart the stack.
LAB = Environment(CHECKOUT / "requirements" / "lab.txt", CHECKOUT / ".stack" / "lab" / "venv")


def _complaint(pip: subprocess.CompletedProcess[str]) -> str:
    """Why pip failed, in one line."""
    if "connection broken" in pip.stderr:
        return "the package index can't be reached; check the network"
    errors = [line for line in pip.stderr.splitlines() if line.startswith("ERROR:")]
    return errors[-1].removeprefix("ERROR:").strip() if errors else f"pip ended with status {pip.returncode}"
