"""The Go modules in deploy/go, and the programs built from them.

Each folder is a Go module. Its `go.mod` lists programs as tools, or it is a small program of this project around a
library. Its `go.sum` has the checksums of all dependencies. `deploy/go/modules.toml` lists the folders.
"""

import hashlib
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CHECKOUT = Path(__file__).resolve().parent.parent
MODULES = CHECKOUT / "deploy" / "go"

Layer = Literal["quick", "system", "all"]
"""The first of `make test`, `make test-system` and `make test-all` that needs the program."""


class GoProgramsError(Exception):
    """A program can't be built. The message is one line for the user: the problem and the remedy."""


@dataclass(frozen=True)
class Module:
    """A folder of `deploy/go`. Its programs are built together, as shared packages take most of the time.

    packages: of the programs, which have the last part of the package's path (without v12) as name.
    released_in: the Go module with the programs' version.
    version_variable: set to the version by the linker; None: the version is in the source.
    built_by_release: a file that its programs embed and only releases have; empty here.
    build_time: on two idle cores.
    """

    folder: Path
    packages: tuple[str, ...]
    released_in: str
    version_variable: str | None = None
    tags: tuple[str, ...] = ()
    built_by_release: str | None = None
    build_time: str = "a few minutes"
    layer: Layer = "system"

    @property
    def version(self) -> str:
        """The release pinned in go.mod, such as "1.39.2"."""
        pins = (self.folder / "go.mod").read_text()
        pin = re.search(rf"^\s*(?:require )?{re.escape(self.released_in)} v(\S+)", pins, re.MULTILINE)
        if pin is None:
            raise GoProgramsError(f"deploy/go/{self.folder.name}/go.mod does not pin {self.released_in}")
        # Prometheus's Go module numbers the release 3.x.y 0.3xx.y.
        renumbered = re.fullmatch(r"0\.(\d)(\d\d)\.(\d+)", pin[1]) if self.released_in.endswith("/prometheus") else None
        return ".".join(str(int(part)) for part in renumbered.groups()) if renumbered else pin[1]

    @property
    def content(self) -> str:
        """A hash of all inputs of the programs, twelve digits: a new pin, plugin or source line causes a new build."""
        content = hashlib.sha256(" ".join(self.tags).encode())
        for file in sorted([self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]):
            content.update(file.read_bytes())
        return content.hexdigest()[:12]

    @property
    def built(self) -> Path:
        """The folder of its built programs."""
        return cache() / self.content


@dataclass(frozen=True)
class Program:
    """A program of a module."""

    module: Module
    file: str

    @property
    def version(self) -> str:
        """The pinned release, such as "1.39.2"."""
        return self.module.version

    @property
    def path(self) -> Path:
        """Its path after the build."""
        return self.module.built / self.file


def cache() -> Path:
    """The folder of Go, its downloads and its builds."""
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / "go"


def _read() -> tuple[dict[str, Module], dict[str, Program]]:
    modules, programs = dict[str, Module](), dict[str, Program]()
    for folder, about in tomllib.loads((MODULES / "modules.toml").read_text()).items():
        names = about.pop("programs", {})
        packages, tags = (tuple(about.pop(key, ())) for key in ("packages", "tags"))
        modules[folder] = Module(MODULES / folder, packages, tags=tags, **about)
        programs |= {name: Program(modules[folder], file) for name, file in names.items()}
    return modules, programs


_MODULES, PROGRAMS = _read()
PROMETHEUS_OPERATOR, PYTHON = _MODULES["prometheus-operator"], _MODULES["python"]
