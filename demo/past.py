"""The rules' past: their records and alerts, from blocks that only have targets' samples."""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from demo import history, story
from demo.openmetrics import Series, series_name
from deploy import durations
from deploy.api import Api, Unanswered

# Seconds between two evaluations, at whole multiples in Unix time, at which there are samples too. The study's guests
# start and end at such times, so each is visible until its end.
STEP = 60
# Seconds between two samples of records that are summed over an hour at most (sum_over_time): a sum depends on the
# number of samples, so the interval is the live one. Each evaluation's value is that of the minute before it.
_LIVE_STEP = 5
_LIVE_SECONDS = 2 * story.CYCLE  # rules look back an hour, from any time in the last hour
# Seconds of records that are read over more time than the past covers: a forecast needs three days of this one.
_LONGER = {"host:headroom:apps_p10_1d": 4 * 86400}
# How many seconds earlier the last sample of a virtual server's record is written. Without a staleness marker,
# Prometheus returns it for the lookback delta of 75 s: so it is gone at the next evaluation, when the guest's usage is
# recorded as that of an ended one. Less than `history.STEP`, so that rules reading the record find it.
_VSERVER, _EARLY = "vserver:", 16
_START_SECONDS = 60
_QUERY_SECONDS = 120
_THREADS = 3


@dataclass(frozen=True)
class Rule:
    """A recording rule: its group and name, the metrics it reads, and the labels it adds."""

    group: str
    record: str
    expr: str
    labels: Mapping[str, str]
    step: int = STEP  # seconds between two samples in the last two hours


@dataclass(frozen=True)
class Alert:
    """An alerting rule: it fires after its expression has been true for `seconds`, and for `keep` seconds more."""

    name: str
    expr: str
    seconds: float
    keep: float
    labels: Mapping[str, str]

    def states(self, true: Collection[int], end: int) -> Iterator[tuple[int, str, int]]:
        """Its states (pending or firing) until `end`, and since when, from the times when the expression is true."""
        since, until = 0, 0.0
        for at in range(min(true), end + 1, STEP):
            if at in true:
                since = since or at
                if at - since >= self.seconds:
                    until = at + STEP + self.keep
            elif at >= until:
                since = 0
                continue
            yield at, "firing" if at < until else "pending", since


def read_rules(folder: Path) -> tuple[list[Rule], list[Alert]]:
    """The recording and alerting rules of every rule file below `folder`."""
    groups = [
        group
        for pattern in ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
        for file in sorted(folder.glob(pattern))
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    ]
    rules = [(group["name"], rule) for group in groups for rule in group["rules"]]
    seldom = {rule.get("record") for group in groups if "interval" in group for rule in group["rules"]}
    added_up = {name for _, rule in rules for name in re.findall(r"sum_over_time\(([\w:]+)", rule["expr"])} - seldom
    recording, alerting = list[Rule](), list[Alert]()
    for group, rule in rules:
        labels = rule.get("labels", {})
        if "record" in rule:
            step = _LIVE_STEP if rule["record"] in added_up else STEP
            recording.append(Rule(group, rule["record"], rule["expr"], labels, step))
        else:
            waits, keeps = (durations.parse(rule.get(key, "0s")) for key in ("for", "keep_firing_for"))
            alerting.append(Alert(rule["alert"], rule["expr"], waits, keeps, labels))
    return recording, alerting


