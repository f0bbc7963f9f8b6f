"""The rules' past: what they would have recorded, and which alerts, over blocks that hold only what targets showed."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

STEP = 60  # seconds between two evaluations
_START_SECONDS = 60
_STOP_SECONDS = 15
_QUERY_SECONDS = 120
_THREADS = 3


@dataclass(frozen=True)
class Rule:
    """A recording rule: what it is called, what it reads, the labels that it adds."""

    record: str
    expr: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Alert:
    """An alerting rule: it fires where it has been true for so many seconds."""

    name: str
    expr: str
    seconds: int
    labels: Mapping[str, str]


def read_rules(folder: Path) -> tuple[list[Rule], list[Alert]]:
    """The recording and the alerting rules of every rules file below `folder`."""
    rules = [
        rule
        for pattern in ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
        for file in sorted(folder.glob(pattern))
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]
    return (
        [Rule(rule["record"], rule["expr"], rule.get("labels", {})) for rule in rules if "record" in rule],
        [
            Alert(rule["alert"], rule["expr"], _seconds(rule.get("for", "0s")), rule.get("labels", {}))
            for rule in rules
            if "alert" in rule
        ],
    )


def _seconds(duration: str) -> int:
    """Seconds of a duration as rules files have it, such as 1h30m."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smhd])", duration))


def rounds(rules: list[Rule]) -> Iterator[list[Rule]]:
    """The rules in rounds, each reading nothing but what rounds before it record.

    Rules that read each other, or themselves as they were before, can't all wait: the first of them goes then, and sees
    nothing of the others.
    """
    reads = [set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", rule.expr)) for rule in rules]
    # Of several rules for one record, those that read it themselves build upon the others.
    awaited = [
        {
            other
            for other, its in enumerate(rules)
            if its.record in reads[number] and (its.record != rule.record or its.record not in reads[other])
        }
        for number, rule in enumerate(rules)
    ]
    left = set(range(len(rules)))
    while left:
        ready = {number for number in left if not awaited[number] & left}
        ready = ready or {min(left, key=lambda number: (len(awaited[number] & left), number))}
        yield [rules[number] for number in sorted(ready)]
        left -= ready


class Past(NamedTuple):
    """The blocks in `data`, from `begin` to `end` (Unix time), as a Prometheus of this program reads them."""

    prometheus: Path
    data: Path
    begin: int
    end: int


def write_records(file: Path, rules: list[Rule], past: Past) -> int:
    """Write what the rules would have recorded as OpenMetrics; return how many samples."""
    samples: dict[tuple[str, int], str] = {}
    for rule, answer in zip(rules, _evaluated([rule.expr for rule in rules], past), strict=True):
        for series in answer:
            name = _series(rule.record, {**series["metric"], **rule.labels})
            for at, value in series["values"]:
                samples.setdefault((name, at), value)  # of two rules for one series, the first counts
    return _write(file, samples)


def write_alerts(file: Path, alerts: list[Alert], past: Past) -> int:
    """Write ALERTS as Prometheus would have recorded it, as OpenMetrics; return how many samples."""
    samples: dict[tuple[str, int], str] = {}
    for alert, answer in zip(alerts, _evaluated([alert.expr for alert in alerts], past), strict=True):
        for series in answer:
            labels = {**series["metric"], **alert.labels, "alertname": alert.name}
            since = before = 0
            for at, _ in series["values"]:
                if at - before > STEP:
                    since = at
                before = at
                state = "firing" if at - since >= alert.seconds else "pending"
                samples[_series("ALERTS", {**labels, "alertstate": state}), at] = "1"
    return _write(file, samples)


def _series(name: str, labels: Mapping[str, str]) -> str:
    inner = (
        f"{label}={json.dumps(value, ensure_ascii=False)}"
        for label, value in sorted(labels.items())
        if value and label != "__name__"
    )
    return f"{name}{{{','.join(inner)}}}"


def _write(file: Path, samples: Mapping[tuple[str, int], str]) -> int:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{series} {value} {at}\n" for (series, at), value in samples.items())
        out.write("# EOF\n")
    return len(samples)


def _evaluated(expressions: list[str], past: Past) -> list[list[dict[str, Any]]]:
    """The series that each expression gives, in the form of Prometheus's API."""
    with _serving(past) as port, ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda expr: _query_range(port, expr, past), expressions))


@contextmanager
def _serving(past: Past) -> Iterator[int]:
    """A Prometheus of one's own over the blocks; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    configuration = past.data.parent / "nothing.yml"
    configuration.write_text("{}\n")
    log = past.data.parent / "past.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                past.prometheus,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={past.data}",
                "--storage.tsdb.retention.time=30d",
                f"--web.listen-address=127.0.0.1:{port}",
                # Blocks have no marks for where a series ends: a sample stands until the next one is due.
                f"--query.lookback-delta={STEP - 1}s",
                "--log.level=warn",
            ],
            stdout=output,
            stderr=output,
        )
        try:
            _wait(process, port, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if _get(port, "/-/ready")[0] == http.client.OK:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"Prometheus did not become ready:\n{log.read_text()[-2000:]}")


def _query_range(port: int, expr: str, past: Past) -> list[dict[str, Any]]:
    parameters = urllib.parse.urlencode({"query": expr, "start": past.begin, "end": past.end, "step": STEP})
    status, body = _get(port, f"/api/v1/query_range?{parameters}")
    answer = json.loads(body)
    if status != http.client.OK:
        raise RuntimeError(f"{answer.get('error')}: {expr}")
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def _get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_QUERY_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
