"""What a study is to the runner: scenarios that are a list of steps, and an experiment that measures one at a time.

scenario -> Study.ready(scenario, Run) -> Experiment.measure(step) -> measurements -> lab.metrics -> Prometheus
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from lab.keys import Step
from lab.measurements import Measurement
from lab.metrics import RunnerMetrics
from lab.progress import Course
from lab.state import State


@dataclass(frozen=True)
class Run:
    """A run that goes on."""

    state: State
    course: Course
    metrics: RunnerMetrics
    prometheus_port: int


@dataclass(frozen=True)
class Outcome:
    """What a step has measured, and a line about it."""

    summary: str
    measurements: Sequence[Measurement] = ()


@dataclass(frozen=True)
class Experiment:
    """A scenario on a machine that is ready for it."""

    measure: Callable[[Any], Outcome]
    """Measures a step. Raises `LabError`; in any case everything of the step has ended."""
    facts: Mapping[str, str]
    """Labels of lab_run_info."""
    steps: Sequence[Step]
    """Those of the scenario that can run here."""
    ports: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """On loopback, by Prometheus's job: what it scrapes besides the runner."""
    check: Callable[[], None] = lambda: None
    """Raises `LabError` if something that should run has ended."""


@dataclass(frozen=True)
class Study:
    """A study; its functions take its own scenarios, and its experiments their steps."""

    name: str
    parse: Callable[[str, str], Any]
    """The scenario in a text, from a file of this name; raises `ScenarioError`."""
    plan: Callable[[Any], list[str]]
    """What a run changes or runs where, as lines to read."""
    planned_seconds: Callable[[Any, Sequence[Any]], float]
    """How long steps take, about."""
    ready: Callable[[Any, Run], AbstractContextManager[Experiment]]
    """Makes the machine ready, as long as the block lasts. Raises `LabError`; in any case everything is cleaned up."""
    runs: Callable[[Any], Sequence[Any]] = lambda scenario: (scenario,)
    """The scenarios of a scenario's runs, if it has several."""
