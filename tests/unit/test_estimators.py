"""The estimators that `make truth` compares, on small traces."""

import pytest

from tests.proofs.truth.comparison import named
from tests.proofs.truth.trace import PRESSURE, REPLAY, SLICE_ENDED, SWITCHED_IN, USE, Replay, parse

WEB, BATCH, BLOG = 11, 12, 13
NAMES = {WEB: "web", BATCH: "batch", BLOG: "blog"}
STATES = {True: "R+", False: "S"}


def switch(at: float, previous: int, following: int, *, runnable: bool = False) -> str:
    rest = f"prev_comm=a b prev_pid={previous} prev_prio=120 prev_state={STATES[runnable]} ==> next_comm=c next_pid="
    return f" {previous} [001] {at:.6f}: sched:sched_switch: {rest}{following} next_prio=120\n"


def wakeup(at: float, tid: int) -> str:
    return f"    0 [000] {at:.6f}: sched:sched_wakeup: comm=a b pid={tid} prio=120 target_cpu=001\n"


def queued(at: float, tid: int, sector: int) -> str:
    return f"{tid} [000] {at:.6f}: block:block_bio_queue: 7,0 RS {sector} + 8 [worker]\n"


def completed(at: float, sector: int) -> str:
    return f"    0 [000] {at:.6f}: block:block_rq_complete: 7,0 RS () {sector} + 8 none,0,0 [0]\n"


def replayed(*text: str) -> Replay:
    replay = Replay(NAMES, "web", "7,0")
    replay.follow(parse(text))
    return replay


def test_who_replaces_a_task_isn_t_who_runs_while_it_waits() -> None:
    """Batch preempts web for 1 ms, blog then runs for 8 ms, and batch's second slice ends before web runs again."""
    replay = replayed(
        switch(10.000, 0, WEB),
        switch(10.010, WEB, BATCH, runnable=True),
        switch(10.011, BATCH, BLOG, runnable=True),
        switch(10.019, BLOG, BATCH),
        switch(10.020, BATCH, WEB, runnable=True),
        switch(10.030, WEB, 0),
        "perf: a warning\n",
    )
    found = {
        estimator: {name: round(seconds, 6) for name, seconds in charged.items()}
        for estimator, charged in replay.estimates({"cpu": 0.02})["cpu"].items()
    }
    assert found == {
        REPLAY: {"batch": 0.002, "blog": 0.008},
        SWITCHED_IN: {"batch": 0.01},
        SLICE_ENDED: {"batch": 0.01},
        USE: {"batch": 0.002, "blog": 0.008},
        PRESSURE: {"batch": 0.004, "blog": 0.016},
    }


def test_a_woken_task_waits_for_the_one_that_runs_since_its_wakeup() -> None:
    replay = replayed(switch(9.0, 0, BATCH), wakeup(9.4, WEB), switch(9.5, BATCH, WEB), switch(9.6, WEB, 0))
    charged = replay.charged["cpu"]
    assert {name: round(seconds, 6) for name, seconds in charged[REPLAY].items()} == {"batch": 0.1}
    assert {name: round(seconds, 6) for name, seconds in charged[SLICE_ENDED].items()} == {"batch": 0.1}
    assert set(charged[SWITCHED_IN]) == {""}, "nobody replaced it"


def test_a_request_waits_while_the_disk_serves_those_before_it() -> None:
    """Of batch's service, 3 ms are before web's request was queued; its own service is no wait for others."""
    replay = replayed(
        queued(1.000, BATCH, 80),
        queued(1.003, WEB, 160),
        queued(1.004, BLOG, 240),
        completed(1.010, 80),
        completed(1.012, 160),
        completed(1.019, 240),
    )
    waited = {name: round(seconds, 6) for name, seconds in replay.charged["disk"][REPLAY].items()}
    assert waited == {"batch": 0.007}
    assert round(replay.waited["disk"], 6) == 0.009
    assert replay.used["disk"] == {"batch": 1, "web": 1, "blog": 1}


def test_names_follow_the_rules_thresholds() -> None:
    assert named({"batch": 5.0, "blog": 2.0}, seconds=30) == {"batch"}
    assert named({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}, seconds=30) == set(), "none has a third"
    assert named({"batch": 0.5}, seconds=30) == set(), "less than 0.03 s/s"


def test_a_line_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="prev=1"):
        list(parse(["1 [000] 1.0: sched:sched_switch: prev=1\n"]))