def rounds(rules: list[Rule]) -> Iterator[list[Rule]]:
    """The rules in rounds, each of which only reads records of earlier rounds.

    What a group has recorded itself is of its own platform, so it doesn't wait for the same record of another group.
    If rules read each other, or their own previous values, not all can wait: the first one then goes ahead, without the
    others' records.
    """
    reads = [set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", rule.expr)) for rule in rules]
    awaited = []
    for number, rule in enumerate(rules):
        producers = {other for other, its in enumerate(rules) if its.record in reads[number]}
        own = {other for other in producers if other < number and rules[other].group == rule.group}
        recorded = {rules[other].record for other in own}
        # If several rules have the same record, rules that read it depend on the others.
        awaited.append(
            own
            | {
                other
                for other in producers
                if (its := rules[other].record) not in recorded and (its != rule.record or its not in reads[other])
            }
        )
    left = set(range(len(rules)))
    while left:
        ready = {number for number in left if not awaited[number] & left}
        ready = ready or {min(left, key=lambda number: (len(awaited[number] & left), number))}
        yield [rules[number] for number in sorted(ready)]
        left -= ready


class Past(NamedTuple):
    """The blocks in `data`, read by this Prometheus program; records are needed from `begin` to `end` (Unix time)."""

    prometheus: Path
    data: Path
    begin: int
    end: int


def records(rules: list[Rule], past: Past) -> Iterator[Series]:
    """The rules' records."""
    samples: dict[str, dict[int, str]] = {}
    answers = _evaluated([rule.expr for rule in rules], past, story.CYCLE)
    steps = {rule.record: rule.step for rule in rules}
    for rule, answer in zip(rules, answers, strict=True):
        for series in answer:
            values = samples.setdefault(
                series_name(rule.record, {**series["metric"], "__name__": "", **rule.labels}), {}
            )
            for at, value in series["values"]:
                values.setdefault(at, value)  # if two rules give the same series, the first one counts
    for name, at_times in samples.items():
        yield name, _since(past, name, at_times, steps[name.partition("{")[0]])


def alerts(rules: list[Alert], past: Past) -> Iterator[Series]:
    """ALERTS as Prometheus would have recorded it, and ALERTS_FOR_STATE, from which it restores alerts at startup."""
    samples: dict[str, dict[int, str]] = {}
    # No `for` is longer than an hour.
    answers = _evaluated([alert.expr for alert in rules], past, 2 * story.CYCLE)
    for alert, answer in zip(rules, answers, strict=True):
        for series in answer:
            labels = {**series["metric"], "__name__": "", **alert.labels, "alertname": alert.name}
            for at, state, since in alert.states({at for at, _ in series["values"]}, past.end):
                samples.setdefault(series_name("ALERTS", {**labels, "alertstate": state}), {})[at] = "1"
                samples.setdefault(series_name("ALERTS_FOR_STATE", labels), {})[at] = str(since)
    for name, at_times in samples.items():
        yield name, _since(past, name, at_times, STEP)


def _since(past: Past, series: str, values: Mapping[int, str], step: int) -> Iterator[tuple[int, str]]:
    """A record since the past's beginning, derived from the last hour: the story is the same each hour.

    In the last two hours there are `step` seconds between samples. They are in the order of their times: several series
    of an answer may be one series of the record, and promtool drops samples older than the previous one.
    """
    name = series.partition("{")[0]
    begin = past.end - _LONGER.get(name, past.end - past.begin)
    last = past.end // STEP * STEP
    hour = sorted((at, value) for at, value in values.items() if at > past.end - story.CYCLE)
    for ago in range((past.end - begin) // story.CYCLE, -1, -1):
        earlier = ago * story.CYCLE
        for at, value in hour:
            if at - earlier < begin:
                continue
            shown = str(int(value) - earlier) if name == "ALERTS_FOR_STATE" else value
            often = step if past.end - at + earlier < _LIVE_SECONDS else STEP
            goes_on = (at + STEP if at < last else at + STEP - story.CYCLE) in values
            if often == STEP and name.startswith(_VSERVER) and not goes_on and (earlier or at < last):
                yield at - earlier - _EARLY, shown
                continue
            for moment in range(at - STEP + often, at + 1, often):
                yield moment - earlier, shown
            if not earlier and at < past.end < at + STEP:  # the last one is valid until there are live ones
                for moment in (*range(at + step, past.end, step), past.end):
                    yield moment, shown


def _evaluated(expressions: list[str], past: Past, seconds: int) -> list[list[dict[str, Any]]]:
    """The series of each expression over the last seconds of the past, as in Prometheus's API."""
    end = past.end // STEP * STEP
    times = {"start": str(end - seconds + STEP), "end": str(end), "step": str(STEP)}

    def series(expr: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = prometheus.data("/api/v1/query_range", query=expr, **times)["result"]
        return result

    with _serving(past) as prometheus, ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(series, expressions))


@contextlib.contextmanager
def _serving(past: Past) -> Iterator[Api]:
    """Run a separate Prometheus over the blocks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = past.data.parent / "nothing.yml"
    configuration.write_text("{}\n")
    log = past.data.parent / "past.log"
    command: list[str | Path] = [
        past.prometheus,
        f"--config.file={configuration}",
        f"--storage.tsdb.path={past.data}",
        "--storage.tsdb.retention.time=30d",
        f"--web.listen-address=127.0.0.1:{port}",
        # Blocks have no staleness markers: a sample is valid until the next one is due.
        f"--query.lookback-delta={history.STEP - 1}s",
        "--log.level=warn",
    ]
    prometheus = Api(f"http://127.0.0.1:{port}", seconds=_QUERY_SECONDS)
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _wait(process, prometheus, past.data, log)
            yield prometheus
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], prometheus: Api, data: Path, log: Path) -> None:
    """Wait until it is ready, and not another one that was quicker to take the port."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(Unanswered):
            if prometheus.data("/api/v1/status/flags")["storage.tsdb.path"] == str(data):
                return
        time.sleep(0.05)
    raise RuntimeError(f"Prometheus did not become ready:\n{log.read_text()[-2000:]}")
