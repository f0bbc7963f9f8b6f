"""Scenarios of benchmark suites: which steps they mean, and what is said of one with a mistake."""

from __future__ import annotations

import pytest

from lab import scenario, studies
from lab.environments import Base, Limited
from lab.keys import ScenarioError
from lab.suites.scenario import Suites, parse

VALID = """\
study: suites
about: Here and in a cgroup.
environments: [base, {name: capped, cap: 0.5}]
"""


def test_the_shipped_scenario_has_the_studys_repetitions() -> None:
    found = studies.load(scenario.find("suites"))
    assert isinstance(found, Suites)
    assert found.repetitions == 5
    assert len({step.name for step in found.steps}) == len(found.steps) == 5 * 2 * 2


def test_a_suite_without_a_copy_has_no_steps() -> None:
    assert {step.suite for step in parse(VALID, "mine.yml").steps} == {"lmbench", "stress-ng"}
    given = parse(VALID + "nbench: /opt/nbench\n", "mine.yml")
    assert {step.suite for step in given.steps} == {"lmbench", "stress-ng", "nbench"}


def test_environments_take_turns_in_being_the_first() -> None:
    found = parse(VALID + "suites: [lmbench, stress-ng]\nrepetitions: 2\n", "mine.yml")
    assert [step.name for step in found.steps] == [
        *("base-lmbench-1", "base-stress-ng-1", "capped-lmbench-1", "capped-stress-ng-1"),
        *("capped-lmbench-2", "capped-stress-ng-2", "base-lmbench-2", "base-stress-ng-2"),
    ]


def test_environments_of_this_machine_have_the_same_cpus() -> None:
    base, capped = parse(VALID + "cpus: 0-1,3\n", "mine.yml").environments
    assert isinstance(base, Base)
    assert base.cpus == "0-1,3"
    assert isinstance(capped, Limited)
    assert (capped.limits.cpus, capped.limits.cap) == ("0-1,3", 0.5)


def test_a_single_cpu_if_none_is_given() -> None:
    base, _ = parse(VALID, "mine.yml").environments
    assert isinstance(base, Base)
    assert base.cpus is not None
    assert base.cpus.isdecimal()


ERRORS = [
    ("suites: lmbensch\n", "4: suites: there is no suite 'lmbensch'; did you mean lmbench?"),
    ("suites: [lmbench, lmbench]\n", "4: suites[2]: 'lmbench' is there twice; to run it again, use repetitions"),
    ("unixbench: UnixBench\n", "4: unixbench: 'UnixBench' is not an absolute path, which each environment needs"),
    ("megabytes: 100\n", "4: megabytes: 100 is not a power of two, as lmbench's sizes are"),
    ("cpus: all\n", "4: cpus: 'all' is not a list of CPUs, such as 1 or 0-1,3"),
    ("settel: 5s\n", "4: settel: no such key; did you mean settle?"),
]


@pytest.mark.parametrize(("added", "message"), ERRORS, ids=[added.partition(":")[0] for added, _ in ERRORS])
def test_mistakes_are_named_with_line_and_key(added: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID + added, "mine.yml")
    assert str(error.value) == f"mine.yml:{message}"


@pytest.mark.parametrize(
    ("environments", "message"),
    [
        (
            "[{name: capped, cap: 0.5}]",
            "environments: base is missing, with which all others are compared: add `- base`",
        ),
        ("[base, base]", "environments[2]: base is there twice; to run it again, use repetitions"),
    ],
)
def test_the_base_is_there_once(environments: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID.replace("[base, {name: capped, cap: 0.5}]", environments), "mine.yml")
    assert str(error.value) == f"mine.yml:3: {message}"
