"""Scenario files: what they mean, and what is said of one with a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import scenario
from lab.keys import ScenarioError
from lab.scenario import Limit, Step

VALID = """\
about: Two sites, one with less.
instances: [1, 2]
clients: [500, 800]
duration: 2m
"""


@pytest.mark.parametrize("name", ["smoke", "intensity", "scale", "placement", "neighbour"])
def test_shipped_scenarios_are_valid(name: str) -> None:
    shipped = scenario.load(scenario.find(name))
    assert shipped.name == name
    assert len({step.name for step in shipped.steps}) == len(shipped.steps)


def test_scale_has_the_studys_numbers() -> None:
    scale = scenario.load(scenario.find("scale"))
    assert scale.instances == (1, 2, 4)
    assert scale.clients == (500, 600, 700, 800)


def test_steps_run_one_after_the_other() -> None:
    parsed = scenario.parse(VALID + "repetitions: 2\nplacement: [one node, two nodes]\n", "mine.yml")
    assert parsed.steps[:5] == (
        Step(1, 500, "one node", 1),
        Step(1, 800, "one node", 1),
        Step(2, 500, "one node", 1),
        Step(2, 800, "one node", 1),
        Step(1, 500, "two nodes", 1),
    )
    assert [parsed.steps[index].name for index in (0, 4, 8)] == ["1x500-1", "two-nodes-1x500-1", "1x500-2"]
    assert parsed.duration == 120


def test_a_batch_job_makes_steps_of_their_own() -> None:
    parsed = scenario.parse(VALID + "batch: [none, running, stopped]\n", "mine.yml")
    assert [(step.name, step.setting) for step in parsed.steps[:3]] == [
        ("1x500-1", "one node"),
        ("batch-running-1x500-1", "one node, batch job running"),
        ("batch-stopped-1x500-1", "one node, batch job stopped"),
    ]
    assert len({step.name for step in parsed.steps}) == len(parsed.steps) == 12


def test_limits_of_one_server_come_before_those_of_its_tier() -> None:
    parsed = scenario.parse(VALID + "limits: {web: {weight: 200}, auction-2-web: {cap: 0.2}}\n", "mine.yml")
    assert parsed.limit("auction-1", "web") == Limit(weight=200, cap=None)
    assert parsed.limit("auction-2", "web") == Limit(cap=0.2)
    assert parsed.limit("auction-2", "db") == Limit()


KEYS = "about, instances, clients, duration, warm_up, repetitions, placement, batch, think_time, timeout, seed"
KEYS += ", calibration, limits"

ERRORS = [
    ("instanzes: 1\n", "mine.yml:5: instanzes: no such key; did you mean instances?"),
    ("think-time: 7s\n", "mine.yml:5: think-time: no such key; did you mean think_time?"),
    ("colour: red\n", f"mine.yml:5: colour: no such key; there are {KEYS}"),
    ("warm_up: 20\n", "mine.yml:5: warm_up: '20' is not a time from 0s to 3600s, such as 90s or 2m"),
    ("repetitions: many\n", "mine.yml:5: repetitions: 'many' is not a whole number from 1 to 100"),
    ("repetitions: [1, 2]\n", "mine.yml:5: repetitions: must be a whole number from 1 to 100"),
    ("seed: 1\nseed: 2\n", "mine.yml:6: seed: is there twice"),
    ("placement: three nodes\n", "mine.yml:5: placement: there is no placement 'three nodes'; did you mean two nodes?"),
    (
        "placement:\n- one node\n- one node\n",
        "mine.yml:7: placement[2]: 'one node' is there twice; to run it again, use repetitions",
    ),
    ("batch: [none, run]\n", "mine.yml:5: batch[2]: 'run' is none; did you mean running?"),
    ("placement: []\n", "mine.yml:5: placement: the list is empty"),
    ("limits: 0.2\n", "mine.yml:5: limits: must be a mapping, such as `key: value`"),
    ("limits:\n  wed: {cap: 0.2}\n", "mine.yml:6: limits.wed: no such key; did you mean web?"),
    ("limits:\n  web:\n    cpa: 0.2\n", "mine.yml:7: limits.web.cpa: no such key; did you mean cap?"),
    ("limits: {web: {cap: 0.01}}\n", "mine.yml:5: limits.web.cap: 0.01 is not a number of CPUs from 0.05, such as 0.2"),
    (
        "limits:\n  db: {}\n  auction-3-db: {}\n",
        "mine.yml:7: limits.auction-3-db: no such instance runs: there are at most 2",
    ),
    ("seed: [1\n", "mine.yml:6: is not YAML: expected ',' or ']', but got '<stream end>'"),
]


@pytest.mark.parametrize(("added", "message"), ERRORS, ids=[message.split(": ")[1] for _, message in ERRORS])
def test_mistakes_are_named_with_line_key_and_what_would_be_right(added: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario.parse(VALID + added, "mine.yml")
    assert str(error.value) == message


NO_SCENARIOS = [
    ("", "mine.yml:1: is empty; see docs/lab.md for what belongs there"),
    ("about: x\n", "mine.yml:1: instances is missing, for example `instances: 1`"),
    ("- scale\n", "mine.yml:1: must be a mapping, such as `key: value`"),
    (VALID.replace("[1, 2]", "[1, 0]"), "mine.yml:2: instances[2]: '0' is not a whole number from 1 to 32"),
    (VALID.replace("2m", "2 h"), "mine.yml:4: duration: '2 h' is not a time from 15s to 86400s, such as 90s or 2m"),
    (
        VALID.replace("[1, 2]", "32").replace("800", "10000"),
        "mine.yml:3: clients: 10000 for each of 32 instances are 320000: at most 10000 clients can be played at a time",
    ),
    (VALID.replace("2m", "14s"), "mine.yml:4: duration: '14s' is not a time from 15s to 86400s, such as 90s or 2m"),
]


@pytest.mark.parametrize(
    ("text", "message"), NO_SCENARIOS, ids=["empty", "lacking", "list", "zero", "time", "too many", "short"]
)
def test_files_that_are_no_scenario(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario.parse(text, "mine.yml")
    assert str(error.value) == message


def test_scenarios_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"no scenario 'sclae' .*; did you mean scale\?"):
        scenario.find("sclae")
    with pytest.raises(ScenarioError, match=r"mine\.yml: no such file"):
        scenario.find(str(tmp_path / "mine.yml"))
    mine = tmp_path / "mine.yml"
    mine.write_text(VALID)
    assert scenario.load(scenario.find(str(mine))).name == "mine"
    mine.write_bytes(b"about: \xff\n")
    with pytest.raises(ScenarioError, match="can't be read"):
        scenario.load(mine)
