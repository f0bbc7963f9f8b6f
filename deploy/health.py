"""Checks the stack's health: its parts answer, and Prometheus scrapes them."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deploy import StackError, durations, supervision
from deploy.api import Api
from deploy.parts import PROMETHEUS, Part
from deploy.terminal import printable

POLL_SECONDS = 0.1
# Prometheus replays its WAL, up to three hours of samples.
READY_SECONDS = 300
# Prometheus spreads first scrapes over scrape_interval, and one may fail while a part is still starting.
SCRAPE_SECONDS = 60
TRY_SECONDS = 15  # for the first scrapes of new targets: a scrape takes at most 4 s, by prometheus.yml


@dataclass(frozen=True)
class Target:
    """A target of Prometheus; `error` is the last scrape's."""

    job: str
    address: str
    host: str
    up: bool | None  # None: not scraped yet
    error: str
    interval: float  # seconds between two scrapes
    platform: str

    @property
    def health(self) -> str:
        """Its health in a few words."""
        if self.up is None:
            return "not scraped yet"
        return "up" if self.up else f"down: {self.error}"


class NoAnswerError(StackError):
    """A part doesn't answer."""


class PartFailedError(StackError):
    """A part didn't start, or failed; the log of `part` has details."""

    def __init__(self, part: Part, message: str) -> None:
        super().__init__(message)
        self.part = part


def answers(part: Part, port: int) -> bool:
    """Whether the part answers that it is healthy."""
    return _here(port).fetch(part.health_path) is not None


def says_anything(port: int, path: str, seconds: float) -> bool:
    """Whether the first byte of an HTTP answer, even 503, comes in time: a hanging process sends none."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(request.encode())
            return connection.recv(1) != b""
    except OSError:
        return False


def wait_until_healthy(part: Part, port: int) -> int:
    """Return the part's pid once it answers; raise `PartFailedError` if it ends, or after `READY_SECONDS`."""
    pid = 0

    def is_healthy() -> bool:
        nonlocal pid
        process = supervision.processes()[part.name]
        pid = process.pid
        if process.state not in {"starting", "running"}:
            how = process.spawn_error or f"exit status {process.exit_status}"
            raise PartFailedError(part, f"{part.name} ended right after its start ({how})")
        # "running" means up for a second. Until then, another program may be answering on its port.
        return process.state == "running" and answers(part, port)

    if not _within(READY_SECONDS, is_healthy):
        raise PartFailedError(
            part, f"{part.name} runs but does not answer http://127.0.0.1:{port}{part.health_path} with 200"
        )
    return pid


def wait_until_scraped(parts: Sequence[Part], ports: Mapping[str, int]) -> None:
    """Return once Prometheus has scraped each of the parts successfully; raise `PartFailedError` if it doesn't."""
    wanted = {f"127.0.0.1:{ports[part.name]}": part for part in parts}

    def scraped() -> bool:
        own = [target for target in targets(ports[PROMETHEUS.name]) if target.address in wanted]
        # The demo has several targets at one address.
        return set(wanted) <= {target.address for target in own if target.up} and all(t.up is not None for t in own)

    if not _within(SCRAPE_SECONDS, scraped):
        found = {target.address: target.error for target in targets(ports[PROMETHEUS.name]) if not target.up}
        for address, part in wanted.items():
            if address in found:
                raise PartFailedError(part, f"Prometheus can't scrape {part.name} at {address}: {found[address]}")
        raise PartFailedError(
            PROMETHEUS, "Prometheus does not scrape the stack's own parts: see prometheus/prometheus.yml"
        )


def wait_until_tried(prometheus_port: int) -> None:
    """Return once Prometheus has tried to scrape each target, or after `TRY_SECONDS`."""
    _within(TRY_SECONDS, lambda: all(target.up is not None for target in targets(prometheus_port)))


def targets(prometheus_port: int) -> list[Target]:
    """All targets of Prometheus, sorted by job and address; empty if it doesn't answer.

    Raises `StackError` if another program answers.
    """
    answer = _here(prometheus_port).fetch("/api/v1/targets", state="active")
    return [] if answer is None else parse_targets(answer)


def left_out(prometheus_port: int) -> list[dict[str, str]]:
    """The labels of each entry in target files that Prometheus drops; raises like `targets`."""
    answer = _here(prometheus_port).fetch("/api/v1/targets", state="dropped")
    return [] if answer is None else parse_left_out(answer)


def parse_targets(answer: bytes) -> list[Target]:
    """Of Prometheus's JSON; raises `StackError` for any other answer."""
    with _as_prometheus_answers():
        return sorted(
            (
                Target(
                    job=printable(target["labels"]["job"]),
                    address=printable(target["discoveredLabels"]["__address__"]),
                    host=printable(target["labels"].get("host", "")),
                    up={"up": True, "down": False}.get(target["health"]),
                    error=printable(target["lastError"]),
                    interval=durations.parse(target["scrapeInterval"]),
                    platform=printable(target["labels"].get("platform", "")),
                )
                for target in json.loads(answer)["data"]["activeTargets"]
            ),
            key=lambda target: (target.job, target.address),
        )


def parse_left_out(answer: bytes) -> list[dict[str, str]]:
    """Of Prometheus's JSON; raises `StackError` for any other answer."""
    with _as_prometheus_answers():
        found = [target["discoveredLabels"] for target in json.loads(answer)["data"]["droppedTargets"]]
        return [
            {"__address__": "", "job": "", **{name: printable(text) for name, text in labels.items()}}
            for labels in found
        ]


@contextlib.contextmanager
def _as_prometheus_answers() -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, IndexError, RecursionError, TypeError, ValueError):
        raise StackError(
            "what answers on Prometheus's port is no Prometheus: another program may have taken the port"
        ) from None


def seconds_since_stored(prometheus_port: int) -> float | None:
    """The age of the newest sample in Prometheus; None if the past minutes have none.

    Scrapes can succeed while storing fails, such as on a full disk. Raises `NoAnswerError` without an answer.
    """
    answer = _here(prometheus_port).fetch("/api/v1/query", query="time() - max(timestamp(up))")
    if answer is None:
        raise NoAnswerError("Prometheus does not answer")
    with _as_prometheus_answers():
        result = json.loads(answer)["data"]["result"]
        return float(result[0]["value"][1]) if result else None


def gets_all_data(exporter: Part, port: int) -> bool:
    """Whether an exporter of this project gets data from all its sources."""
    up = f"\n{exporter.name.removesuffix('-exporter')}_up 1"
    return up.encode() in (_here(port).fetch("/metrics") or b"")


def is_refused(perf_exporter_port: int) -> bool:
    """Whether perf-exporter can't count anything, as it lacks a privilege."""
    page = _here(perf_exporter_port).fetch("/metrics") or b""
    return b'reason="no_permission"' in page and b"\nperf_events_total{" not in page


def why_absent(exporter: Part, port: int) -> list[str]:
    """Why optional sources are absent on this machine, from an exporter of this project."""
    name = exporter.name.removesuffix("-exporter")
    page = (_here(port).fetch("/metrics") or b"").decode(errors="replace")
    found = re.findall(rf'^{name}_source_info{{.*detail="absent: ((?:[^"\\]|\\.)*)"', page, re.MULTILINE)
    return [re.sub(r"\\(.)", lambda escaped: {"n": " "}.get(escaped[1], escaped[1]), why) for why in found]


def _here(port: int) -> Api:
    """A part on this machine."""
    return Api(f"http://127.0.0.1:{port}", seconds=5)


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition becomes true within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
