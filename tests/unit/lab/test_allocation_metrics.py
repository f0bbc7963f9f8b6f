"""What a step of dynamic allocation exposes while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lab.allocation.metrics import Attempt, Metrics, Sample, Sums
from lab.allocation.scenario import DYNAMIC, Step
from lab.machine import TICKS, cpu_seconds

STEP = Step(2, "unpinned", 6, DYNAMIC, 0.2, 0.8, repetition=1)


def exposed(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """The values by metric, `since` and `cap`."""
    return {
        (sample.name, *(sample.labels[name] for name in ("since", "cap") if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples
        if sample.labels["attempt"] == "1790000000" and sample.labels["step"] == STEP.name
    }


def test_all_that_was_used_is_in_the_second_in_which_it_was_and_with_the_cap_of_then() -> None:
    sums = Sums()
    sums.add(Sample(10, 100, [5, 6], 1000), Sample(11, 101.5, [5.2, 6.8], 1500), "never", [0.2, 0.8])
    sums.add(Sample(11, 101.5, [5.2, 6.8], 1500), Sample(12, 103, [5.9, 7.1], 2100), "0", [0.8, 0.2])
    sums.add(Sample(12, 103, [5.9, 7.1], 2100), Sample(13, 104, [6.7, 7.3], 2600), "0", [0.8, 0.2])
    metrics = Metrics()
    try:
        metrics.show(Attempt("run-1", "mine", STEP, 1_790_000_000, 360), sums)
        found = exposed(metrics)
        assert found["lab_allocation_seconds_total", "0"] == 2
        assert found["lab_allocation_machine_cpu_seconds_total", "never"] == 1.5
        assert found["lab_allocation_container_cpu_seconds_total", "0", "0.8"] == pytest.approx(1.5)
        assert found["lab_allocation_container_cpu_seconds_total", "0", "0.2"] == pytest.approx(0.5)
        assert found["lab_allocation_tasks_total",] == 1600
        assert found["lab_allocation_step_planned_seconds",] == 360
        metrics.clear()
        assert exposed(metrics) == {}
    finally:
        metrics.stop()


def test_the_machines_cpu_is_all_that_was_not_idle(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 4000 500 6 7 80 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert cpu_seconds(tmp_path) == (100 + 20 + 30 + 6 + 7) / TICKS
