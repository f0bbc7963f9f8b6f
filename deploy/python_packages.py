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
        self._must(f"install pip in {self.folder}", "ensurepip", "--default-pip")
        wheels = programs.cache("wheels")
        # No cache directory: pip's own is outside the checkout. Only wheels: building may need a compiler.
        flags = [
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--require-hashes",
            "--no-deps",
            "--only-binary=:all:",
        ]
        flags += ["--requirement", str(self.requirements)]
        from_cache = ["pip", "install", "--no-index", "--find-links", str(wheels), *flags]
        with programs.exclusively(wheels):
            if self._python(*from_cache).returncode != 0:
                download = ["pip", "download", "--retries=1", "--timeout=30", "--dest", str(wheels), *flags]
                self._must("download the Python packages", *download)
                self._must("install the Python packages", *from_cache)
        self.complete.write_text(self.wanted())

    def _must(self, what: str, *module: str) -> None:
        done = self._python(*module)
        if done.returncode == 0:
            return
        if "connection broken" in done.stderr:
            why = "the package index can't be reached; check the network"
        else:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            why = errors[-1].removeprefix("ERROR:").strip() if errors else f"pip ended with status {done.returncode}"
        raise StackError(f"cannot {what}: {why}")

    def _python(self, *module: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        return subprocess.run(
            [str(self.python), "-m", *module],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip


STACK = Environment(CHECKOUT / "requirements" / "stack.txt", CHECKOUT / ".stack" / "venv")
# Not in the stack's: that it is used, or brought up to date, is no reason to restart the stack.
LAB = Environment(CHECKOUT / "requirements" / "lab.txt", CHECKOUT / ".stack" / "lab" / "venv")
