"""Each suite as a program: its place in an environment, the command for one run, and the parser of its output."""

import contextlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import programs
from deploy.programs import Packages, ProgramsError
from lab import LabError
from lab.environments import NONE, Environment
from lab.suites import lmbench, outputs
from lab.suites.rows import Row
from lab.suites.scenario import Suites

# The scripts' own folder, here and in a guest, on a disk as /tmp may be in memory; they refuse another user's.
WORK = Path("/var/tmp/virtscope-suites")  # noqa: S108
HELLO = Path("/var/tmp/lmbench")  # noqa: S108 (where Debian's lat_proc looks for the program that it executes)
NO_COPY = "no distribution packages it; give the folder of a copy with `{}: /path`"
FIND_SECONDS = 60.0
UNIXBENCH_PASSES = 3  # of its long tests; its default of 10 takes half an hour
_HERE = Path(__file__).parent
_UNIXBENCH = f"""
rm -rf {WORK} && mkdir {WORK} || exit
trap 'rm -rf {WORK}' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
export UB_RESULTDIR={WORK} UB_TMPDIR={WORK}
cd "$1" && ./Run -c 1 -i {UNIXBENCH_PASSES}
"""
# busybox's setpriv can't do it.
_AS_NOBODY = """
[ "$(id -u)" != 0 ] || setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null && echo yes
:
"""


class SkippedError(LabError):
    """A suite that can't run in an environment; the message is the reason."""


@dataclass(frozen=True)
class Place:
    """Where a suite's programs are, and the libraries that they need in addition to the environment's; "" for none."""

    programs: str
    libraries: str = ""


@dataclass(frozen=True)
class Program:
    """A suite. `find` raises `SkippedError`; `planned` and `timeout` are the seconds of one run."""

    find: Callable[[Suites, Environment], Place]
    command: Callable[[Suites, Place], list[str]]
    parse: Callable[[str], tuple[Row, ...]]
    planned: Callable[[Suites], float]
    timeout: float


def versions(what: Suites) -> dict[str, str]:
    """Versions of the packages that this machine's environments run, as labels of lab_run_info; "" if unknown."""
    found = {}
    for suite, packages in ((lmbench.SUITE, programs.LMBENCH), (outputs.STRESS_NG, programs.STRESS_NG)):
        if suite in what.suites:
            found[suite.replace("-", "_")] = ""
            with contextlib.suppress(ProgramsError):
                found[suite.replace("-", "_")] = programs.versions(packages)[packages.names[0]]
    return found


def _is_here(environment: Environment) -> bool:
    return environment.virtualization in {NONE, "cgroup"}


def _unpacked(packages: Packages) -> tuple[Path, str]:
    try:
        root = programs.root(packages)
    except ProgramsError as error:
        raise SkippedError(str(error)) from None
    return root, str(root / "usr/lib" / f"{platform.machine()}-linux-gnu")


def _in_environment(environment: Environment, script: str, reason: str, *arguments: str) -> str:
    """The line that a script prints in an environment; raises `SkippedError` with the reason if it prints none."""
    said = environment.run(["sh", "-c", script, "find", *arguments], FIND_SECONDS).strip()
    if not said:
        raise SkippedError(reason)
    return said.splitlines()[-1]


def _find_lmbench(_: Suites, environment: Environment) -> Place:
    if not _is_here(environment):
        script = 'for each in /usr/lib/lmbench/bin/*/lat_syscall; do [ -x "$each" ] && dirname "$each"; done; :'
        return Place(_in_environment(environment, script, "install Debian's package lmbench (non-free) in the guest"))
    root, libraries = _unpacked(programs.LMBENCH)
    [found] = root.glob("usr/lib/lmbench/bin/*/lat_syscall")
    return Place(str(found.parent), libraries)


def _find_stress_ng(_: Suites, environment: Environment) -> Place:
    if not _is_here(environment):
        found = _in_environment(environment, "command -v stress-ng; :", "install the package stress-ng in the guest")
        _in_environment(environment, _AS_NOBODY, "install the package util-linux in the guest: it needs its setpriv")
        return Place(found)
    root, libraries = _unpacked(programs.STRESS_NG)
    return Place(str(root / "usr/bin/stress-ng"), libraries)


def _copy(suite: str, program: str) -> Callable[[Suites, Environment], Place]:
    """Finds a suite's copy by the scenario's key with the suite's name."""

    def find(what: Suites, environment: Environment) -> Place:
        folder: str | None = getattr(what, suite)
        if folder is None:
            raise SkippedError(NO_COPY.format(suite))
        reason = f"there is no program {program} in {folder}"
        return Place(_in_environment(environment, '[ -x "$1/$2" ] && echo "$1"; :', reason, folder, program))

    return find


def _script(name: str, text: str, *of_scenario: Callable[[Suites], object]) -> Callable[[Suites, Place], list[str]]:
    """A command that runs a script with a place and these values of the scenario as its arguments."""

    def command(what: Suites, place: Place) -> list[str]:
        values = (str(value(what)) for value in of_scenario)
        return ["sh", "-c", text, name, place.programs, place.libraries, *values, str(WORK)]

    return command


PROGRAMS: Mapping[str, Program] = {
    # About 60 measurements with warm-up, of eleven intervals each; two minutes of fixed work, half of it files.
    lmbench.SUITE: Program(
        _find_lmbench,
        _script(
            *("lmbench", (_HERE / "lmbench.sh").read_text()),
            *(lambda what: what.megabytes, lambda what: round(what.interval * 1e6)),
        ),
        lmbench.parse,
        lambda what: 120 + 60 * 12 * what.interval,
        timeout=3 * 3600,
    ),
    outputs.UNIXBENCH: Program(
        _copy("unixbench", "Run"), _script("unixbench", _UNIXBENCH), outputs.unixbench, lambda _: 600, timeout=3 * 3600
    ),
    outputs.NBENCH: Program(
        _copy("nbench", "nbench"),
        _script("nbench", 'cd "$1" && ./nbench'),
        outputs.nbench,
        lambda _: 300,
        timeout=3 * 3600,
    ),
    outputs.STRESS_NG: Program(
        _find_stress_ng,
        _script("stress-ng", (_HERE / "stress_ng.sh").read_text(), lambda what: f"{what.stress_time:g}"),
        outputs.stress_ng,
        lambda what: 7 * (what.stress_time + 1),
        timeout=8 * 3600,
    ),
}
