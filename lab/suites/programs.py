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
PACKAGES = {lmbench.SUITE: programs.LMBENCH, outputs.STRESS_NG: programs.STRESS_NG}
_HERE = Path(__file__).parent


class SkippedError(LabError):
    """A suite that can't run in an environment; the message is the reason."""


@dataclass(frozen=True)
class Program:
    """A suite: where it is, how it runs, and how long one run takes, in seconds.

    Its script gets the place, the folder of libraries that it needs in addition to the environment's or "", these
    values of the scenario, and the folder for its files.
    """

    script: str
    parse: Callable[[str], tuple[Row, ...]]
    planned: Callable[[Suites], float]
    pattern: str = ""
    """The programs, or the folder of programs, in the unpacked packages."""
    in_guest: str = ""
    """A script that prints the place in a guest."""
    missing: str = ""
    """What to install in a guest that has no such place."""
    program: str = ""
    """The program in a copy of the user's."""
    values: Callable[[Suites], tuple[object, ...]] = lambda _: ()
    timeout: float = 3 * 3600

    def find(self, what: Suites, environment: Environment, suite: str) -> tuple[str, str]:
        """Its place and libraries; raises `SkippedError`."""
        if self.program:
            if (folder := {"unixbench": what.unixbench, "nbench": what.nbench}[suite]) is None:
                raise SkippedError(NO_COPY.format(suite))
            script, missing = '[ -x "$1/$2" ] && echo "$1"; :', f"there is no program {self.program} in {folder}"
            return _line(environment, script, missing, folder, self.program), ""
        if environment.virtualization not in {NONE, "cgroup"}:
            return _line(environment, self.in_guest, self.missing), ""
        try:
            root = programs.root(PACKAGES[suite])
        except ProgramsError as error:
            raise SkippedError(str(error)) from None
        [place] = root.glob(self.pattern)
        return str(place), str(root / "usr/lib" / f"{platform.machine()}-linux-gnu")

    def command(self, what: Suites, suite: str, place: tuple[str, str]) -> list[str]:
        return ["sh", "-c", self.script, suite, *place, *map(str, self.values(what)), str(WORK)]


def versions(what: Suites) -> dict[str, str]:
    """Versions of the packages that this machine's environments run, as labels of lab_run_info; "" if unknown."""

    def version(packages: Packages) -> str:
        with contextlib.suppress(ProgramsError):
            return programs.versions(packages)[packages.names[0]]
        return ""

    return {suite.replace("-", "_"): version(of) for suite, of in PACKAGES.items() if suite in what.suites}


def _line(environment: Environment, script: str, missing: str, *arguments: str) -> str:
    """The last line that a script prints in an environment; raises `SkippedError` with this reason without any."""
    said = environment.run(["sh", "-c", script, "find", *arguments], FIND_SECONDS).strip()
    if not said:
        raise SkippedError(missing)
    return said.splitlines()[-1]


PROGRAMS: Mapping[str, Program] = {
    # About 60 measurements with warm-up, of eleven intervals each; two minutes of fixed work, half of it files.
    lmbench.SUITE: Program(
        (_HERE / "lmbench.sh").read_text(),
        lmbench.parse,
        lambda what: 120 + 60 * 12 * what.interval,
        pattern="usr/lib/lmbench/bin/*",
        in_guest='for each in /usr/lib/lmbench/bin/*/lat_syscall; do [ -x "$each" ] && dirname "$each"; done; :',
        missing="install Debian's package lmbench (non-free) in the guest",
        values=lambda what: (what.megabytes, round(what.interval * 1e6)),
    ),
    outputs.UNIXBENCH: Program(
        (_HERE / "unixbench.sh").read_text(),
        outputs.unixbench,
        lambda _: 600,
        program="Run",
        values=lambda _: (UNIXBENCH_PASSES,),
    ),
    outputs.NBENCH: Program('cd "$1" && ./nbench', outputs.nbench, lambda _: 300, program="nbench"),
    # As root it needs util-linux's setpriv: busybox's can't become nobody.
    outputs.STRESS_NG: Program(
        (_HERE / "stress_ng.sh").read_text(),
        outputs.stress_ng,
        lambda what: 7 * (what.stress_time + 1),
        pattern="usr/bin/stress-ng",
        in_guest='[ "$(id -u)" != 0 ] || setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null && '
        "command -v stress-ng; :",
        missing="install the packages stress-ng and util-linux in the guest",
        values=lambda what: (f"{what.stress_time:g}",),
        timeout=8 * 3600,
    ),
}
