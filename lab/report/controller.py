"""The report of the controller: caps by prediction, compared with equal caps and with none."""

from collections.abc import Iterator

from lab.controller.experiment import ANSWERED, ERROR, FAILED, INSIDE, MISSED, OBJECTIVE, RESERVED, RESPONSE
from lab.controller.scenario import ENVIRONMENTS, PREDICTED
from lab.report.comparison import Values
from lab.report.page import Columns, Page, Section, table
from lab.report.recorded import Recording
from lab.report.statistics import interval
from lab.report.units import MISSING, unit_of

COLUMNS = {
    RESERVED: "CPUs reserved",
    MISSED: "Objective missed",
    RESPONSE: "Mean response",
    ANSWERED: "Requests",
    FAILED: "Failed",
}


def write_up(recording: Recording) -> Page:
    values = Values(recording.measurements)
    measured = [name for name in ENVIRONMENTS.values() if name in values.tests]
    columns: Columns[str] = (
        ("Caps", lambda name: name),
        *((title, lambda name, test=test: _cell(values, name, test)) for test, title in COLUMNS.items()),
        ("n", lambda name: str(len(values.tests[name][RESPONSE]))),
    )
    objectives = {_mean(values, name, OBJECTIVE) for name in measured}
    facts = {"Objective": f"a mean response of at most {objectives.pop()}"} if len(objectives) == 1 else {}
    return Page(recording, [*_verdict(values, measured)], [Section("caps", table(measured, columns))], facts=facts)


def _verdict(values: Values, measured: list[str]) -> Iterator[str]:
    for name in measured:
        reserved, missed, response = (_mean(values, name, test) for test in (RESERVED, MISSED, RESPONSE))
        yield f"With {name}: {reserved} reserved, the objective missed in {missed} of the time, {response} on average."
    if (name := ENVIRONMENTS[PREDICTED]) in measured and ERROR in values.tests[name]:
        error, inside = _mean(values, name, ERROR), _mean(values, name, INSIDE)
        yield f"The median error of predictions was {error}; {inside} were within their 90 % interval."
    if not measured:
        yield "Nothing was measured, so there is nothing to say yet."


def _mean(values: Values, name: str, test: str) -> str:
    found = values.mean(name, test)
    return unit_of(values.units[test][0]).write(found.value) if found else MISSING


def _cell(values: Values, name: str, test: str) -> str:
    """The mean with its interval."""
    found = values.mean(name, test)
    ends = interval(found, unit_of(values.units[test][0]).write) if found else ""
    return f"{_mean(values, name, test)}{ends and f' ({ends})'}"
