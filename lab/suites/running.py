"""The steps of benchmark suites: one suite in one environment after the other, each on a settled machine."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from lab import LabError, guard, machine
from lab.environments import Base, Environment, Guest, Limited
from lab.metrics import Measurement
from lab.processes import ProgramError, and_said
from lab.study import Experiment, Outcome, Run, Study
from lab.suites.programs import HELLO, NO_COPY, PACKAGES, PROGRAMS, WORK, SkippedError, versions
from lab.suites.rows import OutputError
from lab.suites.scenario import Step, Suites

SETTLED_CPUS = 0.2  # in use on the whole machine: the stack itself uses less
LONGEST_SETTLING = 12  # times the settle time
_FAILED = re.compile(r"^(?:# )?\[(.+: status \d+: .*)\]$", re.MULTILINE)  # the scripts' message about a failed program
_LONGEST_LABEL = 1000  # characters: Prometheus refuses a scrape with a label of more than 4096 bytes
BETWEEN_SECONDS = 5.0  # about, until Prometheus has a step's values

Places = Mapping[tuple[str, str], tuple[str, str]]
"""Programs and their libraries, by environment and suite."""


@contextlib.contextmanager
def ready(what: Suites, run: Run) -> Iterator[Experiment]:
    # Debian's lmbench may have made its folder itself.
    with guard.watching(WORK, *(() if HELLO.exists() else (HELLO,))):
        places: dict[tuple[str, str], tuple[str, str]] = {}
        skipped: dict[str, list[str]] = {}  # environments by what is missing
        for environment in what.environments:
            with environment.ready():
                for suite in what.suites:
                    try:
                        places[environment.name, suite] = PROGRAMS[suite].find(what, environment, suite)
                    except SkippedError as error:
                        skipped.setdefault(f"{suite}: {error}", []).append(environment.name)
        said = "; ".join(f"{', '.join(names)} without {reason}" for reason, names in skipped.items())
        if said:
            run.course.say(said)
        steps = [step for step in what.steps if (step.environment, step.suite) in places]
        if not steps:
            raise LabError("none of the scenario's suites can run: see above")
        facts = {**machine.host(), **versions(what), "skipped": said[:_LONGEST_LABEL]}
        yield Experiment(lambda step: measure(step, what, run, places), facts, steps)


def plan(what: Suites) -> list[str]:
    packages = [suite for suite in PACKAGES if suite in what.suites]
    return [
        *([f"On this machine, unpacked below .stack/programs: {', '.join(packages)}"] if packages else []),
        f"There and in guests, files in {WORK} and {HELLO}, which are removed at the end",
        *(f"{each.name}: {', '.join(what.runnable)}, {_where(each)}" for each in what.environments),
        *(f"{suite} is skipped: {NO_COPY.format(suite)}" for suite in what.suites if suite not in what.runnable),
    ]


def _where(environment: Environment) -> str:
    match environment:
        case Guest():
            scripts = "sh with lab/suites/lmbench.sh and stress_ng.sh, and copies of the others"
            return f"by ssh {environment.ssh}: {scripts}"
        case Limited(limits=limits):
            cap = "no cap" if limits.cap is None else f"a cap of {limits.cap:g} CPUs"
            return f"in a cgroup with {cap} and weight {limits.cpu_weight}"
        case Base(cpus=cpus):
            return f"on CPUs {cpus}"


def planned_seconds(what: Suites, steps: Sequence[Step]) -> float:
    return sum(what.settle + PROGRAMS[step.suite].planned(what) + BETWEEN_SECONDS for step in steps)


def measure(step: Step, what: Suites, run: Run, places: Places) -> Outcome:
    [environment] = [one for one in what.environments if one.name == step.environment]
    others = _settle(step, what, run)
    run.course.doing(f"{step.name}: running")
    program, place = PROGRAMS[step.suite], places[step.environment, step.suite]
    output = run.state.folder / f"{step.name.replace('/', '_')}.txt"
    try:
        with environment.ready():
            said = environment.run(program.command(what, step.suite, place), program.timeout)
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
    where = environment.name, environment.virtualization, environment.emulated
    found = [Measurement(*where, test.key, test.unit, test.better, step.repetition, value) for test, value in rows]
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
