"""The Go modules in deploy/go, and the programs that are built from them.

Each folder is a Go module whose `go.mod` names programs as tools, or which is a program of ours around a library, and
whose `go.sum` holds the checksums of all that goes into them. `deploy/go/modules.toml` lists them.
"""

from __future__ import annotations

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
"""The first of `make test`, `make test-system` and `make test-all` that needs a program."""


class GoProgramsError(Exception):
    """A program can't be built. The message is one line for the user: what is wrong and what to do."""


@dataclass(frozen=True)
class Module:
    """A folder of `deploy/go`. Its programs are built together: most of the time goes into what they share.

    packages: of the programs, which are called as the last part of the package's name (not: v12).
    released_in: the Go module whose version is the programs'.
    version_variable: where its releases have the linker write their version; None: it stands in the source.
    built_by_release: a file that its programs embed and only its releases have; empty here.
    build_time: on two cores that have nothing else to do.
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
        """The release that go.mod pins, such as "1.39.2"."""
        pins = (self.folder / "go.mod").read_text()
        pin = re.search(rf"^\s*(?:require )?{re.escape(self.released_in)} v(\S+)", pins, re.MULTILINE)
        if pin is None:
            raise GoProgramsError(f"deploy/go/{self.folder.name}/go.mod does not pin {self.released_in}")
        # Prometheus's Go module numbers the release 3.x.y 0.3xx.y.
        renumbered = re.fullmatch(r"0\.(\d)(\d\d)\.(\d+)", pin[1]) if self.released_in.endswith("/prometheus") else None
        return ".".join(str(int(part)) for part in renumbered.groups()) if renumbered else pin[1]

    @property
    def content(self) -> str:
        """What decides the programs' content, twelve digits: no new pin, plugin or line of ours meets an old build."""
        content = hashlib.sha256(" ".join(self.tags).encode())
        for file in sorted([self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]):
            content.update(file.read_bytes())
        return content.hexdigest()[:12]

    @property
    def built(self) -> Path:
        """The folder that its programs are built into."""
        return cache() / self.content


@dataclass(frozen=True)
class Program:
    """A program of one of the modules."""

    module: Module
    file: str

    @property
    def version(self) -> str:
        """The release that the module pins, such as "1.39.2"."""
        return self.module.version

    @property
    def path(self) -> Path:
        """Where it is once it is built."""
        return self.module.built / self.file


def cache() -> Path:
    """Where Go, what it downloads and what it builds are kept."""
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
