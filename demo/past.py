"""The recording rules' past: what they would have recorded over blocks that hold only what targets showed."""

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


def read_rules(folder: Path) -> list[Rule]:
    """The recording rules of every rules file below `folder`, alerts' own ones included."""
    return [
        Rule(rule["record"], rule["expr"], rule.get("labels", {}))
        for pattern in ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
        for file in sorted(folder.glob(pattern))
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]


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
    with _serving(past) as port, ThreadPoolExecutor(_THREADS) as pool:
        answers = list(pool.map(lambda rule: _query_range(port, rule.expr, past), rules))
    written = set[tuple[str, float]]()
    with file.open("w", encoding="utf-8") as out:
        for rule, series in zip(rules, answers, strict=True):
            for each in series:
                labels = {**each["metric"], **rule.labels}
                labels.pop("__name__", None)
                inner = ",".join(
                    f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(labels.items()) if value
                )
                name = f"{rule.record}{{{inner}}}"
                for at, value in each["values"]:
                    if (name, at) not in written:
                        written.add((name, at))
                        out.write(f"{name} {value} {at}\n")
        out.write("# EOF\n")
    return len(written)


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
