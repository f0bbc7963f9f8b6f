"""What `make placements` plans, shows and judges, by value."""

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.proofs.placements import balancers, judgement, pages, table
from tests.proofs.placements.__main__ import Run, finished
from tests.proofs.placements.balancers import Guest, Host
from tests.proofs.placements.hosts import Counted, parse_pressure, parts
from tests.proofs.placements.judgement import Observed, Response, State, as_document, bars, choosers, compared
from tests.proofs.placements.pages import Shown
from tests.proofs.placements.plan import MAX_HOST, plan, planned
from tests.proofs.placements.states import NoDataError, increase, measure
from tests.support import Prometheus

SITES = ("auction-1", "auction-2", "auction-3", "auction-4")
SECOND = Shown((2, 3), frozenset({"auction-2"}))


def test_a_plan_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert plan(1, 40, SITES) == plan(1, 40, SITES)
    assert plan(1, 40, SITES) != plan(2, 40, SITES)


def test_loads_change_every_fifth_step() -> None:
    steps = plan(1, 40, SITES)
    assert [step.number for step in steps] == list(range(50))
    assert [step.number for step in steps if step.moved is None] == list(range(0, 50, 5))


@pytest.mark.parametrize("seed", range(20))
def test_a_move_changes_one_sites_host_and_never_overloads_one(seed: int) -> None:
    steps = plan(seed, 12, SITES)
    for step, following in itertools.pairwise(steps):
        if following.moved:
            assert following.utilisation == step.utilisation
            changed = {site for site in SITES if following.placement[site] != step.placement[site]}
            assert changed == {following.moved}
    assert all(max(planned(step.utilisation, step.placement).values()) <= MAX_HOST for step in steps)


def test_clients_give_the_planned_load() -> None:
    """Half a host of one CPU at 10 ms a request is 50 requests/s, each client's one every 2 s and 10 ms."""
    [step, _] = plan(1, 1, ("auction-1", "auction-2"))
    step = dataclasses.replace(step, utilisation={"auction-1": 0.5, "auction-2": 0.0}, think_seconds=2.0)
    assert step.clients(0.01, 1) == {"auction-1": 100, "auction-2": 1}


def test_hosts_have_halves_of_the_cpus() -> None:
    assert parts([0, 1, 2, 3, 4]) == {"a": (0, 1), "b": (2, 3)}
    assert parts([0, 1]) == {"a": (0,), "b": (1,)}


def test_node_exporters_cpus_are_a_hosts_from_0() -> None:
    page = (
        "# TYPE node_cpu_seconds_total counter\n"
        'node_cpu_seconds_total{cpu="1",mode="user"} 1\n'
        'node_cpu_seconds_total{cpu="2",mode="user"} 2\n'
        'node_cpu_seconds_total{cpu="3",mode="user"} 3\n'
        "node_memory_MemTotal_bytes 4\n"
        "node_pressure_cpu_waiting_seconds_total 5\n"
    )
    assert pages.node(page, SECOND) == (
        "# TYPE node_cpu_seconds_total counter\n"
        'node_cpu_seconds_total{cpu="0",mode="user"} 2\n'
        'node_cpu_seconds_total{cpu="1",mode="user"} 3\n'
        "node_memory_MemTotal_bytes 4\n"
    )


def test_cadvisors_cgroups_are_those_of_sites_on_the_host() -> None:
    page = (
        'machine_cpu_cores{boot_id="x"} 4 1700000000000\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/"} 1\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope"} 2\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-1-web"} 3\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-2-web"} 4 1700000000000\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-2-db"} 5\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-20-db"} 6\n'
        'container_start_time_seconds{id="/"} 7\n'
        "container_scrape_error 0\n"
    )
    assert pages.cadvisor(page, SECOND) == (
        'machine_cpu_cores{boot_id="x"} 2\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-2-web"} 4 1700000000000\n'
        'container_cpu_usage_seconds_total{cpu="total",id="/virtscope/auction-2-db"} 5\n'
        'container_start_time_seconds{id="/"} 7\n'
        "container_scrape_error 0\n"
    )


