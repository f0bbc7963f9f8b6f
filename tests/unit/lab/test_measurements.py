"""Measurements as exposed, and as read back by a report."""

from typing import Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lab.metrics import Measurement, RunnerMetrics
from lab.prometheus import Recorded, Sample
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
    series = [
        Recorded({"run": run, "instance": instance}, tuple((time, 1.0) for time in times))
        for run, instance, times in (("a", "1", (5.0, 10.0)), ("b", "1", (40.0,)), ("a", "2", (20.0, 25.0)))
    ]
    found = recorded.runs(series)
    assert [(run.name, run.start, run.end) for run in found] == [("b", 40, 40), ("a", 5, 25)]
    assert recorded.query("lab_measurement", found[1]) == 'last_over_time(lab_measurement{run="a"}[21s] @ 25)'


def test_of_two_attempts_at_a_step_the_later_counts() -> None:
    common = {
        "run": "run-1", "step": "base-1", "environment": "base", "virtualization": "none", "emulated": "no",
        "test": "fork", "unit": "s", "better": "lower", "repetition": "1",
    }  # fmt: skip

    class Prometheus:
        url = "http://127.0.0.1:1"

        def vector(self, query: str) -> list[Sample]:
            given = {
                "lab_run_planned_steps": [Sample({}, 6)],
                "lab_step_unsettled_cpus": [Sample({"step": "base-1"}, 1.5)],
                "lab_measurement": [
                    Sample({**common, "attempt": "1795424799", "instance": "new"}, 7.0),
                    Sample({**common, "attempt": "1795424712", "instance": "old"}, 5.0),
                ],
            }
            return next(found for metric, found in given.items() if f"({metric}{{" in query)

    prometheus: Any = Prometheus()
    run = recorded.Run({"run": "run-1", "study": "suites", "scenario": "mine"}, 1_795_424_700, 1_795_424_900)
    found = recorded.collect(prometheus, run, asked_at=1_795_425_000)
    assert [one.value for one in found.measurements] == [7.0]
    assert (found.finished_steps, found.planned_steps, found.unsettled) == (1, 6, {"base-1": 1.5})
