"""Scenarios of dynamic allocation: which steps they mean, and what is said of one with a mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab import scenario, studies
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, Allocation, Elsewhere, Guest, Step, parse
from lab.allocation.switching import plan
from lab.keys import ScenarioError

VALID = """\
study: allocation
about: Two containers, and four.
magnitudes: [[0.2, 0.8], [0.1, 0.4]]
intervals: [6s, 30s]
"""


def shipped(name: str) -> Allocation:
    found = studies.load(scenario.find(name))
    assert isinstance(found, Allocation)
    return found


def test_the_shipped_scenario_has_the_studys_numbers() -> None:
    study = shipped("allocation")
    assert study.intervals == (6, 10, 15, 20, 30)
    assert (study.duration, study.repetitions) == (360, 5)
    of = {
        containers: {(step.mode, step.low, step.high) for step in study.steps if step.containers == containers}
        for containers in (2, 4)
    }
    assert of == {
        2: {
            (STATIC, 0.5, 0.5),
            (CONTROL, 0.5, 0.5),
            *((DYNAMIC, low, high) for low, high in ((0.4, 0.6), (0.3, 0.7), (0.2, 0.8))),
        },
        4: {
            (STATIC, 0.25, 0.25),
            (CONTROL, 0.25, 0.25),
            *((DYNAMIC, low, high) for low, high in ((0.2, 0.3), (0.15, 0.35), (0.1, 0.4))),
        },
    }


@pytest.mark.parametrize("name", ["allocation", "allocation-short"])
def test_steps_of_shipped_scenarios_have_names_of_their_own(name: str) -> None:
    found = shipped(name)
    assert found.name == name
    assert found.repetitions >= 5  # enough for an interval
    assert len({step.name for step in found.steps}) == len(found.steps)


def test_each_block_has_its_own_baseline_and_another_first_step_in_each_repetition() -> None:
    found = parse(VALID + "repetitions: 2\npinning: [unpinned, pinned]\n", "mine.yml")
    names = [step.name for step in found.steps]
    assert names[:6] == [
        *("2xstatic-6s-1", "2xcontrol-6s-1", "2x0.2-0.8-6s-1"),
        *("2xstatic-30s-1", "2xcontrol-30s-1", "2x0.2-0.8-30s-1"),
    ]
    assert names[12] == "pinned-2xstatic-6s-1"
    assert names[24:27] == ["2xcontrol-6s-2", "2x0.2-0.8-6s-2", "2xstatic-6s-2"]
    assert len(names) == 2 * 2 * 2 * 2 * 3


@pytest.mark.parametrize(("containers", "low", "high"), [(2, 0.2, 0.8), (4, 0.1, 0.4)])
def test_caps_change_places_and_always_add_up_to_one_cpu(containers: int, low: float, high: float) -> None:
    step = Step(containers, "unpinned", 6, DYNAMIC, low, high, repetition=1)
    for switches in range(3):
        caps = [step.cap(container, switches) for container in range(containers)]
        assert sum(caps) == pytest.approx(1)
        assert caps[0] == (low, high)[switches % 2]
        assert set(caps[::2]) | set(caps[1::2]) == {low, high}
        assert len(set(caps[::2])) == len(set(caps[1::2])) == 1


def test_a_control_writes_the_same_caps_again() -> None:
    control = Step(2, "unpinned", 6, CONTROL, 0.5, 0.5, repetition=1)
    assert {control.cap(container, switches) for container in (0, 1) for switches in (0, 1)} == {0.5}


KEYS = "study, about, magnitudes, intervals, duration, warm_up, repetitions, pinning, load, target"
ERRORS = [
    ("pining: pinned\n", "mine.yml:5: pining: no such key; did you mean pinning?"),
    ("clients: 800\n", f"mine.yml:5: clients: no such key; there are {KEYS}"),
    (
        "pinning: [pinned, free]\n",
        "mine.yml:5: pinning[2]: 'free' is none; there are unpinned, pinned",
    ),
    ("duration: 59s\n", "mine.yml:5: duration: 59 s are too short for switches every 30 s: give at least 60s"),
    ("duration: 90.5s\n", "mine.yml:5: duration: must be whole seconds"),
    ("duration: 90\n", "mine.yml:5: duration: '90' is not a time from 6s to 86400s, such as 90s or 2m"),
    ("repetitions: 0\n", "mine.yml:5: repetitions: '0' is not a whole number from 1 to 100"),
]


@pytest.mark.parametrize(("added", "message"), ERRORS, ids=[message[12:40] for _, message in ERRORS])
def test_mistakes_are_named_with_line_and_key(added: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID + added, "mine.yml")
    assert str(error.value) == message


MAGNITUDES = [
    ("[]", "magnitudes: the list is empty"),
    ("0.2", "magnitudes: must be a list"),
    ("[0.2, 0.8]", "magnitudes[1]: must be a list"),
    ("[[0.2]]", "magnitudes[1]: must be the smaller and the larger cap, such as [0.2, 0.8]"),
    ("[[0.2, x]]", "magnitudes[1][2]: must be a number, such as 0.5"),
    (
        "[[0.5, 0.5]]",
        (
            "magnitudes[1]: the first cap must be the smaller one; "
            "equal caps always run, as the static baseline and the control"
        ),
    ),
    ("[[0.01, 0.99]]", "magnitudes[1]: 0.01 is less than the smallest cap, 0.05 CPUs"),
    (
        "[[0.2, 0.8], [0.2, 0.7]]",
        "magnitudes[2]: caps of two containers add up to 1, those of four to 0.5 in each pair, not to 0.9",
    ),
    ("[[0.2, 0.8], [0.2, 0.8]]", "magnitudes[2]: is there twice; to run it again, use repetitions"),
]


@pytest.mark.parametrize(("magnitudes", "message"), MAGNITUDES, ids=[magnitudes for magnitudes, _ in MAGNITUDES])
def test_magnitudes_that_are_none(magnitudes: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID.replace("[[0.2, 0.8], [0.1, 0.4]]", magnitudes), "mine.yml")
    assert str(error.value) == f"mine.yml:3: {message}"


def test_an_interval_that_leaves_no_second_without_effect_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"mine\.yml:4: intervals\[1\]: '2s' is not a time from 3s to 3600s"):
        parse(VALID.replace("6s", "2s"), "mine.yml")


def test_the_default_duration_must_be_long_enough_too() -> None:
    with pytest.raises(ScenarioError, match=r"mine\.yml:4: intervals: 360 s are too short .* give at least 400s"):
        parse(VALID.replace("30s", "200s"), "mine.yml")


def test_a_file_says_which_study_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yml"
    mine.write_text(VALID)
    assert isinstance(studies.load(mine), Allocation)
    mine.write_text(VALID.replace("allocation", "allocations"))
    with pytest.raises(ScenarioError) as error:
        studies.load(mine)
    assert str(error.value) == (
        "mine.yml:1: study: there is no study 'allocations'; did you mean allocation?; "
        "without this key it is consolidation"
    )
    mine.write_text("")
    with pytest.raises(ScenarioError, match="is empty"):
        studies.load(mine)


TARGET = """\
target:
  platform: xen
  host: root@xen1
  guests: [{name: web1, ssh: root@web1}, db 1]
