"""The runner: each step is measured once, and finished only when Prometheus has its results."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lab import LabError, keys, run
from lab.metrics import Measurement
from lab.scrapes import Scrapes
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

    def await_measurements(_: object, _run: str, step: str, found: list[Measurement], _check: object) -> None:
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

    monkeypatch.setattr(Scrapes, "await_measurements", await_measurements)
    monkeypatch.setattr(Scrapes, "await_targets", lambda _, ports, _check: log.append(", ".join(sorted(ports))))
    monkeypatch.setattr(run, "targets_written", lambda _ports: contextlib.nullcontext())
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


def test_each_run_of_a_scenario_has_its_report_and_one_that_failed_is_run_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, *hosts = [Scenario.parse("about: Two hosts.\n", f"{name}.yml") for name in ("mine", "mine-a", "mine-b")]
    done: list[str] = []
    away = {"mine-b"}

    def carry_out(_study: Study, one: Scenario, _state: State, *_: object) -> None:
        if one.name in away:
            raise LabError("no answer")
        done.append(one.name)

    monkeypatch.setattr(run, "_carry_out", carry_out)
    monkeypatch.setattr(run, "_alone", contextlib.nullcontext)
    monkeypatch.setattr("lab.guard.watching", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(run, "_stack", lambda: 9090)
    monkeypatch.setattr(run, "_report", lambda run, _port: done.append(f"report {run.partition('-')[2]}"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for name in ("begin", "unfinished"):
        monkeypatch.setattr(State, name, partial(getattr(State, name), runs=tmp_path))
    unused: Any = None
    study = Study("test", unused, unused, unused, unused, lambda _: hosts)
    with pytest.raises(LabError, match="no answer"):
        run.run(study, what)
    assert done == ["mine-a", "report mine-a"]
    away.clear()
    run.run(study, what)
    assert done[2:] == ["mine-b", "report mine-b"]
