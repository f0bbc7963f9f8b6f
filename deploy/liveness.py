"""Has what hangs started again: each part of the stack, and supervisord.

    python -m deploy.liveness --port PORT

supervisord restarts parts that end, but doesn't notice parts that hang. So this program, a part itself, probes each
part, like a kubelet's liveness probes:

- a part that was stopped (SIGSTOP), or sends not one byte for half a minute, is killed, and supervisord restarts it;
- a part that ended too often in a row, so that supervisord has given up, is started every five seconds;
- a stopped supervisord gets SIGCONT: killing it would end all parts. If it doesn't answer, it is killed;
- after supervisord was killed, its parts end with it. All are restarted with the same settings.

supervisord in turn kills this program when it hangs (deploy/heartbeat.py).
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from deploy import StackError, failures, health, heartbeat, stack, supervision
from deploy.heartbeat import is_stopped
from deploy.parts import LIVENESS, Part
from deploy.plan import Plan, running_plan
from virtscope.toolkit.cli import log_to_stderr, serve_until_stopped
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.server import Server

log = logging.getLogger("liveness")

CHECK_SECONDS = 0.5  # between two checks of supervisord
LOOK_SECONDS = 1.0
STOPPED_LOOKS = 2  # a single one may be a debugger that attaches
ASK_SECONDS = 5.0  # between two probes, and for an answer
HUNG_SECONDS = 30.0  # without an answer; Kubernetes's default is as long
MIN_QUESTIONS = 5  # unanswered as well, as the machine may have been suspended
RETRY_SECONDS = 5.0  # between two starts of a part that supervisord has given up
SUPERVISOR_TIMEOUTS = 3  # of supervision.REQUEST_SECONDS each
KILLED_SECONDS = 3.0  # for parts to end by themselves after supervisord's death


@dataclass
class Watched:
    """State of one process of a part. Times are time.monotonic()'s."""

    pid: int
    since: float
    answered_at: float | None = None
    unanswered: int = 0  # probes since the last answer
    asked_at: float = 0.0
    asked: Future[bool] | None = None
    stopped: int = 0  # times in a row in stopped state
    killed: bool = False  # by us

    def wrong(self, now: float) -> str:
        """Why it must be killed, a reason of `failures.REASONS`; empty if healthy."""
        if self.killed:
            return ""
        if self.stopped >= STOPPED_LOOKS:
            return "stopped"
        if self.answered_at is None:  # it may have much to replay first
            return "no_answer" if now - self.since > health.READY_SECONDS else ""
        silent = now - self.answered_at > HUNG_SECONDS and self.unanswered >= MIN_QUESTIONS
        return "no_answer" if silent else ""


