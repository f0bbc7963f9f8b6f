"""deploy/liveness.py: the parts it kills, and those it leaves alone."""

import os
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from deploy import failures, health, heartbeat, liveness, supervision
from deploy.liveness import HUNG_SECONDS
from deploy.parts import PROMETHEUS
from deploy.plan import Plan
from deploy.supervision import Process

PID, STOPPED = 4711, 666
NAME = PROMETHEUS.name


class Looks:
    """A part as seen by liveness, check by check."""

    def __init__(self) -> None:
        self.answers = True  # from the next check on
        self.killed: list[int] = []
        self.now = 1000.0
        asking = cast(ThreadPoolExecutor, self)
        self.known = failures.Failures()
        plan = cast(Plan, SimpleNamespace(ports={NAME: 9090}))
        self.watching = liveness.Liveness(plan, self.known, asking, self.killed.append)

    def submit(self, *_: object) -> Future[bool]:
        """Replaces the threads that query parts."""
        done: Future[bool] = Future()
        done.set_result(self.answers)
        return done

    def look(self, seconds: float, pid: int = PID, state: str = "running") -> None:
        """Check it as often as liveness does, for this long."""
        until = self.now + seconds
        while self.now < until:
            self.now += liveness.LOOK_SECONDS
            self.watching.look(PROMETHEUS, Process(NAME, state, None, 0, "", pid), self.now)

    def failed(self) -> dict[str, int]:
        return {reason: count for (_, reason), count in failures.Failures().counts([NAME]).items() if count}


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(failures, "FILE", tmp_path / "failures.json")
    monkeypatch.setattr(liveness, "is_stopped", lambda pid: pid == STOPPED)
    return Looks()


def test_a_part_that_is_silent_for_half_a_minute_is_killed_once_and_one_that_answers_is_left_alone(part: Looks) -> None:
    part.look(3600)
    assert part.watching.answering() == {NAME: True}
    part.answers = False
    part.look(HUNG_SECONDS - 4)
    assert (part.killed, part.watching.answering()) == ([], {NAME: False})
    part.look(20)
    part.look(60, pid=PID + 1)
    assert (part.killed, part.failed()) == ([PID], {"no_answer": 1})


def test_after_a_sleep_of_the_machine_it_is_asked_again_first(part: Looks) -> None:
    part.look(60)
    part.answers = False
    part.now += 10_000
    part.look(15)
    assert part.killed == []


def test_a_part_that_still_starts_has_minutes(part: Looks) -> None:
    part.answers = False
    part.look(health.READY_SECONDS - 10)
    assert part.killed == []
    part.look(20)
    assert part.killed == [PID]


def test_one_that_ended_and_was_started_by_supervisord_is_counted(part: Looks) -> None:
    for pid in (PID, PID + 1):
        part.look(60, pid)
    assert (part.killed, part.failed()) == ([], {"ended": 1})


def test_what_supervisord_has_given_up_is_started_now_and_then(part: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[str]()
    monkeypatch.setattr(supervision, "start_program", started.append)
    part.look(60, pid=0, state="fatal")
    assert 3 <= len(started) <= 60 / liveness.RETRY_SECONDS + 1


def test_a_stopped_part_is_killed_within_seconds_though_the_disk_is_full(
    part: Looks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "FILE", tmp_path / "nowhere" / "failures.json")
    part.look(6, STOPPED)
    assert part.killed == [STOPPED]
    assert part.known.counts([])[NAME, "stopped"] == 1


def test_what_accepts_and_says_nothing_or_has_closed_its_port_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not health.says_anything(port, "/", 0.2)
    assert not health.says_anything(port, "/", 0.2)


def test_a_liveness_without_heartbeat_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed, now, file = list[int](), [1000.0], tmp_path / "liveness"
    monkeypatch.setattr(heartbeat, "FILE", file)
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    group = SimpleNamespace(processes={"liveness": SimpleNamespace(pid=PID)})
    logger = SimpleNamespace(critical=lambda _text: None)
    options = SimpleNamespace(logger=logger)
    watching = heartbeat.Heartbeat(SimpleNamespace(process_groups={"liveness": group}, options=options))
    for beats in (True, False):
        for _ in range(20):
            now[0] += 5
            if beats:
                file.touch()
                os.utime(file, (now[0], now[0]))
            watching.tick(None)
        assert bool(killed) is not beats
    assert set(killed) == {PID}
