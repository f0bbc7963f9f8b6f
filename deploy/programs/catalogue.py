"""Which third-party programs the stack, the lab and the tests run, and where each can come from: catalogue.toml.

A release is what its authors publish, pinned by version and SHA-256. Packages are taken as the distribution's mirrors
serve them today, at a minimum version. `deploy/programs/__init__.py` takes the first that can be had.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Release:
    """An official release: one file for each architecture, a .tar.gz with one folder, or a bare program."""

    version: str
    url: str  # {version} and {architecture} stand for these, {machine} for what uname calls the latter
    sha256: Mapping[str, str]  # by architecture, as Debian calls it
    files: Mapping[str, str]  # program: its path below the archive's one folder; of a bare program, its name


@dataclass(frozen=True)
class Packages:
    """Packages of the distribution, unpacked together into one folder as if it were `/`."""

    name: str
    names: tuple[str, ...]  # those that the distribution doesn't have are left out
    files: Mapping[str, str] = field(default_factory=dict)  # program: its path in there
    minimum: Mapping[str, str] = field(default_factory=dict)  # package: the oldest version that will do
    follows: str = ""  # and, of what these depend on, what this regular expression matches
    non_free: bool = False  # of Debian's component non-free, Ubuntu's multiverse; the machine's own sources stay


@dataclass(frozen=True)
class Suite:
    """Programs that come together, and whence, best first."""

    name: str
    title: str
    release: Release
    packages: Packages | None = None  # None: no distribution has it
    built_from_go: bool = False  # deploy/go_programs.py can, where nothing else can be had


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
