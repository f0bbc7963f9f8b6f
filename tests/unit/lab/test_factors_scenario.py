"""Scenarios of influence factors: which steps they mean, and what is said of one with a mistake."""

from __future__ import annotations

import pytest

from lab import scenario, studies
from lab.factors.cases import Case
from lab.factors.scenario import (
    AFFINITY,
    CAPS,
    FACTORS,
    OVERCOMMIT,
    SERVERS,
    SPARE_CORE,
    VIRTUALISATION,
    WEIGHTS,
    WORKLOADS,
    Factors,
    parse,
)
from lab.keys import ScenarioError

VALID = """\
study: factors
about: Does pinning help?
cpus: 4
"""
GUESTS = "guests: [{name: a guest, ssh: root@web1, platform: xen, emulated: true}]\n"


def shipped(name: str) -> Factors:
    found = studies.load(scenario.find(name))
    assert isinstance(found, Factors)
    return found


@pytest.mark.parametrize("name", ["factors", "factors-short"])
def test_steps_of_shipped_scenarios_have_names_of_their_own(name: str) -> None:
    found = shipped(name)
    assert found.name == name
    assert found.repetitions >= 5  # enough for an interval
    assert len({step.name for step in found.steps}) == len(found.steps)


def test_the_shipped_scenario_varies_all_factors_under_all_workloads_as_the_study_did() -> None:
    found = shipped("factors")
    assert (found.factors, found.workloads, found.overcommit) == (FACTORS, WORKLOADS, (1, 2, 3, 4))


def test_each_factor_is_a_few_cases_that_differ_in_it_alone() -> None:
    found = parse(VALID + "caps: 0.5\novercommit: [2, 3]\n" + GUESTS, "mine.yml")
    cases = {factor: [case.name for case in found.cases(factor, "cpu")] for factor in FACTORS}
    assert cases == {
        VIRTUALISATION: ["base", "1 server on 1 CPU, pinned", "a guest"],
        SERVERS: [f"{n} server{'s' if n > 1 else ''} on 4 CPUs, free" for n in (1, 2, 3, 4)],
        OVERCOMMIT: [f"{n} servers on 4 CPUs, free" for n in (4, 8, 12)],
        AFFINITY: [
            *("1 server on 4 CPUs, free", "1 server on 4 CPUs, pinned"),
            *("4 servers on 4 CPUs, free", "4 servers on 4 CPUs, pinned"),
        ],
        SPARE_CORE: ["4 servers on 4 CPUs, pinned", "3 servers on 4 CPUs, pinned"],
        WEIGHTS: ["1 server on 1 CPU, pinned", "2 servers on 1 CPU, pinned, weights 100:300"],
        CAPS: ["1 server on 1 CPU, pinned", "1 server on 1 CPU, pinned, cap 0.5"],
    }


def test_a_case_of_several_factors_is_measured_once_and_none_is_always_the_first() -> None:
    found = parse(VALID + "repetitions: 2\nworkloads: cpu\n", "mine.yml")
    first, second = ([step for step in found.steps if step.repetition == number] for number in (1, 2))
    assert len({step.case for step in first}) == len(first)
    assert {step.case for step in first} == {step.case for step in second}
    assert second[-1].case == first[0].case
    assert first[0].name == "cpu-base-1"


def test_factors_of_the_cpu_act_on_what_computes_alone() -> None:
    found = parse(VALID + "workloads: [disk, network]\nrepetitions: 1\n" + GUESTS, "mine.yml")
    for workload in ("disk", "network"):
        assert {step.case.name for step in found.steps if step.workload == workload} == {
            *("base", "1 server on 1 CPU, pinned"),
            *(case.name for case in found.cases(SERVERS, workload)),
        }


CASES = [
    Case(),
    Case(8, 2, pinned=False),
    Case(2, weights=(100, 300)),
    Case(cap=0.05),
    Case(3, 4, weights=(1, 10_000, 7), cap=0.125),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.slug)
