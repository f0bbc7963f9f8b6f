"""Virtual environments with the stack's and the lab's Python packages, pinned with hashes in requirements/."""

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
    """A virtual environment in `folder` with the packages pinned in `requirements`.

    The exporters aren't installed: supervisord.conf runs them from exporters/, so this needs no build backend.
    """

    requirements: Path
    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter, created by `install`."""
        return self.folder / "bin" / "python"

    @property
    def complete(self) -> Path:
        """A file that is written last: if missing or different, the environment is incomplete or out of date."""
        return self.folder / "complete"

    @property
    def scratch(self) -> Path:
        """The folder of pip's temporary files: in /tmp, they would stay behind after an interruption."""
        return self.folder / "tmp"

    def wanted(self) -> str:
        """The inputs of the environment: the pins and this Python."""
        python = f"{Path(sys.executable).resolve()} {sys.version}"
        return hashlib.sha256(self.requirements.read_bytes() + python.encode()).hexdigest()

    def is_installed(self) -> bool:
        """Whether `python` exists with all packages."""
        return self.complete.is_file() and self.complete.read_text() == self.wanted() and self.python.exists()

    def require_venv(self) -> None:
        """Raise `StackError` if a virtual environment is needed, but this Python can't make one with pip."""
        if not self.is_installed() and importlib.util.find_spec("ensurepip") is None:
            # Debian has this part of the standard library in a separate package.
            raise StackError("Python's venv module lacks ensurepip: install it with `apt-get install python3-venv`")

    def install(self) -> None:
        """Create the environment, unless it is up to date. Raises `StackError` if that fails."""
        if self.is_installed():
            return
        venv.create(self.folder, clear=True, symlinks=True)
        self.scratch.mkdir()
        self._must(f"install pip in {self.folder}", "ensurepip", "--default-pip")
        wheels = programs.cache("wheels")
        # No cache directory: pip's own is outside the checkout. Only wheels: building may need a compiler.
        flags = ["--no-cache-dir", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
        flags += ["--only-binary=:all:", "--requirement", str(self.requirements)]
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
# Separate from the stack's: its use or update is no reason to restart the stack.
LAB = Environment(CHECKOUT / "requirements" / "lab.txt", CHECKOUT / ".stack" / "lab" / "venv")
