"""Query both for every rule's results over the whole run, and count the differences, also of notifications."""

import bisect
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from deploy.fleet.rules import ELSEWHERE, central_files
from tests.proofs.fleet.comparison import Explained, Tally, Why, compare, samples
from tests.proofs.fleet.faults import Step
from tests.proofs.fleet.running import Running, api, query, query_range
from tests.proofs.fleet.story import Host

# The longest range of any rule that depends on changes on a host, plus an evaluation and two scrapes.
_REACH_SECONDS = 330
# The range of rates, twice because a start is detected by the state a minute ago, plus an evaluation.
_DELAY_REACH_SECONDS = 130
_PUNCTUAL_SECONDS = 0.001
# Thanos Rule evaluates at its own times, and reads samples that the shards' newest evaluation has sent by then. A shard
# has another one's record once it has scraped it.
_SLACK_ACROSS_SHARDS = 3


@dataclass(frozen=True)
class Rule:
    """A record or alert, with all rules of that name.

    `interval` is the evaluation interval, the longest if several groups have the rule. `holds` is how much later than
    its inputs it may change, because alerts wait and keep firing. Both are in seconds. `crosses_shards` means that it
    may depend on hosts of several shards.
    """

    name: str
    is_alert: bool
    crosses_shards: bool
    interval: float
    holds: float

    @property
    def selector(self) -> str:
        """The query for all its samples."""
        return f'ALERTS{{alertname="{self.name}"}}' if self.is_alert else f'{{__name__="{self.name}"}}'


@dataclass(frozen=True)
class Span:
    """The run: evaluations at begin, begin + step, ... in seconds since 1970."""

    begin: float
    end: float
    step: float

    @property
    def evaluations(self) -> range:
        """The numbers of the evaluations."""
        return range(int((self.end - self.begin) / self.step) + 1)

    def number(self, at: float) -> int:
        """The number of the first evaluation at or after a time."""
        return max(0, math.ceil((at - self.begin) / self.step))


@dataclass(frozen=True)
class Observed:
    """Events in the fleet besides the story: its steps, and by host name the shards that it was in, and the times of
    late or failed scrapes while the host was up."""

    done: Sequence[Step]
    shard_of: Mapping[str, set[int]]
    late: Mapping[str, Sequence[float]]
    failed: Mapping[str, Sequence[float]]


def rules_of(address: str) -> list[Rule]:
    """All rules of the large Prometheus, each name once; raises OSError."""
    return rules_in(api(address, "rules")["data"]["groups"])


def rules_in(groups: Sequence[dict[str, Any]]) -> list[Rule]:
    """All rules in an answer of the API, each name once."""
    central = {file.name for file in central_files()}
    found: dict[tuple[str, bool], Rule] = {}
    reads: dict[str, str] = {}  # all expressions of each record
    for group in groups:
        for each in group["rules"]:
            is_alert = each["type"] == "alerting"
            rule = Rule(
                each["name"],
                is_alert,
                group["file"].rpartition("/")[2] in central,
                float(group["interval"]),
                float(each["duration"] + each["keepFiringFor"]) if is_alert else 0.0,
            )
            known = found.setdefault((rule.name, is_alert), rule)
            found[rule.name, is_alert] = replace(
                known, interval=max(known.interval, rule.interval), holds=max(known.holds, rule.holds)
            )
            if not is_alert:
                reads[rule.name] = f"{reads.get(rule.name, '')} {each['query']}"
    longest = max((rule.holds for rule in found.values()), default=0.0)
    for name in _follow_from("ALERTS", reads):
        found[name, False] = replace(found[name, False], holds=longest)
    for name in _follow_from(ELSEWHERE, reads):
        found[name, False] = replace(found[name, False], crosses_shards=True)
    return sorted(found.values(), key=lambda rule: (rule.is_alert, rule.name))


def _follow_from(series: str, reads: Mapping[str, str]) -> set[str]:
    """The records that read a series, directly or through others; `reads` has their expressions."""
    names = {record: set(re.findall(r"[a-zA-Z_:][\w:]*", text)) for record, text in reads.items()}
    found = {series}
    while more := {record for record, known in names.items() if known & found} - found:
        found |= more
    return found - {series}


