"""The report's wording: verdict of a consolidation, and number formats."""

import doctest
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

import lab.report
from lab.measuring import summary
from lab.prometheus import Sample
from lab.report.consolidation import Judged, loads, objectives_table, verdict
from lab.scenario import Step


def judged(objective: str, value: float, promised: float, missed: int) -> dict[str, float]:
    found = {"measured": value, "promised": promised, "excess": value / promised, "missed": missed, "judged": 1}
    return {f"{objective} {name}": value for name, value in found.items()}


def step(
    clients: int, mean: float | None, instances: int = 1, repetition: int = 1, **known: float
) -> tuple[Step, Mapping[str, float]]:
    values = {"mean promised": 0.1, "mean missed": 0, "mean judged": 0}
    if mean is not None:
        values = judged("mean", mean, 0.1, int(mean > 0.1)) | {"mean judged": instances}
    return Step(instances, clients, "one node", repetition), values | {
        name.replace("_", " ", 1) if name != "step_cpus" else name: value for name, value in known.items()
    }


def test_what_was_met_or_missed_everywhere() -> None:
    unknown = "Cause unknown: no evidence (for 100 % of the time)."
    for steps, first, last in (
        (
            [step(500, 0.02), step(800, 0.09)],
            "No objective was missed: this run did not reach the knee.",
            "No objective was missed",
        ),
        (
            [step(500, 0.02), step(800, None)],
            "No objective was missed where one could be judged",
            "No objective was missed",
        ),
        ([step(500, 0.3), step(800, 0.9)], "The knee is at or below 1 instance with 500 clients, ", "Cause unknown"),
        ([step(500, 0.3, causes_unknown=1.0)], "", unknown),
        ([step(500, 0.3, causes_self=1.0, neighbours_batch=0.9)], "", "Most likely cause: it "),
    ):
        said = verdict(loads(dict(steps)))
        assert said[0].startswith(first)
        assert said[-1].startswith(last)
        assert "batch" not in said[-1]
    [load] = loads(dict([step(800, 0.02), step(800, 0.2, repetition=2)]))
    assert load.met is False, "one bad repetition is a miss"


def test_the_knee_between_numbers_of_instances() -> None:
    slow = step(800, 0.25, 2, causes_load=0.75, causes_neighbour=0.25, step_cpus=1.0)
    said = verdict(loads(dict([step(800, 0.03), step(500, 0.03, 2), slow])))
    assert said[:2] == [
        "The knee is between 2 instances with 500 clients each (met) and 2 instances with 800 clients each (missed).",
        "First to break, at 2 instances with 800 clients each: 250 ms, objective: mean response at most 100 ms.",
    ]
    assert said[-1] == "Most likely cause: it had more requests than ever before (cause load, for 75 % of the time)."


def test_neighbours_and_alerts_are_beside_missed_objectives() -> None:
    more: dict[str, Any] = {
        "causes_neighbour": 1.0,
        "neighbours_batch": 0.52,
        "neighbours_blog": 0.41,
        "firing_ObjectiveBurnsFast": 1,
    }
    table = objectives_table(loads(dict([step(500, 0.03), step(800, 0.3, **more)])))
    assert table
    assert [row[-2:] for row in table.rows] == [("", ""), ("batch 52 %, blog 41 %", "ObjectiveBurnsFast")]


def test_nothing_is_said_of_clients_that_restarted() -> None:
    given = {name: [Sample({"app": "auction-1"}, 1.0)] for name in ("client_requests", "client_mean", "mean")}
    given["clients_cpu"] = [Sample({}, 0.2)]
    whole = summary(["auction-1"], given)
    assert (whole["clients_cpu"], whole["client_requests"], whole["clients_seen"]) == (0.2, 1.0, 1)
    broken = summary(["auction-1"], given | {"client_broken": [Sample({"app": "auction-1"}, 1.0)]})
    assert not {"clients_cpu", "client_requests", "client_mean"} & broken.keys()
    assert (broken["mean"], broken["clients_seen"]) == (1.0, 0)


def test_each_objective_is_judged_apart_and_met_just_at_its_promise() -> None:
    promises = {("objectives", "latency"): 0.95, ("objectives", "availability"): 0.999}
    promises |= {("thresholds", "mean"): 0.1, ("thresholds", "latency"): 0.3}
    for within, errors, missed in ((0.95, 0.001, [0, 0, 0]), (0.94, 0.0, [0, 1, 0])):
        given = {name: [Sample({"app": "a"}, value)] for name, value in (("mean", 0.1), ("within", within))}
        given["errors"] = [Sample({"app": "a"}, errors)]
        for (name, objective), value in promises.items():
            given.setdefault(name, []).append(Sample({"app": "a", "objective": objective}, value))
        values = summary(["a"], given)
        assert [values[f"{objective} missed"] for objective in ("mean", "latency", "availability")] == missed
    alone = {"measured": 0.1, "promised": 0.1, "missed": 0, "judged": 1}
    assert Judged("mean", alone, apps=2).met is None, "the other could have missed it"


def test_examples_in_the_documentation_are_true() -> None:
    for module in pkgutil.walk_packages(lab.report.__path__, "lab.report."):
        assert doctest.testmod(importlib.import_module(module.name)).failed == 0, module.name
