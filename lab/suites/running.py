"""Benchmark suites as programs, and their steps: one suite in one environment at a time, each on a settled machine."""

import contextlib
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import programs
from deploy.programs import Packages, ProgramsError
from lab import LabError, guard, machine
from lab.environments import NONE, Runs
from lab.processes import ProgramError, and_said
from lab.study import Experiment, Outcome, Run, Study
from lab.suites import lmbench, outputs
from lab.suites.rows import OutputError, Row
from lab.suites.scenario import Step, Suites

# The scripts' own folder, here and in a guest, on a disk as /tmp may be in memory; they refuse another user's.
WORK = Path("/var/tmp/virtscope-suites")  # noqa: S108
HELLO = Path("/var/tmp/lmbench")  # noqa: S108 (where Debian's lat_proc looks for the program that it executes)
NO_COPY = "no distribution packages it; give the folder of a copy with `{}: /path`"
FIND_SECONDS = 60.0
MAX_SECONDS = 3 * 3600  # of a suite on a slow machine, and twice what is planned
UNIXBENCH_PASSES = 3  # of its long tests; its default of 10 takes half an hour
_HERE = Path(__file__).parent
SETTLED_CPUS = 0.2  # in use on the whole machine: the stack itself uses less
LONGEST_SETTLING = 12  # times the settle time
_FAILED = re.compile(r"^(?:# )?\[(.+: status \d+: .*)\]$", re.MULTILINE)  # the scripts' message about a failed program
_LONGEST_LABEL = 1000  # characters: Prometheus refuses a scrape with a label of more than 4096 bytes
BETWEEN_SECONDS = 5.0  # about, until Prometheus has a step's values

Places = Mapping[tuple[str, str], tuple[str, str]]
"""Programs and their libraries, by environment and suite."""


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
    packages: Packages | None = None
    """Has the suite; without, it is a copy of the user's."""
    pattern: str = ""
    """The programs, or the folder of programs, in the unpacked packages; the program in a copy."""
    in_guest: str = ""
    """A script that prints the place in a guest."""
    missing: str = ""
    """What to install in a guest that has no such place."""
    values: Callable[[Suites], tuple[object, ...]] = lambda _: ()

    def find(self, what: Suites, suite: str, virtualization: str, run: Runs) -> tuple[str, str]:
        """Its place and libraries in an environment; raises `SkippedError`."""
        if self.packages is None:
            if (folder := what.copies[suite]) is None:
                raise SkippedError(NO_COPY.format(suite))
            script, missing = '[ -x "$1/$2" ] && echo "$1"; :', f"there is no program {self.pattern} in {folder}"
            return _line(run, script, missing, folder, self.pattern), ""
        if virtualization not in {NONE, "cgroup"}:
            return _line(run, self.in_guest, self.missing), ""
        try:
            root = programs.root(self.packages)
        except ProgramsError as error:
            raise SkippedError(str(error)) from None
        [place] = root.glob(self.pattern)
        return str(place), str(root / "usr/lib" / f"{platform.machine()}-linux-gnu")

    @property
    def version(self) -> str:
        """Of the packages that this machine's environments run; "" if unknown."""
        with contextlib.suppress(ProgramsError):
            return programs.versions(self.packages)[self.packages.names[0]] if self.packages else ""
        return ""


def _line(run: Runs, script: str, missing: str, *arguments: str) -> str:
    """The last line that a script prints in an environment; raises `SkippedError` with this reason without any."""
    said = run(["sh", "-c", script, "find", *arguments], FIND_SECONDS).strip()
    if not said:
        raise SkippedError(missing)
    return said.splitlines()[-1]


PROGRAMS: Mapping[str, Program] = {
    # About 60 measurements with warm-up, of eleven intervals each; two minutes of fixed work, half of it files.
    lmbench.SUITE: Program(
        (_HERE / "lmbench.sh").read_text(),
        lmbench.parse,
        lambda what: 120 + 60 * 12 * what.interval,
        programs.LMBENCH,
        "usr/lib/lmbench/bin/*",
        'for each in /usr/lib/lmbench/bin/*/lat_syscall; do [ -x "$each" ] && dirname "$each"; done; :',
        "install Debian's package lmbench (non-free) in the guest",
        lambda what: (what.megabytes, round(what.interval * 1e6)),
    ),
    outputs.UNIXBENCH: Program(
        (_HERE / "unixbench.sh").read_text(),
        outputs.unixbench,
        lambda _: 600,
        pattern="Run",
        values=lambda _: (UNIXBENCH_PASSES,),
    ),
    outputs.NBENCH: Program('cd "$1" && ./nbench', outputs.nbench, lambda _: 300, pattern="nbench"),
    # As root it needs util-linux's setpriv: busybox's can't become nobody.
    outputs.STRESS_NG: Program(
        (_HERE / "stress_ng.sh").read_text(),
        outputs.stress_ng,
        lambda what: 7 * (what.stress_time + 1),
        programs.STRESS_NG,
        "usr/bin/stress-ng",
        '[ "$(id -u)" != 0 ] || setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null && '
        "command -v stress-ng; :",
        "install the packages stress-ng and util-linux in the guest",
        lambda what: (f"{what.stress_time:g}",),
    ),
}


