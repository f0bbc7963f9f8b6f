"""The runner's view of a study: scenarios as lists of steps, and an experiment that measures one step at a time.

scenario -> Study.ready(scenario, Run) -> Experiment.measure(step) -> measurements -> lab.metrics -> Prometheus
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from lab.keys import Step
from lab.metrics import Measurement, RunnerMetrics
from lab.progress import Course
from lab.scrapes import Scrapes
from lab.state import State


@dataclass(frozen=True)
class Run:
    state: State
    course: Course
    metrics: RunnerMetrics
    scrapes: Scrapes


@dataclass(frozen=True)
class Outcome:
    """A step's measurements, and a line about it."""

    summary: str
    measurements: Sequence[Measurement]


@dataclass(frozen=True)
class Experiment:
    measure: Callable[[Any], Outcome]
    """Measures a step. Raises `LabError`; in any case everything of the step has ended."""
    facts: Mapping[str, str]
    """Labels of lab_run_info."""
    steps: Sequence[Step]
    """The scenario's steps that can run here."""
    ports: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """On loopback, by Prometheus's job: scrape targets besides the runner."""
    check: Callable[[], None] = lambda: None
    """Raises `LabError` if something that should run has ended."""


@dataclass(frozen=True)
class Study:
    """A study; its functions take its own scenarios, and its experiments take their steps."""

    name: str
    parse: Callable[[str, str], Any]
    """Parses a scenario's text, from a file with this name; raises `ScenarioError`."""
    plan: Callable[[Any], list[str]]
    """The changes and programs of a run, as lines to read."""
    planned_seconds: Callable[[Any, Sequence[Any]], float]
    """The approximate duration of steps."""
    ready: Callable[[Any, Run], AbstractContextManager[Experiment]]
    """Makes the machine ready while the block lasts. Raises `LabError`; in any case everything is cleaned up."""
    runs: Callable[[Any], Sequence[Any]] = lambda scenario: (scenario,)
    """The scenarios of a scenario's runs, if it has several."""