def test_sched_exporters_waits_are_those_of_sites_on_the_host() -> None:
    page = (
        "sched_switches_total 1\n"
        'sched_waits_total{cgroup="(host)"} 2\n'
        'sched_waits_total{cgroup="/system.slice/cron.service"} 3\n'
        'sched_wait_seconds_total{cgroup="/virtscope/auction-1-web",running="/virtscope/auction-2-web"} 4\n'
        'sched_wait_seconds_total{cgroup="/virtscope/auction-2-web",running="/virtscope/auction-1-web"} 5\n'
    )
    assert pages.sched(page, SECOND) == (
        "sched_switches_total 1\n"
        'sched_wait_seconds_total{cgroup="/virtscope/auction-2-web",running="/virtscope/auction-1-web"} 5\n'
    )


def test_telegrafs_applications_are_those_on_the_host() -> None:
    page = (
        'app_request_duration_seconds_count{app="auction-1",status="2xx",tier="web"} 1\n'
        'app_request_duration_seconds_count{app="auction-2",status="2xx",tier="web"} 2\n'
        'internal_agent_metrics_gathered{version="1.39"} 3\n'
    )
    assert pages.telegraf(page, SECOND) == "".join(page.splitlines(keepends=True)[1:])


def test_a_counter_grows_across_its_restart() -> None:
    assert increase([(0, "10"), (5, "12"), (10, "1"), (15, "4")]) == 2 + 1 + 3
    assert increase([(0, "10")]) == 0


def test_pressure_is_the_line_some() -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    assert parse_pressure(text) == 2.5


# --- Balancers ---

GIB = 2.0**30


def host(cpu_usage: float, memory: float, wait: float, guests: int, pressure: float) -> Host:
    return Host(1, cpu_usage, memory * GIB, 8 * GIB, wait, guests, pressure)


def test_variation_falls_if_a_guest_leaves_the_fuller_host() -> None:
    """CPU 0.8 and 0.2, the guest 0.3: 0.5 and 0.5 after the move. Memory 1 and 3 GiB, the guest 1: 0 and 4."""
    hosts = {"a": host(0.8, 1, 0.4, 2, 0.3), "b": host(0.2, 3, 0.3, 1, 0.2)}
    assert balancers.choices(hosts, Guest(0.3, GIB), "a") == {
        "variation of CPU use": "b",
        "variation of memory use": "a",
        "CPU pressure": "b",
        "ready time per guest": "a",  # 0.2 s/s for each of two, against 0.3
    }


def test_a_tie_is_no_reason_to_move() -> None:
    """The guest is the difference between the hosts, so a move swaps their numbers."""
    hosts = {"a": host(0.4, 1, 0.1, 1, 0.1), "b": host(0.2, 0.5, 0.1, 1, 0.1)}
    assert set(balancers.choices(hosts, Guest(0.2, GIB / 2), "a").values()) == {"a"}


# --- Judgement ---


def state(first: float, second: float, hosts: str = "ab") -> State:
    """Of two sites with these responses in milliseconds and an objective of 50 ms."""
    found = {
        site: Response(host, 100, each / 1000, each <= 50)
        for site, host, each in zip(SITES, hosts, (first, second), strict=False)
    }
    return State(0, 50, found, {"a": 0.5, "b": 0.25})


def predicted(app: str, low: float, milliseconds: float, high: float) -> dict[str, Any]:
    return {
        "app": app,
        "host": "b",
        "now_seconds": 0.01,
        "seconds": milliseconds / 1000,
        "low_seconds": low / 1000,
        "high_seconds": high / 1000,
        "objective_holds": True,
    }


def advice(stay: list[dict[str, Any]], move: list[dict[str, Any]]) -> dict[str, Any]:
    candidates = [
        {"host": name, "platform": "cgroup", "stay": name == "a", "limit": None, "apps": apps}
        for name, apps in {"a": stay, "b": move}.items()
    ]
    return {"withheld": None, "advised": "b", "candidates": candidates}