def judge(
    running: Running, span: Span, explained: Callable[[Rule], Explained], hosts: Sequence[Host]
) -> Iterator[tuple[Rule, dict[int, Tally]]]:
    """The comparison of each rule's answers at each evaluation; raises FleetError or OSError."""
    answering = running.parts("query")[0].address
    names = {host.name for host in hosts}
    for rule in rules_of(running.oracle):
        interval = math.ceil(rule.interval / span.step)
        slack = _SLACK_ACROSS_SHARDS if rule.crosses_shards else interval
        margin = slack + 1  # samples before and after the run show changes at its ends
        begin, end = span.begin - margin * span.step, span.end + margin * span.step
        oracle, fleet = (
            samples(_of_hosts(answer, names), span.begin, span.step)
            for answer in (
                query_range(address, rule.selector, begin, end, span.step) for address in (running.oracle, answering)
            )
        )
        yield rule, compare(oracle, fleet, span.evaluations, explained(rule), slack=slack, margin=margin)


def scrapes(
    running: Running, span: Span, interval: float, hosts: Sequence[Host], zero: float
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Times by host name, sorted, at which any Prometheus scraped the host late, by its timestamps, and at which a
    scrape failed although the host was up. Raises FleetError or OSError.
    """
    late: dict[str, list[float]] = {host.name: [] for host in hosts}
    failed: dict[str, list[float]] = {host.name: [] for host in hosts}
    down = {host.name: [zero + time for time in host.down or ()] for host in hosts}
    asked = f'up{{instance=~"host.+"}}[{math.ceil(time.time() - span.begin) + _DELAY_REACH_SECONDS}s]'
    for address in [running.oracle, *(part.address for part in running.parts("prometheus"))]:
        for series in query(address, asked):
            host = series["metric"]["host"]
            times = [float(at) for at, _ in series["values"]]
            late[host] += [
                after for before, after in pairwise(times) if abs(after - before - interval) > _PUNCTUAL_SECONDS
            ]
            is_down = down[host] and (down[host][0] - interval, down[host][1] + interval)
            failed[host] += [
                float(at)
                for at, value in series["values"]
                if value == "0" and not (is_down and is_down[0] <= float(at) <= is_down[1])
            ]
    for found in (*late.values(), *failed.values()):
        found.sort()
    return late, failed


def explaining(hosts: Sequence[Host], zero: float, span: Span, observed: Observed) -> Callable[[Rule], Explained]:
    """Events that may explain differences of a rule's results: changes on a host, which two Prometheus scrape at
    different moments of an interval; events of its shard's Prometheus; and late scrapes.

    Rules about an application or across shards may depend on several hosts.
    """
    changes, late, failed = (
        {**times, "": sorted(at for found in times.values() for at in found)}
        for times in (
            {host.name: [zero, *(zero + change for change in host.changes())] for host in hosts},
            observed.late,
            observed.failed,
        )
    )

    def explained(rule: Rule, labels: Mapping[str, str], evaluation: int) -> Why:
        now = span.begin + span.step * evaluation
        of_several = rule.crosses_shards or "app" in labels or "host" not in labels
        host = "" if of_several else labels["host"]
        why = Why.NOTHING
        for times, reach, flag in (
            (changes, _REACH_SECONDS + rule.holds, Why.CHANGED),
            (late, _DELAY_REACH_SECONDS, Why.DELAYED),
            (failed, _DELAY_REACH_SECONDS, Why.FAILED),
        ):
            known = times.get(host, [])
            place = bisect.bisect_left(known, now - reach)
            if place < len(known) and known[place] <= now + span.step:
                why |= flag
        for step in observed.done:
            if not step.begin <= now <= step.repaired + _REACH_SECONDS + rule.holds:
                continue
            own = "host" not in labels or observed.shard_of[labels["host"]] & set(step.shards)
            if step.moves and (of_several or own):
                why |= Why.MOVED
            elif step.shards and own:
                why |= Why.RESTARTED
        return why

    return lambda rule: partial(explained, rule)


def _of_hosts(answer: Iterator[dict[str, Any]], names: set[str]) -> Iterator[dict[str, Any]]:
    """Only alerts of simulated hosts or without a host: the large Prometheus doesn't watch the fleet's own parts."""
    for series in answer:
        if series["metric"].get("host", next(iter(names))) in names:
            yield series


def notified(messages: Sequence[dict[str, Any]], names: set[str]) -> Counter[frozenset[tuple[str, str]]]:
    """The number of firing notifications of each alert about simulated hosts, by its labels."""
    found: Counter[frozenset[tuple[str, str]]] = Counter()
    for message in list(messages):
        for alert in message["alerts"]:
            labels = alert["labels"]
            if alert["status"] == "firing" and labels.get("host") in names:
                found[
                    frozenset((name, value) for name, value in labels.items() if name not in ("shard", "replica"))
                ] += 1
    return found
