"""Measurements as exposed, and as read back by a report."""

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lab.metrics import Measurement, RunnerMetrics
from lab.prometheus import Prometheus, Recorded, Sample
from lab.report import recorded

FAST = Measurement("base", "none", False, "fork", "microseconds", "lower", 1, 131.5)
SLOW = Measurement('a "guest"', "xen", True, "fork", "microseconds", "lower", 1, 502.25)


def test_what_is_exposed_is_read_back_unchanged() -> None:
    metrics = RunnerMetrics()
    try:
        metrics.add("run-1", "base-1", [FAST])
        metrics.add("run-1", "guest-1", [SLOW])
        text = generate_latest(metrics.registry).decode()
    finally:
        metrics.stop()
    [family] = [found for found in text_string_to_metric_families(text) if found.name == "lab_measurement"]
    samples = [Sample(sample.labels, sample.value) for sample in family.samples]
    assert [recorded.measurement(sample) for sample in samples] == [FAST, SLOW]
    steps = [(sample.labels["run"], sample.labels["step"]) for sample in samples]
    assert steps == [("run-1", "base-1"), ("run-1", "guest-1")]


def test_runs_go_from_the_first_sample_to_the_last_and_the_newest_is_the_first() -> None:
    def series(run: str, times: list[float], instance: str) -> Recorded:
        labels = {"run": run, "study": "suites", "scenario": "mine", "host": "lab", "instance": instance}
        return Recorded(labels, tuple((time, 1.0) for time in times))

    found = recorded.runs([series("a", [5, 10], "1"), series("b", [40], "1"), series("a", [20, 25], "2")])
    assert [(run.name, run.start, run.end) for run in found] == [("b", 40, 40), ("a", 5, 25)]
    assert recorded.query("lab_measurement", found[1]) == 'last_over_time(lab_measurement{run="a"}[21s] @ 25)'


class Answers(Prometheus):
    """A Prometheus with these answers by metric."""

    def __init__(self, given: dict[str, list[Sample]]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._given = given

    def vector(self, query: str) -> list[Sample]:
        return next((found for metric, found in self._given.items() if f"({metric}{{" in query), [])


def test_of_two_attempts_at_a_step_the_later_counts() -> None:
    def sample(attempt: str, value: float, instance: str) -> Sample:
        labels = {
            "run": "run-1", "step": "base-1", "environment": "base", "virtualization": "none", "emulated": "no",
            "test": "fork", "unit": "s", "better": "lower", "repetition": "1", "attempt": attempt, "instance": instance,
        }  # fmt: skip
        return Sample(labels, value)

    prometheus = Answers(
        {
            "lab_run_planned_steps": [Sample({"run": "run-1"}, 6)],
            "lab_step_unsettled_cpus": [Sample({"run": "run-1", "step": "base-1"}, 1.5)],
            "lab_measurement": [sample("1795424799", 7.0, "new"), sample("1795424712", 5.0, "old")],
        }
    )
    info = {"run": "run-1", "study": "suites", "scenario": "mine", "host": "lab", "cpus": "2"}
    run = recorded.Run(info, 1_795_424_700, 1_795_424_900)
    found = recorded.collect(prometheus, run, asked_at=1_795_425_000)
    assert [one.value for one in found.measurements] == [7.0]
    assert (found.finished_steps, found.planned_steps, found.info["cpus"]) == (1, 6, "2")
    assert found.unsettled == {"base-1": 1.5}