STAY = [predicted("auction-1", 10, 20, 30), predicted("auction-2", 10, 20, 30)]
MOVE = [predicted("auction-1", 25, 40, 45), predicted("auction-2", 10, 20, 25)]


def move(before: State, came: State, document: dict[str, Any] | None, **choices: str) -> Observed:
    return Observed(1, "auction-1", "a", "b", {}, before, came, document, "" if document else "lacking", choices)


def test_predictions_are_compared_with_what_came() -> None:
    """40 ms predicted and 50 came: a fifth off, and above the interval. 20 predicted and 25 came: at its end."""
    found = compared([move(state(20, 20), state(50, 25, "bb"), advice(STAY, MOVE))])
    assert [(each.app, each.part, round(each.error, 6), each.is_covered) for each in found] == [
        ("auction-1", "the moving site", 0.2, False),
        ("auction-2", "sites that it joins", 0.2, True),
    ]


def test_sites_that_are_left_are_a_part_of_their_own() -> None:
    [_, left] = compared([move(state(20, 20, "aa"), state(20, 20, "ba"), advice(STAY, MOVE))])
    assert left.part == "sites that it leaves"


def test_only_predictions_of_the_chosen_step_count() -> None:
    before, came = state(20, 20), state(20, 20, "bb")
    loads = Observed(0, None, "", "", {}, None, came, None, "", {})
    withheld = {"withheld": "the host has no objective", "candidates": []}
    assert compared([loads, move(before, came, None), move(before, came, withheld)]) == []


@pytest.mark.parametrize(("advised", "chosen"), [("a", "a"), ("b", "b"), (None, "a")])
def test_where_nothing_fits_a_site_stays(advised: str | None, chosen: str) -> None:
    document = {**advice(STAY, MOVE), "advised": advised}
    assert judgement.advised(move(state(20, 20), state(20, 20, "bb"), document)) == chosen


def test_withheld_advice_is_none() -> None:
    document = {**advice(STAY, MOVE), "withheld": "nothing is known"}
    assert judgement.advised(move(state(20, 20), state(20, 20, "bb"), document)) is None


def test_a_response_without_a_bound_is_infinite() -> None:
    """So what came is within the interval if only its end has no bound."""
    endless = {"low_seconds": 0.02, "high_seconds": None}
    full = {**MOVE[0], "seconds": None, "low_seconds": None, "high_seconds": None}
    document = advice(STAY, [{**full, "app": "auction-1"}, {**MOVE[1], **endless}])
    found = compared([move(state(20, 20), state(50, 25, "bb"), document)])
    assert [(each.error, each.is_covered) for each in found] == [(math.inf, False), (pytest.approx(0.2), True)]


def test_choosers_are_judged_by_what_was_better() -> None:
    """The first move makes all faster, the second breaks an objective, the third makes all 5 % slower."""
    observed = [
        move(state(40, 40), state(20, 20, "bb"), None, formula="b"),
        move(state(20, 20), state(60, 20, "bb"), None, formula="b"),
        move(state(20, 20), state(21, 21, "bb"), None, formula="b"),
    ]
    advise, formula, stay, always = choosers(observed)
    assert (advise.name, advise.choices) == ("advise", 0)
    assert (formula.choices, formula.best, formula.moved, formula.broke) == (3, 2, 3, 1)
    assert formula.lost == pytest.approx((0 + 1 + 0.05) / 3)
    assert (stay.choices, stay.best, stay.moved, stay.broke) == (3, 2, 0, 0)
    assert (always.best, always.broke) == (2, 1)


def test_a_broken_objective_is_no_longer_broken_by_a_move() -> None:
    [_, always] = choosers([move(state(60, 20), state(55, 20, "bb"), None)])[1:]
    assert (always.moved, always.broke) == (1, 0)


