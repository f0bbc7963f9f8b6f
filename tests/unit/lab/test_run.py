"""The runner: each step is measured once, and finished only when Prometheus has its results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from lab import LabError, keys, run, scrapes, targets
from lab.measurements import Measurement
from lab.state import State
from lab.study import Experiment, Outcome, Run, Study


@dataclass(frozen=True)
class Step:
    name: str


class Scenario(keys.Scenario):
    steps = property(lambda _: (Step("a-1"), Step("b-1"), Step("c-1")))


def test_a_run_goes_on_with_the_first_step_that_prometheus_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    lost = {"b-1"}

    def await_measurements(_port: int, _run: str, step: str, found: list[Measurement], _check: object) -> None:
        log.append(f"await {len(found)} of {step}")
        if step in lost:
            raise LabError("Prometheus is gone")

    @contextlib.contextmanager
    def ready(what: Scenario, _: Run) -> Iterator[Experiment]:
        def measure(step: Step) -> Outcome:
            log.append(f"measure {step.name}")
            found = [Measurement("base", "none", False, "fork", "s", "lower", 1, 2.0)]
            return Outcome(f"{step.name}: done", found if step.name != "c-1" else [])

        log.append("ready")
        try:
            yield Experiment(measure, {"cpus": "2"}, what.steps, {"telegraf": (9,)})
        finally:
            log.append("cleaned up")

    monkeypatch.setattr(scrapes, "await_measurements", await_measurements)
    monkeypatch.setattr(scrapes, "await_targets", lambda _port, ports, _check: log.append(", ".join(sorted(ports))))
    monkeypatch.setattr(targets, "written", lambda _ports: contextlib.nullcontext())
    study = Study("test", lambda *_: None, lambda _: ["Nothing."], lambda _, steps: 10.0 * len(steps), ready)
    what, console = Scenario.parse("about: Three steps.\n", "mine.yml"), Console(width=200)
    state = State.begin(what, datetime(2026, 11, 23, tzinfo=UTC), tmp_path)
    with pytest.raises(LabError, match="Prometheus is gone"):
        run._carry_out(study, what, state, console, 9090)
    begun = ["ready", "lab, telegraf"]
    assert log == [*begun, "measure a-1", "await 1 of a-1", "measure b-1", "await 1 of b-1", "cleaned up"]
    assert state.finished == ["a-1"]
    log.clear()
    lost.clear()
    run._carry_out(study, what, state, console, 9090)
    assert log == [*begun, "measure b-1", "await 1 of b-1", "measure c-1", "cleaned up"]
    assert state.finished == ["a-1", "b-1", "c-1"]
    said = capsys.readouterr().out
    assert "Three steps.\nNothing.\na-1: done" in said
    assert "going on after 1 of 3 steps: Three steps." in said
