"""An exporter's privileges on a watched host: those of its systemd unit, and how to run with them without systemd."""

import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

MAX_EXPOSURE = 2.0  # by `systemd-analyze security`, from 0 to 10; a service without any confinement has 9.6
UNITS = Path(__file__).resolve().parents[2] / "exporters" / "systemd"
NOBODY = 65534  # Debian's user and group nobody


def directives(unit: Path) -> dict[str, list[str]]:
    """All values of each directive in a unit file, in order."""
    found = defaultdict(list)
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


def capabilities(exporter: str) -> set[str]:
    """The capabilities that the unit of an exporter, such as "vestat-exporter", gives it."""
    return set(" ".join(directives(UNITS / f"{exporter}.service")["AmbientCapabilities"]).split())


def exposure(analysis: str) -> float:
    """The exposure level at the end of `systemd-analyze security UNIT`."""
    [level] = re.findall(r"Overall exposure level for \S+: ([0-9.]+) ", analysis)
    return float(level)


def unprivileged(having: Iterable[str]) -> list[str]:
    """A command prefix for root that runs a command as nobody with only these capabilities."""
    given = "".join(f",+{capability.removeprefix('CAP_').lower()}" for capability in sorted(having))
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--no-new-privs"]
    return ["setpriv", *user, *(f"--{kind}=-all{given}" for kind in ("bounding-set", "inh-caps", "ambient-caps"))]


@contextmanager
def exporters_of_everybody(*packages: ModuleType) -> Iterator[Path]:
    """A world-readable folder with the exporters and the packages they import; skips unless run by root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user: run this as root")
    with tempfile.TemporaryDirectory(prefix="exporters") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # Other tests' bytecode caches come and go meanwhile.
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(UNITS.parent / "virtscope", folder / "virtscope", ignore=without)
        for package in packages:
            shutil.copytree(Path(str(package.__file__)).parent, folder / package.__name__, ignore=without)
        yield folder


def python_of_everybody(user: int, usable: str) -> str:
    """The first Python that this user may run and that can run the code `usable`; skips if there is none."""
    for python in (shutil.which("python3"), "/usr/bin/python3"):
        try:
            ended = subprocess.run([str(python), "-c", usable], user=user, check=False, capture_output=True)
        except OSError:
            continue
        if ended.returncode == 0:
            return str(python)
    pytest.skip(f"no Python that other users may run and in which this works: {usable}")