def test_bars() -> None:
    good = move(state(50, 50), state(40, 20, "bb"), advice([predicted("auction-1", 0, 50, 90)], MOVE))
    assert [bar.holds for bar in bars([good])] == [True, True, True, True]
    assert judgement.holds(bars([good])) is True
    bad = move(state(20, 20), state(80, 45, "bb"), advice([predicted("auction-1", 0, 90, 99)], MOVE))
    assert [(bar.measured, bar.holds) for bar in bars([bad])] == [
        ("52.8%, of 2", False),
        ("0.0%, 0 of 2", False),
        ("0.0%, 0 of 1", False),
        ("1 of 1", False),
    ]
    assert judgement.holds(bars([bad])) is False


def test_without_a_prediction_nothing_holds_and_nothing_is_missed() -> None:
    assert judgement.holds(bars([move(state(20, 20), state(80, 45, "bb"), None)])) is None


def test_another_document_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        judgement.candidates({"withheld": None, "candidates": [{"host": "a", "apps": [{"app": "auction-1"}]}]})


def test_results_are_read_as_written() -> None:
    observed = move(state(20, 20), state(50, 25, "bb"), advice(STAY, MOVE), formula="b")
    assert judgement.from_document(json.loads(json.dumps(as_document(observed)))) == observed


def test_the_table_has_each_part_and_what_is_missing() -> None:
    observed = [
        move(state(50, 50), state(40, 20, "bb"), advice(STAY, MOVE), formula="a"),
        move(state(50, 50), state(40, 20, "bb"), None, formula="a"),
    ]
    text = table.text(observed, ["Seed 1."])
    assert "| the moving site | 1 | 0.0% | 0.0% | 100.0% |" in text
    assert "| for comparison: the response before the move | 4 | 87.5% | 150.0% |  |" in text
    assert "| formula | 2 | 0.0% | 66.7% | 0 | 0 |" in text
    assert "1 of 2 moves without a prediction: lacking.\nSeed 1." in text
    assert table.line(observed[1]) == "   1 auction-1 a -> b: 50.0 ms -> 30.0 ms, a 50% used, b 25% used; lacking"


# --- Interrupted runs ---

RUN = Run(1, 4, 2, 130, 50)


def written(folder: Path, run: Run, *lines: str) -> Path:
    file = folder / "results.jsonl"
    file.write_text("\n".join([json.dumps(dataclasses.asdict(run)), *lines, ""]))
    return file


def test_an_interrupted_run_goes_on_with_its_cost_of_a_request(tmp_path: Path) -> None:
    loads = Observed(0, None, "", "", {}, None, state(20, 20), None, "", {})
    file = written(tmp_path, RUN.with_cost(0.01), json.dumps(as_document(loads)))
    assert finished(RUN, file) == (RUN.with_cost(0.01), [loads])


def test_another_runs_results_are_not_gone_on_with(tmp_path: Path) -> None:
    file = written(tmp_path, dataclasses.replace(RUN, seed=2, request_cpu_seconds=0.01))
    assert finished(RUN, file) == (RUN, [])
    assert finished(RUN, tmp_path / "missing") == (RUN, [])


def test_an_incomplete_last_line_is_measured_again(tmp_path: Path) -> None:
    loads = Observed(0, None, "", "", {}, None, state(20, 20), None, "", {})
    line = json.dumps(as_document(loads))
    assert finished(RUN, written(tmp_path, RUN.with_cost(0.01), line, line[:40])) == (RUN.with_cost(0.01), [loads])


def test_a_complete_run_starts_over(tmp_path: Path) -> None:
    line = json.dumps(as_document(Observed(0, None, "", "", {}, None, state(20, 20), None, "", {})))
    assert finished(RUN, written(tmp_path, RUN.with_cost(0.01), *[line] * len(RUN.steps))) == (RUN, [])


def test_a_state_is_refused_if_visitors_waited_for_the_sites(tmp_path: Path) -> None:
    counted = Counted(began=0.0, ended=50.0, used={}, pressure={}, late=0.02)
    with pytest.raises(NoDataError, match=r"^2\.0% of requests were sent over 5 ms late"):
        measure(Prometheus(tmp_path, {}), {}, 0.08, counted)
