"""Whether the stack works: its parts answer, and Prometheus gets what they expose."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deploy import StackError, durations, supervision
from deploy.parts import PROMETHEUS, Part
from deploy.terminal import printable

POLL_SECONDS = 0.1
# Prometheus reads back what it had not yet written into blocks, up to three hours of it.
READY_SECONDS = 300
# Prometheus spreads first scrapes over scrape_interval, and one may be lost while a part is still starting.
SCRAPE_SECONDS = 60
TRY_SECONDS = 15  # for the first scrapes of new targets: one takes 4 s at most, by prometheus.yml


@dataclass(frozen=True)
class Target:
    """An address that Prometheus scrapes; `error` is why the last scrape failed."""

    job: str
    address: str
    host: str
    up: bool | None  # None: not scraped yet
    error: str
    interval: float  # seconds between two scrapes
    platform: str

    @property
    def health(self) -> str:
        """In a few words."""
        if self.up is None:
            return "not scraped yet"
        return "up" if self.up else f"down: {self.error}"


class NoAnswerError(StackError):
    """A part doesn't answer."""


class PartFailedError(StackError):
    """A part did not become, or did not stay, what it should be: `part` says whose log has more."""

    def __init__(self, part: Part, message: str) -> None:
        super().__init__(message)
        self.part = part


def answers(part: Part, port: int) -> bool:
    """Whether the part answers now that it works."""
    return fetch(port, part.health_path) is not None


def says_anything(port: int, path: str, seconds: float) -> bool:
    """Whether the first byte of an HTTP answer comes in time, be it 503: what hangs sends none."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(request.encode())
            return connection.recv(1) != b""
    except OSError:
        return False


def wait_until_healthy(part: Part, port: int) -> int:
    """Return the part's pid once it answers; raise `PartFailedError` when it ends, or after `READY_SECONDS`."""
    pid = 0

    def is_healthy() -> bool:
        nonlocal pid
        process = supervision.processes()[part.name]
        pid = process.pid
        if process.state not in {"starting", "running"}:
            how = process.spawn_error or f"exit status {process.exit_status}"
            raise PartFailedError(part, f"{part.name} ended right after its start ({how})")
        # "running": it has stayed up for a second. Until then another program may be answering on its port.
        return process.state == "running" and answers(part, port)

    if not _within(READY_SECONDS, is_healthy):
        raise PartFailedError(
            part, f"{part.name} runs but does not answer http://127.0.0.1:{port}{part.health_path} with 200"
        )
    return pid


def wait_until_scraped(parts: Sequence[Part], ports: Mapping[str, int]) -> None:
    """Return once Prometheus has scraped each of the parts with success; raise `PartFailedError` if it doesn't."""
    wanted = {f"127.0.0.1:{ports[part.name]}": part for part in parts}

    def scraped() -> bool:
        own = [target for target in targets(ports[PROMETHEUS.name]) if target.address in wanted]
        # The demo has many at one address.
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
    """All that Prometheus is scraping, in the order of jobs and addresses; empty if it does not answer.

    Raises `StackError` if it isn't Prometheus that answers.
    """
    answer = fetch(prometheus_port, "/api/v1/targets?state=active")
    return [] if answer is None else parse_targets(answer)


def left_out(prometheus_port: int) -> list[dict[str, str]]:
    """The labels of each entry of the targets' files that Prometheus does not scrape; raises as `targets` does."""
    answer = fetch(prometheus_port, "/api/v1/targets?state=dropped")
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
    """How old the newest sample is that Prometheus has stored of any target; None if it has none of the past minutes.

    Scrapes succeed where storing fails, as on a full disk. Raises `NoAnswerError` if Prometheus doesn't answer.
    """
    answer = fetch(prometheus_port, "/api/v1/query?query=time()-max(timestamp(up))")
    if answer is None:
        raise NoAnswerError("Prometheus does not answer")
    with _as_prometheus_answers():
        result = json.loads(answer)["data"]["result"]
        return float(result[0]["value"][1]) if result else None


def gets_all_data(exporter: Part, port: int) -> bool:
    """Whether an exporter of ours gets data from all its sources."""
    up = f"\n{exporter.name.removesuffix('-exporter')}_up 1"
    return up.encode() in (fetch(port, "/metrics") or b"")


def is_refused(perf_exporter_port: int) -> bool:
    """Whether the kernel lets perf-exporter count nothing, as it lacks a privilege."""
    page = fetch(perf_exporter_port, "/metrics") or b""
    return b'reason="no_permission"' in page and b"\nperf_events_total{" not in page


def why_absent(exporter: Part, port: int) -> list[str]:
    """Why sources that a machine may lack are absent from this one, as an exporter of ours says it."""
    name = exporter.name.removesuffix("-exporter")
    page = (fetch(port, "/metrics") or b"").decode(errors="replace")
    found = re.findall(rf'^{name}_source_info{{.*detail="absent: ((?:[^"\\]|\\.)*)"', page, re.MULTILINE)
    return [re.sub(r"\\(.)", lambda escaped: {"n": " "}.get(escaped[1], escaped[1]), why) for why in found]


def fetch(port: int, path: str, host: str = "127.0.0.1", seconds: float = 5) -> bytes | None:
    """The body of a 200 answer, or None. Proxies in the environment are not for these addresses."""
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if response.status == http.client.OK else None


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition has become true within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
