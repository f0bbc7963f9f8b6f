"""The report's wording: verdict, remarks and number formats."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Mapping

import lab.report
from lab.prometheus import Sample
from lab.report.consolidation.page import objectives_table
from lab.report.consolidation.queries import Step
from lab.report.consolidation.results import App, StepResult, loads, result
from lab.report.consolidation.verdict import verdict

OBJECTIVES = {
    "objectives latency": 0.95,
    "objectives availability": 0.999,
    "thresholds mean": 0.1,
    "thresholds latency": 0.3,
}


def instance(
    mean: float | None,
    within: float = 1.0,
    errors: float = 0.0,
    *,
    app: str = "auction-1",
    parts: Mapping[str, float] | None = None,
) -> App:
    measured = {} if mean is None else {"mean": mean, "within": within, "errors": errors}
    return App(app, OBJECTIVES | measured | dict(parts or {}))


def step(clients: int, *of: App, placement: str = "one node", repetition: int = 1, **known: float) -> StepResult:
    name = f"{len(of)}x{clients}-{repetition}"
    at = Step("run", name, len(of), clients, placement, repetition, "vm", "cgroup", start=0, end=120)
    return StepResult(at, of, known)


class TestVerdict:
    def test_what_was_met_or_missed_everywhere(self) -> None:
        unknown = "Cause unknown: no evidence (for 100 % of the time)."
        for steps, first, last in (
            (
                [step(500, instance(0.02)), step(800, instance(0.09))],
                "No objective was missed: this run did not reach the knee.",
                "1 instance: every objective met up to 800 clients per instance.",
            ),
            (
                [step(500, instance(0.02)), step(800, instance(None))],
                "No objective was missed where one could be judged",
                "1 instance: every objective met up to 500 clients per instance. Not judged: 800 clients.",
            ),
            (
                [step(500, instance(0.3)), step(800, instance(0.9))],
                "Objectives were missed at every load",
                "Cause unknown",
            ),
            ([step(500, instance(0.3, parts={"causes unknown": 1.0}))], "", unknown),
            (
                [step(500, instance(0.3, parts={"causes self": 1, "neighbours batch": 0.9}))],
                "",
                "Most likely cause: it ",
            ),
        ):
            said = verdict(loads(steps))
            assert said[0].startswith(first)
            assert said[-1].startswith(last)
            assert "batch" not in said[-1]
        (load,) = loads([step(800, instance(0.02)), step(800, instance(0.2), repetition=2)])
        assert load.met is False, "one bad repetition is a miss"

    def test_the_knee_between_numbers_of_instances(self) -> None:
        calm = instance(0.03)
        slow = instance(0.25, app="auction-2", parts={"causes load": 0.75, "causes neighbour": 0.25})
        said = verdict(loads([step(800, calm), step(500, calm, calm), step(800, calm, slow, step_cpus=1.0)]))
        assert said[0] == "The knee is with 2 instances, between 500 clients each (met) and 800 (missed)."
        assert said[-2] == (
            "First to break, at 2 instances with 800 clients each: mean response 250 ms, objective at most "
            "100 ms (the worst of 1 instance that missed)."
        )
        assert (
            said[-1] == "Most likely cause: it had more requests than ever before (cause load, for 75 % of the time)."
        )

    def test_neighbours_and_alerts_are_beside_missed_objectives(self) -> None:
        named = {"neighbours batch": 0.52, "neighbours blog": 0.41, "firing ObjectiveBurnsFast": 1.0}
        slow = instance(0.3, parts={"causes neighbour": 1.0} | named)
        table = objectives_table(loads([step(500, instance(0.03)), step(800, slow)]))
        assert table
        assert [row[-2:] for row in table.rows] == [("", ""), ("batch 52 %, blog 41 %", "ObjectiveBurnsFast")]


def test_nothing_is_said_of_clients_that_restarted() -> None:
    at = step(500, instance(0.02)).step
    of_app = {name: [Sample({"app": "auction-1"}, 1.0)] for name in ("client_requests", "client_mean", "mean")}
    given = of_app | {"clients_cpu": [Sample({}, 0.2)]}
    whole = result(at, ["auction-1"], given)
    assert (whole.value("clients_cpu"), whole.value("client_requests")) == (0.2, 1.0)
    broken = result(at, ["auction-1"], given | {"client_broken": [Sample({"app": "auction-1"}, 1.0)]})
    assert (broken.value("clients_cpu"), broken.value("client_requests"), broken.value("mean")) == (None, None, 1.0)
    assert "no client values of auction-1: the client restarted" in broken.remarks


def test_each_objective_is_judged_apart_and_met_just_at_its_promise() -> None:
    assert all(one.met for one in instance(0.1, 0.95, 0.001).judged)
    judged = instance(0.05, 0.94, 0.0).judged
    assert {one.objective: one.met for one in judged} == {"mean": True, "latency": False, "availability": True}


def test_examples_in_the_documentation_are_true() -> None:
    for module in pkgutil.walk_packages(lab.report.__path__, "lab.report."):
        assert doctest.testmod(importlib.import_module(module.name)).failed == 0, module.name