class Liveness:
    """Watches supervisord and, through it, the parts of the running stack; `kill` sends SIGKILL."""

    def __init__(
        self, plan: Plan, known: failures.Failures, asking: ThreadPoolExecutor, kill: Callable[[int], None]
    ) -> None:
        self._plan = plan
        self._known = known
        self._asking = asking
        self._kill = kill
        self._watched: dict[str, Watched] = {}
        self._retried: dict[str, float] = {}
        self._parent = os.getppid()  # supervisord
        self._supervisor = 0
        self._supervisor_stopped = 0
        self._timeouts = 0

    def look(self, part: Part, process: supervision.Process, now: float) -> None:
        """Check a part once, probe it if due, and restart it if it hangs."""
        if process.state in {"fatal", "exited"}:
            self._start_again(part, process, now)
        if not process.pid:
            return
        known = self._watched.get(part.name)
        if known is None or known.pid != process.pid:
            if known is not None and not known.killed:
                self._failed(part.name, "ended", pid=known.pid)
            known = self._watched[part.name] = Watched(process.pid, now)
        self._ask(part, known, now)
        known.stopped = known.stopped + 1 if is_stopped(known.pid) else 0
        reason = known.wrong(now)
        if reason:
            self._failed(part.name, reason, pid=known.pid)
            known.killed = True
            self._kill(known.pid)

    def _ask(self, part: Part, known: Watched, now: float) -> None:
        if known.asked is not None and known.asked.done():
            if known.asked.result():
                known.answered_at, known.unanswered = now, 0
            else:
                known.unanswered += 1
            known.asked = None
        if known.asked is None and now - known.asked_at >= ASK_SECONDS:
            known.asked_at = now
            known.asked = self._asking.submit(
                health.says_anything, self._plan.ports[part.name], part.health_path, ASK_SECONDS
            )

    def _start_again(self, part: Part, process: supervision.Process, now: float) -> None:
        if now - self._retried.get(part.name, now - RETRY_SECONDS) < RETRY_SECONDS:
            return
        self._retried[part.name] = now
        self._failed(part.name, "ended", status=process.exit_status, err=process.spawn_error)
        try:
            supervision.start_program(part.name)
        except supervision.NoAnswerError:
            raise
        except StackError as error:  # such as a missing program
            log.warning("part can't be started", extra={"fields": {"part": part.name, "err": error}})

    def _failed(self, name: str, reason: str, **fields: object) -> None:
        self._known.add(name, reason)
        about = {name: value for name, value in fields.items() if value not in {"", None}}
        log.warning("part failed and is started again", extra={"fields": {"part": name, "reason": reason, **about}})

    def answering(self) -> dict[str, bool]:
        """Whether each part answered its last probe; without parts that haven't been probed yet."""
        return {name: not known.unanswered for name, known in list(self._watched.items()) if known.answered_at}

    def watch(self, leave: threading.Event) -> bool:
        """Watch until `leave` is set; return True as soon as supervisord was killed.

        Returns False as well if `make down` was quicker, so that nothing must be restarted.
        """
        next_look = 0.0
        while not leave.wait(CHECK_SECONDS):
            is_orphan = os.getppid() != self._parent  # read before was_killed(), to match its state
            if supervision.was_killed():
                return True
            if is_orphan:
                return False
            if time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + LOOK_SECONDS
            heartbeat.beat()
            self._supervisor = supervision.pid() or self._supervisor
            if is_stopped(self._supervisor):
                self._continue_supervisor()
                continue
            self._supervisor_stopped = 0
            try:
                processes = supervision.processes()
                now = time.monotonic()
                for part in self._plan.parts:
                    if part is not LIVENESS:
                        self.look(part, processes[part.name], now)
                self._timeouts = 0
            except supervision.NoAnswerError:
                continue  # supervisord is stopping, or was killed
            except StackError as error:  # it runs, but doesn't answer
                self._timeouts += 1
                log.warning("supervisord does not answer", extra={"fields": {"err": error}})
                if self._timeouts >= SUPERVISOR_TIMEOUTS:
                    self._timeouts = 0
                    self._known.add("supervisord", "no_answer")
                    self._kill(self._supervisor)
        return False

    def _continue_supervisor(self) -> None:
        self._supervisor_stopped += 1
        if self._supervisor_stopped >= STOPPED_LOOKS:
            log.warning("supervisord was stopped and is continued", extra={"fields": {"pid": self._supervisor}})
            self._known.add("supervisord", "stopped")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._supervisor, signal.SIGCONT)
            self._supervisor_stopped = 0

    def end_parts(self) -> None:
        """Wait until the parts of a killed supervisord have ended, and kill the others."""
        pids = {known.pid for known in self._watched.values()}
        deadline = time.monotonic() + KILLED_SECONDS
        while alive := {pid for pid in pids if supervision.runs(pid)}:
            for pid in alive:
                if time.monotonic() > deadline or is_stopped(pid):
                    self._kill(pid)
            time.sleep(0.1)

    def families(self) -> list[Metric]:
        """The metrics for Prometheus."""
        up = GaugeMetricFamily("stack_part_up", "1 if this part of the stack answers, else 0.", labels=["part"])
        for name, answers in self.answering().items():
            up.add_metric([name], float(answers))
        failed = CounterMetricFamily(
            "stack_part_failures",
            "Times that a part of the stack failed and was started again, by reason: ended (by itself, or killed), "
            "stopped (by SIGSTOP), no_answer (for half a minute).",
            labels=["part", "reason"],
        )
        names = [part.name for part in self._plan.parts if part is not LIVENESS]
        for (name, reason), count in self._known.counts([*names, "supervisord"]).items():
            failed.add_metric([name, reason], count)
        return [up, failed]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.liveness", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True, help="of its metrics, on loopback")
    arguments = parser.parse_args()
    log_to_stderr("info", "logfmt")
    heartbeat.beat()
    known = failures.Failures()
    plan = running_plan()
    liveness = Liveness(plan, known, ThreadPoolExecutor(len(plan.parts)), _kill)
    leave = threading.Event()
    exporter = Exporter("stack", [Source("parts", liveness.families, lambda: "supervisord")])
    server = Server(("127.0.0.1", arguments.port), "/metrics", None, exporter)
    killed = False

    def watch() -> None:
        nonlocal killed
        try:
            killed = liveness.watch(leave)
        except Exception:  # a bug here: supervisord restarts this program
            log.exception("liveness failed")
        if not leave.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    watching = threading.Thread(target=watch, name="watch", daemon=True)
    watching.start()
    serve_until_stopped(server)  # frees the port for the next process
    leave.set()
    watching.join(LOOK_SECONDS)
    if killed:
        _to_its_log()
        liveness.end_parts()
        known.add("supervisord", "ended")
        log.warning("supervisord was killed: all is started again")
        _start_all_again()
    return 0


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)


def _start_all_again() -> None:
    """Start the stack, unless another process has just begun to."""
    while supervision.was_killed():
        try:
            stack.start_again()
        except StackError as error:
            log.warning("the stack can't be started again yet", extra={"fields": {"err": error}})
            time.sleep(LOOK_SECONDS)


def _to_its_log() -> None:
    """Write to the log file directly, as supervisord, which wrote it from a pipe, is gone."""
    with (supervision.LOG / f"{LIVENESS.name}.log").open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


if __name__ == "__main__":
    sys.exit(main())
