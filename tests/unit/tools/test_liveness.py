"""tools/liveness.py: which parts it kills, and which it leaves alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.waiting import wait_for
from tools import failures, health, heartbeat, liveness, stack, supervision
from tools.liveness import HUNG_SECONDS
from tools.parts import PROMETHEUS
from tools.supervision import Process

PID = 4711


class Answers:
    """In place of threads that ask: what a part answers from now on."""

    def __init__(self) -> None:
        self.answer = True

    def submit(self, *_: object) -> Future[bool]:
        done: Future[bool] = Future()
        done.set_result(self.answer)
        return done


class Looks:
    """A part as liveness sees it, look by look."""

    def __init__(self) -> None:
        self.answers = Answers()
        self.killed: list[int] = []
        self.now = 1000.0
        self.parts = liveness.Parts(
            {PROMETHEUS.name: 9090}, failures.Failures(), cast(ThreadPoolExecutor, self.answers), self.killed.append
        )

    def look(self, seconds: float, pid: int = PID, state: str = "running") -> None:
        """Look at it as often as liveness does, for so long."""
        until = self.now + seconds
        while self.now < until:
            self.now += liveness.LOOK_SECONDS
            self.parts.look(PROMETHEUS, Process(PROMETHEUS.name, state, None, 0, "", pid), self.now)

    def failed(self) -> dict[str, int]:
        counts = failures.Failures().counts([PROMETHEUS.name])
        return {reason: count for (_, reason), count in counts.items() if count}


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(failures, "FILE", tmp_path / "failures.json")
    monkeypatch.setattr(liveness, "is_stopped", lambda pid: pid == 666)
    return Looks()


def test_a_part_that_answers_is_left_alone(part: Looks) -> None:
    part.look(3600)
    assert part.killed == []
    assert part.parts.answering() == {PROMETHEUS.name: True}


def test_a_part_that_is_silent_for_half_a_minute_is_killed_once(part: Looks) -> None:
    part.look(60)
    part.answers.answer = False
    part.look(HUNG_SECONDS - 4)
    assert part.killed == []
    assert part.parts.answering() == {PROMETHEUS.name: False}
    part.look(20)
    part.look(60, pid=PID + 1)
    assert part.killed == [PID]
    assert part.failed() == {"no_answer": 1}


def test_after_a_sleep_of_the_machine_it_is_asked_again_first(part: Looks) -> None:
    part.look(60)
    part.answers.answer = False
    part.now += 10_000
    part.look(15)
    assert part.killed == []


def test_a_part_that_still_starts_has_minutes(part: Looks) -> None:
    part.answers.answer = False
    part.look(health.READY_SECONDS - 10)
    assert part.killed == []
    part.look(20)
    assert part.killed == [PID]


def test_a_stopped_part_is_killed_within_seconds(part: Looks) -> None:
    part.look(6, pid=666)
    assert part.killed == [666]
    assert part.failed() == {"stopped": 1}


def test_one_that_ended_and_was_started_by_supervisord_is_counted(part: Looks) -> None:
    part.look(60)
    part.look(60, pid=PID + 1)
    assert part.killed == []
    assert part.failed() == {"ended": 1}


def test_what_supervisord_has_given_up_is_started_now_and_then(part: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[str]()
    monkeypatch.setattr(supervision, "start_program", started.append)
    part.look(60, pid=0, state="fatal")
    assert 3 <= len(started) <= 60 / liveness.RETRY_SECONDS + 1


def test_a_full_disk_doesn_t_keep_it_from_its_task(
    part: Looks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "FILE", tmp_path / "nowhere" / "failures.json")
    part.look(6, pid=666)
    assert part.killed == [666]
    assert part.parts.known.counts([])[PROMETHEUS.name, "stopped"] == 1


def test_failures_are_said_with_their_number(part: Looks) -> None:
    known = part.parts.known
    known.add("grafana", "ended")
    known.add("prometheus", "stopped")
    known.add("prometheus", "stopped")
    first, second = failures.recent()
    assert first.startswith("grafana ended at ")
    assert first.endswith(" and was started again.")
    assert second.startswith("prometheus was stopped (SIGSTOP) at ")
    assert second.endswith(" and was started again, 2 times since make up.")


def test_a_stopped_process_is_recognised() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        try:
            assert not heartbeat.is_stopped(sleeping.pid)
            sleeping.send_signal(signal.SIGSTOP)
            wait_for(lambda: heartbeat.is_stopped(sleeping.pid))
        finally:
            sleeping.kill()
    assert not heartbeat.is_stopped(sleeping.pid)


def test_what_accepts_and_says_nothing_or_has_closed_its_port_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not health.says_anything(port, "/", 0.2)
    assert not health.says_anything(port, "/", 0.2)


class Supervisord:
    """As much of it as a plugin uses."""

    def __init__(self, pid: int) -> None:
        self.process_groups = {"liveness": self}
        self.processes = {"liveness": self}
        self.options = self.logger = self
        self.pid = pid

    def critical(self, _text: str) -> None:
        pass


def test_a_liveness_without_heartbeat_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed, now = list[int](), [1000.0]
    monkeypatch.setattr(heartbeat, "FILE", tmp_path / "liveness")
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watching = heartbeat.Heartbeat(Supervisord(PID))
    for beats in (True, False):
        for _ in range(20):
            now[0] += 5
            if beats:
                (tmp_path / "liveness").write_text("")
                os.utime(tmp_path / "liveness", (now[0], now[0]))
            watching.tick(None)
        assert bool(killed) is not beats
    assert set(killed) == {PID}


def test_one_that_make_down_has_overtaken_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """supervisord was killed, and `make down` has noted that before this did: nothing is to be started again."""
    monkeypatch.setattr(supervision, "RUN", tmp_path)
    monkeypatch.setattr(stack, "running_plan", lambda: SimpleNamespace(parts=[PROMETHEUS], ports={}, ready=[]))
    monkeypatch.setattr(supervision, "was_killed", lambda: False)
    left = liveness.Liveness(failures.Failures())
    monkeypatch.setattr(os, "getppid", lambda: 1)
    leave = threading.Event()
    at_last = threading.Timer(30, leave.set)
    at_last.start()
    assert left.watch(leave) is False
    assert not leave.is_set(), "by itself"
    at_last.cancel()
