"""Third-party programs of the stack, the lab and the tests, and their sources: catalogue.toml.

A release is its authors' official one, pinned by version and SHA-256. Packages are the current ones on the
distribution's mirrors, with a minimum version. `deploy/programs/__init__.py` takes the first available source.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Release:
    """An official release: one file for each architecture, a .tar.gz with one folder, or a bare program."""

    version: str
    url: str  # placeholders: {version}, {architecture}, and {machine} (uname's name of the architecture)
    sha256: Mapping[str, str]  # by Debian's name of the architecture
    files: Mapping[str, str]  # program: its path below the archive's one folder; a bare program's name


@dataclass(frozen=True)
class Packages:
    """Packages of the distribution, unpacked together into one folder as if it were `/`."""

    name: str
    names: tuple[str, ...]  # ones that the distribution lacks are skipped
    files: Mapping[str, str] = field(default_factory=dict)  # program: its path in there
    minimum: Mapping[str, str] = field(default_factory=dict)  # package: minimum version
    follows: str = ""  # regular expression for dependencies to include
    non_free: bool = False  # of Debian's component non-free, Ubuntu's multiverse; the machine's own sources stay


@dataclass(frozen=True)
class Suite:
    """Programs that are installed together, and their sources, best first."""

    name: str
    title: str
    release: Release
    packages: Packages | None = None  # None: no distribution has it
    built_from_go: bool = False  # deploy/go_programs.py can build it, as the last resort


def _suite(name: str) -> Suite:
    about = dict(_RELEASES[name])
    title, built_from_go = about.pop("title"), about.pop("built_from_go", False)
    return Suite(name, title, Release(**about), _packages(name) if name in _PACKAGES else None, built_from_go)


def _packages(name: str) -> Packages:
    about = _PACKAGES[name]
    return Packages(name, **{**about, "names": tuple(about["names"])})


_READ = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_RELEASES, _PACKAGES = _READ["releases"], _READ["packages"]
SUITES = tuple(map(_suite, ("prometheus", "alertmanager", "node_exporter", "grafana", "telegraf", "cadvisor")))
PROMETHEUS, ALERTMANAGER, NODE_EXPORTER, GRAFANA, TELEGRAF, CADVISOR = SUITES
PYTHON = Release(**_RELEASES["python"])  # of `make bundle`
LAB, BENCHMARKS, WEB_SERVER, TESTS = map(_packages, ("lab", "benchmarks", "web-server", "tests"))
LMBENCH, STRESS_NG = map(_packages, ("lmbench", "stress-ng"))
