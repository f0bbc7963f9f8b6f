"""The steps of benchmark suites: one suite in one environment after the other, each on a settled machine."""

import contextlib
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab import LabError, guard, machine
from lab.environments import Base, Environment, Guest, Limited
from lab.metrics import Measurement
from lab.processes import ProgramError, and_said
from lab.progress import Course
from lab.study import Experiment, Outcome, Run, Study
from lab.suites import lmbench, outputs, scenario
from lab.suites.programs import HELLO, NO_COPY, PROGRAMS, WORK, Place, SkippedError, versions
from lab.suites.rows import OutputError
from lab.suites.scenario import Step, Suites

SETTLED_CPUS = 0.2  # in use on the whole machine: the stack itself uses less
LONGEST_SETTLING = 12  # times the settle time
_FAILED = re.compile(r"^(?:# )?\[(.+: status \d+: .*)\]$", re.MULTILINE)  # the scripts' message about a failed program
_LONGEST_LABEL = 1000  # characters: Prometheus refuses a scrape with a label of more than 4096 bytes
BETWEEN_SECONDS = 5.0  # about, until Prometheus has a step's values


@contextlib.contextmanager
def ready(what: Suites, run: Run) -> Iterator[Experiment]:
    with _guarded():
        places, skipped = _find(what)
        for name, suite, reason in skipped:
            if suite in what.runnable:  # the plan has named the others
                run.course.say(f"{suite} is skipped in {name}: {reason}")
        steps = [step for step in what.steps if (step.environment, step.suite) in places]
        if not steps:
            raise LabError("none of the scenario's suites can run: see above")
        facts = {**machine.host(), **versions(what), "skipped": _in_words(skipped)}
        yield Experiment(Running(what, run, places).measure, facts, steps)


def plan(what: Suites) -> list[str]:
    packages = [name for name in (lmbench.SUITE, outputs.STRESS_NG) if name in what.suites]
    return [
        *([f"On this machine, unpacked below .stack/programs: {', '.join(packages)}"] if packages else []),
        f"There and in guests, files in {WORK} and {HELLO}, which are removed at the end",
        *(_changes(each, what) for each in what.environments),
        *(f"{suite} is skipped: {NO_COPY.format(suite)}" for suite in what.suites if suite not in what.runnable),
    ]


def _changes(environment: Environment, what: Suites) -> str:
    match environment:
        case Guest():
            scripts = "sh with lab/suites/lmbench.sh and stress_ng.sh, and copies of the others"
            where = f"by ssh {environment.ssh}: {scripts}"
        case Limited(limits=limits):
            cap = "no cap" if limits.cap is None else f"a cap of {limits.cap:g} CPUs"
            where = f"in a cgroup with {cap} and weight {limits.cpu_weight}"
        case Base(cpus=cpus):
            where = f"on CPUs {cpus}"
    return f"{environment.name}: {', '.join(what.runnable)}, {where}"


def planned_seconds(what: Suites, steps: Sequence[Step]) -> float:
    of_suite = {str(suite): what.settle + PROGRAMS[suite].planned(what) + BETWEEN_SECONDS for suite in what.suites}
    return sum(of_suite[step.suite] for step in steps)


Places = dict[tuple[str, str], Place]  # by environment and suite


@dataclass(frozen=True)
class Running:
    what: Suites
    run: Run
    places: Places

    def measure(self, step: Step) -> Outcome:
        course, state = self.run.course, self.run.state
        [environment] = [one for one in self.what.environments if one.name == step.environment]
        others = self._settle(step, course)
        course.doing(f"{step.name}: running")
        program, place = PROGRAMS[step.suite], self.places[step.environment, step.suite]
        output = state.folder / f"{step.name.replace('/', '_')}.txt"
        try:
            with environment.ready():
                said = environment.run(program.command(self.what, place), program.timeout)
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
        if others > SETTLED_CPUS:
            self.run.metrics.unsettled(state.run, step.name, others)
        for failed in _FAILED.findall(said):
            course.say(f"{step.name}: no value of {failed}")
        busy = "" if others <= SETTLED_CPUS else f"; the machine did not settle: others used {others:.2f} CPUs before"
        where = environment.name, environment.virtualization, environment.emulated
        found = [Measurement(*where, test.key, test.unit, test.better, step.repetition, value) for test, value in rows]
        return Outcome(f"{step.name}: {len(rows)} values{busy}", found)

    def _settle(self, step: Step, course: Course) -> float:
        """Wait until few CPUs are in use on the machine, at most `LONGEST_SETTLING`; return the CPUs in use."""
        used = 0.0
        for _ in range(LONGEST_SETTLING if self.what.settle else 0):
            course.doing(f"{step.name}: waiting for the machine to settle")
            clock, cpu = time.monotonic(), machine.cpu_seconds()
            time.sleep(self.what.settle)
            used = (machine.cpu_seconds() - cpu) / (time.monotonic() - clock)
            if used <= SETTLED_CPUS:
                break
        return used


def _find(what: Suites) -> tuple[Places, list[tuple[str, str, str]]]:
    places: Places = {}
    skipped: list[tuple[str, str, str]] = []
    for environment in what.environments:
        with environment.ready():
            for suite in what.suites:
                try:
                    places[environment.name, suite] = PROGRAMS[suite].find(what, environment)
                except SkippedError as error:
                    skipped.append((environment.name, suite, str(error)))
    return places, skipped


def _in_words(skipped: list[tuple[str, str, str]]) -> str:
    of: dict[tuple[str, str], list[str]] = {}
    for name, suite, reason in skipped:
        of.setdefault((suite, reason), []).append(name)
    said = "; ".join(f"{suite} in {', '.join(names)}: {reason}" for (suite, reason), names in of.items())
    return said[:_LONGEST_LABEL]


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    """Remove files of killed scripts on this machine, also if the lab itself is killed.

    Keeps the folder of Debian's lmbench if it already exists.
    """
    with contextlib.ExitStack() as ending:
        for folder in (WORK, *(() if HELLO.exists() else (HELLO,))):
            ending.enter_context(guard.watching(folder))
            ending.callback(shutil.rmtree, folder, ignore_errors=True)
        yield


STUDY = Study(scenario.STUDY, scenario.parse, plan, planned_seconds, ready)