"""
OF_TWO = VALID.replace("[[0.2, 0.8], [0.1, 0.4]]", "[[0.2, 0.8]]")


def test_guests_of_another_host() -> None:
    found = parse(OF_TWO + TARGET, "mine.yml").target
    assert found == Elsewhere("xen", "root@xen1", (Guest("web1", "root@web1"), Guest("db 1")), emulated=False)
    assert parse(OF_TWO + TARGET + "  emulated: true\n", "mine.yml").target == replace(found, emulated=True)


def test_each_host_of_a_list_has_a_run() -> None:
    two = """\
target:
- {platform: xen, host: root@xen1, guests: [a, b]}
- {platform: kvm, host: "ssh://root@kvm1:22", guests: [c, d]}
"""
    what = parse(OF_TWO + two, "mine.yml")
    assert [(run.name, run.target) for run in what.runs] == [
        ("mine-xen1", Elsewhere("xen", "root@xen1", (Guest("a"), Guest("b")))),
        ("mine-kvm1-22", Elsewhere("kvm", "ssh://root@kvm1:22", (Guest("c"), Guest("d")))),
    ]
    assert {run.steps for run in what.runs} == {what.steps}
    lines = plan(what)
    assert [line for line in lines if line.startswith("On ")] == [
        "On root@xen1, over ssh:",
        "On ssh://root@kvm1:22, over ssh:",
    ]
    [alone] = parse(OF_TWO + TARGET, "mine.yml").runs
    assert alone.name == "mine"


TARGETS = [
    (
        TARGET.replace("xen\n", "xem\n"),
        "mine.yml:6: target.platform: 'xem' is no platform; did you mean xen?",
    ),
    (TARGET.replace("host", "hots"), "mine.yml:7: target.hots: no such key; did you mean host?"),
    (
        TARGET.replace(", db 1", ""),
        "mine.yml:8: target.guests: must be two or four guests, not 1",
    ),
    (TARGET.replace("db 1", "web1"), "mine.yml:8: target.guests: two guests have the same name"),
    (
        TARGET.replace("db 1", "{name: db}"),
        "mine.yml:8: target.guests[2]: ssh is missing, for example `ssh: root@web1`",
    ),
    (
        TARGET.replace("db 1", "-c"),
        "mine.yml:8: target.guests[2]: '-c' is no name: it must be printable, and not begin with -",
    ),
    (
        TARGET.replace("db 1", r'"a\nb"'),
        r"mine.yml:8: target.guests[2]: 'a\nb' is no name: it must be printable, and not begin with -",
    ),
    (
        "target: []\n",
        "mine.yml:5: target: the list is empty",
    ),
    (
        "target:\n- {platform: xen, host: root@xen1, guests: [a, b]}\n- {platform: xen, host: xen1, guests: [c, d]}\n",
        "mine.yml:7: target[2]: the host xen1 is there twice, and has one run",
    ),
    (
        f"{TARGET}pinning: pinned\n",
        "mine.yml:9: pinning: is of cgroups: how a host's guests are pinned is left as it is",
    ),
]


@pytest.mark.parametrize(("added", "message"), TARGETS, ids=[message[9:40] for _, message in TARGETS])
def test_targets_that_are_none(added: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(OF_TWO + added, "mine.yml")
    assert str(error.value) == message


def test_caps_must_be_those_of_as_many_guests() -> None:
    with pytest.raises(ScenarioError) as error:
        parse(VALID + TARGET, "mine.yml")
    assert str(error.value) == "mine.yml:3: magnitudes[2]: is of 4 containers, but root@xen1 has 2 guests"


def test_caps_that_xl_would_round_are_refused() -> None:
    with pytest.raises(ScenarioError) as error:
        parse(OF_TWO.replace("[0.2, 0.8]", "[0.333, 0.667]") + TARGET, "mine.yml")
    assert str(error.value) == "mine.yml:3: magnitudes[1]: caps of xen are whole percent of a CPU, such as 0.25"