@contextlib.contextmanager
def ready(what: Suites, run: Run) -> Iterator[Experiment]:
    # Debian's lmbench may have made its folder itself.
    with guard.watching(WORK, *(() if HELLO.exists() else (HELLO,))):
        places: dict[tuple[str, str], tuple[str, str]] = {}
        skipped: dict[str, list[str]] = {}  # environments by what is missing
        for environment in what.environments:
            with environment.ready() as run_there:
                for suite in what.suites:
                    try:
                        found = PROGRAMS[suite].find(what, suite, environment.virtualization, run_there)
                        places[environment.name, suite] = found
                    except SkippedError as error:
                        skipped.setdefault(f"{suite}: {error}", []).append(environment.name)
        said = "; ".join(f"{', '.join(names)} without {reason}" for reason, names in skipped.items())
        if said:
            run.course.say(said)
        steps = [step for step in what.steps if (step.environment, step.suite) in places]
        if not steps:
            raise LabError("none of the scenario's suites can run: see above")
        versions = {suite.replace("-", "_"): PROGRAMS[suite].version for suite in what.suites}
        facts = {**machine.host(), **versions, "skipped": said[:_LONGEST_LABEL]}
        yield Experiment(lambda step: measure(step, what, run, places), facts, steps)


def plan(what: Suites) -> list[str]:
    packages = [suite for suite in what.suites if PROGRAMS[suite].packages]
    return [
        *([f"On this machine, unpacked below .stack/programs: {', '.join(packages)}"] if packages else []),
        f"On its CPUs {what.cpus} and in guests, sh with lab/suites/*.sh",
        f"There files in {WORK} and {HELLO}, which are removed at the end",
        *(f"{each.name} ({each.virtualization}): {', '.join(what.runnable)}" for each in what.environments),
        *(f"{suite} is skipped: {NO_COPY.format(suite)}" for suite in what.suites if suite not in what.runnable),
    ]


def planned_seconds(what: Suites, steps: Sequence[Step]) -> float:
    return sum(what.settle + PROGRAMS[step.suite].planned(what) + BETWEEN_SECONDS for step in steps)


def measure(step: Step, what: Suites, run: Run, places: Places) -> Outcome:
    [environment] = [one for one in what.environments if one.name == step.environment]
    others = _settle(step, what, run)
    run.course.doing(f"{step.name}: running")
    program, place = PROGRAMS[step.suite], places[step.environment, step.suite]
    output = run.state.folder / f"{step.name.replace('/', '_')}.txt"
    try:
        with environment.ready(what.cpus) as run_there:
            values = map(str, (*program.values(what), WORK))
            command = ["sh", "-c", program.script, step.suite, *place, *values]
            said = run_there(command, MAX_SECONDS + 2 * program.planned(what))
    except ProgramError as error:
        output.write_text(error.said)
        raise LabError(f"{step.name} {error.how}, in {output} is all that it said{and_said(error.said)}") from None
    output.write_text(said)
    try:
        rows = program.parse(said)
    except OutputError as error:
        raise LabError(f"{output}: {error}") from None
    if not rows:
        raise LabError(f"{step.suite} measured nothing in {step.environment}; what it printed is in {output}")
    for failed in _FAILED.findall(said):
        run.course.say(f"{step.name}: no value of {failed}")
    busy = ""
    if others > SETTLED_CPUS:
        run.metrics.unsettled(run.state.run, step.name, others)
        busy = f"; the machine did not settle: others used {others:.2f} CPUs before"
    kind, emulated = environment.virtualization, environment.emulated
    found = [row.measured(environment.name, step.repetition, kind, emulated=emulated) for row in rows]
    return Outcome(f"{step.name}: {len(rows)} values{busy}", found)


def _settle(step: Step, what: Suites, run: Run) -> float:
    """Wait until few CPUs are in use on the machine, at most `LONGEST_SETTLING`; return the CPUs in use."""
    used = 0.0
    for _ in range(LONGEST_SETTLING if what.settle else 0):
        run.course.doing(f"{step.name}: waiting for the machine to settle")
        clock, cpu = time.monotonic(), machine.cpu_seconds()
        time.sleep(what.settle)
        used = (machine.cpu_seconds() - cpu) / (time.monotonic() - clock)
        if used <= SETTLED_CPUS:
            break
    return used


STUDY = Study("suites", Suites.parse, plan, planned_seconds, ready)
