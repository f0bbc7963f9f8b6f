"""The plan of a run: what is in it, and that a seed says all of it."""

from __future__ import annotations

import itertools
import re

import pytest

from truth import CHECKOUT, episodes
from truth.episodes import ALL, KINDS, OTHER, VICTIMS, Episode, Load
from truth.judgement import CONTROLS

SEEDS = range(20)


@pytest.fixture(params=SEEDS)
def plan(request: pytest.FixtureRequest) -> list[Episode]:
    return episodes.plan(request.param, ALL)


def test_it_has_a_hundred_episodes_of_all_kinds_and_fifty_controls(plan: list[Episode]) -> None:
    assert len(plan) >= 100
    assert {episode.kind for episode in plan} == KINDS.keys()
    assert sum(not episode.disturbed for episode in plan) >= CONTROLS
    assert [episode.number for episode in plan] == [*range(1, len(plan) + 1)]


def test_it_lasts_about_an_hour(plan: list[Episode]) -> None:
    assert 40 * 60 < sum(episode.seconds(25) for episode in plan) < 60 * 60


def test_a_seed_says_all_of_it() -> None:
    assert episodes.plan(7, 50) == episodes.plan(7, 50)
    assert episodes.plan(7, 50) != episodes.plan(8, 50)


@pytest.mark.parametrize("number", [1, 12, 50, 108, 300])
def test_any_number_of_episodes_is_shared_out(number: int) -> None:
    assert sum(episodes.counts(number).values()) == len(episodes.plan(1, number)) == number
    assert all(abs(count - KINDS[kind].share * number / ALL) < 1 for kind, count in episodes.counts(number).items()), (
        "no kind is far from its share"
    )


def test_the_guest_rests_between_two_episodes(plan: list[Episode]) -> None:
    assert not any(one.guests and other.guests for one, other in itertools.pairwise(plan))


def test_names_are_no_ones_twice(plan: list[Episode]) -> None:
    for episode in plan:
        names = [*episode.scene.culprits, *episode.scene.decoys, *episode.guests, "web"]
        assert len(names) == len({*names}), episode


def test_nobody_but_culprits_computes_where_and_when_the_victim_does(plan: list[Episode]) -> None:
    """At any millisecond of four seconds, twice the longest period."""
    for episode in plan:
        victim = episode.scene.victim or Load(1.0, 0.0, 1.0, 1.0, 0.0, (VICTIMS,))
        met = {
            name: any(on(load, at / 1000) and on(victim, at / 1000) for at in range(4000))
            and bool({*load.cpus} & {*victim.cpus})
            for name, load in {**episode.scene.culprits, **episode.scene.decoys}.items()
        }
        assert {name for name, meets in met.items() if meets} == {*episode.scene.culprits}, episode


def test_culprits_and_decoys_use_as_much_cpu_as_each_other(plan: list[Episode]) -> None:
    for episode in plan:
        if episode.kind.startswith(("one culprit", "one, a decoy", "two", "one, the")):
            loads = [*episode.scene.culprits.values(), *episode.scene.decoys.values()]
            assert len({(load.period, load.duty, load.threads) for load in loads}) == 1


def test_a_decoy_in_phase_is_in_phase(plan: list[Episode]) -> None:
    for episode in plan:
        if episode.kind == "one, a decoy in phase":
            [culprit] = episode.scene.culprits.values()
            assert culprit.phase in {decoy.phase for decoy in episode.scene.decoys.values()}


def test_who_is_to_be_named() -> None:
    by_kind = {episode.kind: episode for episode in episodes.plan(1, ALL)}
    assert {kind: len(episode.to_name) for kind, episode in by_kind.items()} == {
        kind: 2 if kind == "two culprits" else 0 if kind.startswith(("nobody", "many")) else 1 for kind in KINDS
    }
    assert by_kind["a KVM guest, by another"].to_name == {episodes.BUSY_GUEST}


def test_the_documentation_has_each_kind_and_how_many_of_it_there_are() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| \D", (CHECKOUT / "docs/truth.md").read_text(), re.MULTILINE)
    assert {kind: int(number) for kind, number in rows} == {name: kind.share for name, kind in KINDS.items()}


def test_the_short_form_needs_no_guest_and_three_minutes() -> None:
    short = episodes.short(1)
    assert {episode.kind for episode in short} == {"one culprit", "two culprits", "nobody", "nobody, capped"}
    assert sum(episode.seconds(25) for episode in short) < 150


def test_the_machines_cpus_take_the_place_of_ours() -> None:
    load = Load(0.002, 0.004, 1.0, 0.5, 0.25, (VICTIMS, OTHER), threads=2, move=3.0)
    assert load.words([6, 7]) == ["0.002", "0.004", "2", "1.0", "0.5", "0.25", "3.0", "7", "6"]


def on(load: Load, seconds: float) -> bool:
    """As worker.c has it."""
    return (seconds / load.period + load.phase) % 1 < load.duty
