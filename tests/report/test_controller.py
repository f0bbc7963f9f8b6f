"""The report of the controller: a run with known values."""

from collections.abc import Iterator

from lab.controller.experiment import ANSWERED, ERROR, FAILED, INSIDE, MISSED, OBJECTIVE, RESERVED, RESPONSE, UNITS
from lab.controller.scenario import EQUAL, NONE, PREDICTED, Controller
from lab.metrics import Measurement
from lab.report.controller import write_up
from tests.report.recordings import NOISE, assert_whole, recorded

SCENARIO = "study: controller\nabout: Everything.\nloads: [[0.45, 0.1], [0.1, 0.45]]\n"
TRUE = {
    NONE: {RESPONSE: 0.02, MISSED: 0.0, RESERVED: 1.0},
    EQUAL: {RESPONSE: 0.3, MISSED: 50.0, RESERVED: 1.0},
    PREDICTED: {RESPONSE: 0.04, MISSED: 6.0, RESERVED: 0.8, ERROR: 12.0, INSIDE: 91.0},
}
OF_ALL = {ANSWERED: 50.0, FAILED: 0.0, OBJECTIVE: 0.06}


def measured(scenario: str) -> Iterator[Measurement]:
    for step in Controller.parse(scenario, "mine.yml").steps:
        for test, value in (TRUE[step.caps] | OF_ALL).items():
            noise = 1 if test == OBJECTIVE else NOISE[step.repetition - 1]
            kind = (step.environment, "cgroup", False, test, *UNITS[test])
            yield Measurement(*kind, repetition=step.repetition, value=value * noise)


def test_what_is_reserved_and_missed_by_kind_of_caps() -> None:
    recording = recorded("controller", measured(SCENARIO), 15)
    page = write_up(recording)
    assert page.verdict == [
        "With no caps: 1 CPU reserved, the objective missed in 0 % of the time, 20 ms on average.",
        "With equal caps: 1 CPU reserved, the objective missed in 50 % of the time, 300 ms on average.",
        "With caps by prediction: 0.8 CPU reserved, the objective missed in 6 % of the time, 40 ms on average.",
        "The median error of predictions was 12 %; 91 % were within their 90 % interval.",
    ]
    text = assert_whole(page, recording)
    assert "| Objective | a mean response of at most 60 ms |" in text
    assert "| caps by prediction | 0.8 CPU (0.798 CPU to 0.802 CPU) | 6 % (5.99 % to 6.01 %) | 40 ms " in text


def test_of_part_of_a_run() -> None:
    recording = recorded("controller", measured(SCENARIO + "caps: equal\nrepetitions: 1\n"), 15, finished=1)
    page = write_up(recording)
    assert page.verdict[0].startswith("With equal caps: ")
    assert page.verdict[1:] == ["The run is not complete: 1 of its 15 steps are recorded."]
    assert write_up(recorded("controller", (), 15, finished=0)).verdict[0].startswith("Nothing was measured")