def test_the_name_of_a_case_says_all_of_it(case: Case) -> None:
    assert Case.parse(case.name) == case
    assert case.overcommit == case.servers / case.cpus


@pytest.mark.parametrize(
    "name", ["base", "a guest", "4 servers", "2 servers on 1 CPU, pinned, weights 100:300, server 1"]
)
def test_other_names_are_no_cases(name: str) -> None:
    assert Case.parse(name) is None


def test_pinned_servers_take_turns_on_the_cpus_and_leave_the_last_spare() -> None:
    assert Case(4, 2).places([6, 7]) == ["6", "7", "6", "7"]
    assert Case(3, 4).places([4, 5, 6, 7]) == ["4", "5", "6"]
    assert Case(2, 4, pinned=False).places([4, 5, 6, 7]) == ["4,5,6,7"] * 2


ERRORS = [
    ("overcommits: 2\n", "4: overcommits: no such key; did you mean overcommit?"),
    ("factors: [weight]\n", "4: factors[1]: 'weight' is none; did you mean weights?"),
    ("workloads: [gpu]\n", "4: workloads[1]: 'gpu' is none; did you mean cpu?"),
    ("workloads: []\n", "4: workloads: the list is empty"),
    (
        "workloads: [disk]\nfactors: [caps]\n",
        "5: factors: none of them acts on disk: take virtualisation or servers too",
    ),
    ("overcommit: [0.5]\n", "4: overcommit[1]: '0.5' is not a whole number from 1 to 16"),
    ("caps: [1.5]\n", "4: caps[1]: 1.5 is no cap for one thread: give at least 0.05 CPUs, and less than one"),
    ("weights: [100, 100]\n", "4: weights: must be two different weights, such as [100, 300]"),
    ("weights: [100]\n", "4: weights: must be two different weights, such as [100, 300]"),
    ("duration: 2.5s\n", "4: duration: must be whole seconds"),
    ("warm_up: 0s\n", "4: warm_up: '0s' is not a time from 1s to 600s, such as 90s or 2m"),
    ("guests: [base]\n", "4: guests[1]: is no guest: give its name, ssh and platform; the machine itself and a cgroup"),
    (GUESTS.replace("a guest", "base"), "4: guests[1]: the name 'base' is taken; give it another"),
    (
        "guests: [{name: a b, ssh: x, platform: kvm}, {name: a-b, ssh: y, platform: kvm}]\n",
        "4: guests[2]: the name 'a-b' is taken; give it another",
    ),
    (
        GUESTS.replace("a guest", "1on1-pinned"),
        "4: guests: two steps would be called cpu-1on1-pinned-1: make these names or caps differ more",
    ),
    (
        "caps: [0.3000001, 0.3000002]\n",
        "4: caps: two steps would be called cpu-1on1-pinned-cap-0.3-1: make these names or caps differ more",
    ),
]


@pytest.mark.parametrize(("added", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_mistakes_are_named_with_line_and_key(added: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID + added, "mine.yml")
    assert str(error.value).startswith(f"mine.yml:{message}")


def test_one_cpu_has_no_affinity_and_none_to_spare() -> None:
    with pytest.raises(
        ScenarioError, match=r"mine\.yml:3: cpus: affinity needs at least two CPUs; leave it out of factors"
    ):
        parse(VALID.replace("4", "1"), "mine.yml")
    single = parse(VALID.replace("4", "1") + "factors: [overcommit]\n", "mine.yml")
    assert [case.name for case in single.cases(OVERCOMMIT, "cpu")][:2] == [
        "1 server on 1 CPU, free",
        "2 servers on 1 CPU, free",
    ]


def test_more_virtual_servers_than_make_sense_are_refused() -> None:
    with pytest.raises(
        ScenarioError, match=r"mine\.yml:4: overcommit: 1024 virtual servers at the largest overcommitment"
    ):
        parse(VALID.replace("4", "64") + "overcommit: 16\n", "mine.yml")
