"""Targets with arbitrary content next to an honest one, on a real Prometheus with the shipped rules.

Hostile pages are random with fixed seeds: every metric that rules read, with odd values, in series that differ by
labels which rules join on, aggregate or write. No rule may fail, because that would affect all hosts. The honest host's
records must equal those of a Prometheus without hostile targets.
"""

import json
import random
import re
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.exporters import FOLDERS, PLATFORM_OF
from tests.e2e.test_what_a_target_may_say import golden_pages, jobs_that_may_say, read_names
from tests.support import Exposition, Prometheus
from tests.support.endpoints import Group, answers
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
RULES = [
    rule["expr"]
    for pattern in ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
    for file in ROOT.glob(pattern)
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
]
# Labels that rules join on, aggregate or write.
LABELS = sorted(
    {
        label
        for expr in RULES
        for listed in re.findall(r"(?:by|on|without|group_left|group_right) ?\(([^()]*)\)", expr)
        for label in re.findall(r"\w+", listed)
    }
    | {label for expr in RULES for label in re.findall(r'"([a-z_]+)", "[^"]*", "[a-z_]*"', expr)}
)
TEXTS = ["1", "2", "guest", "host", "shop", "web", "5xx", "+Inf", "all", "/docker/" + "a" * 64]
ODD = [0.0, -1.0, 1e308, float("nan"), float("inf"), float("-inf")]
SECONDS = 240


def bases() -> dict[str, list[dict[str, str]]]:
    """Labels of the exporters' own series, a few sets per metric."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for _, text in golden_pages().values():
        for family in text_string_to_metric_families(text):
            for sample in family.samples[:4]:
                found[sample.name].append(dict(sample.labels))
    request = {"app": "shop", "tier": "web", "method": "GET", "status": "2xx"}
    for series in ("count", "sum", "bucket"):
        found[f"app_request_duration_seconds_{series}"] = [request | ({"le": "0.1"} if series == "bucket" else {})]
    return found


def hostile_page(job: str, seed: int) -> Exposition:
    """A page of series with a label more, less or changed, whose counters grow unless they are odd."""
    chance = random.Random(f"{job} {seed}")
    series: dict[tuple[str, str], tuple[float, float]] = {}
    known = bases()
    for name in sorted(name for name in read_names() if job in jobs_that_may_say(name)):
        for base in (known[name] or [{}])[:2]:
            variants = [base] + [base | {chance.choice(LABELS): chance.choice(TEXTS)} for _ in range(4)]
            variants += [base | {label: chance.choice(["1", "2"])} for label in chance.sample(LABELS, 2) for _ in "12"]
            variants += [{key: value for key, value in base.items() if key != left_out} for left_out in [*base][:2]]
            for labels in variants:
                # For these pages the exposition format escapes like JSON.
                pairs = (f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()) if key != "__name__")
                written = ",".join(pairs)
                odd = chance.random() < 0.1
                series[name, written] = (chance.choice(ODD), 0) if odd else (chance.random(), chance.random())
    began = time.time()

    def text() -> str:
        age = time.time() - began
        return "".join(f"{name}{{{labels}}} {at + age * rate}\n" for (name, labels), (at, rate) in series.items())

    return Exposition(text)


def honest_page() -> Exposition:
    """A shop that answers 10 requests a second in 0.25 s each; every tenth fails."""
    began = time.time() - 1000

    def text() -> str:
        answered = int((time.time() - began) * 10) // 10 * 9
        failed = 'app_request_duration_seconds_count{app="shop",tier="web",method="GET",status="5xx"}'
        page = answers(answered, answered / 4, "0.3", "+Inf")
        return f"{page}{failed} {answered // 9}\nprocess_start_time_seconds {began}\n"

    return Exposition(text)


def failures(prometheus: Prometheus) -> list[str]:
    """Rule groups that ever failed, and errors of the last evaluations."""
    page = requests.get(f"{prometheus.url}/metrics", timeout=10).text
    failed = re.findall(r'(?m)^prometheus_rule_evaluation_failures_total{rule_group="(.*)"} [^0].*$', page)
    rules = [rule for group in prometheus.get("rules", {})["groups"] for rule in group["rules"]]
    return failed and failed + [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule.get("lastError")]


def wait_for_evaluations(prometheus: Prometheus, number: int) -> None:
    """Wait until every group has been evaluated this many times."""
    seen: dict[str, set[str]] = defaultdict(set)

    def fewest() -> int:
        for group in prometheus.get("rules", {})["groups"]:
            seen[group["file"] + group["name"]].add(group["lastEvaluation"])
        return min(map(len, seen.values()))

    wait_for(fewest, SECONDS, every=0.5, until=lambda found: found > number)


def of_honest_host(prometheus: Prometheus) -> dict[tuple[tuple[str, str], ...], float]:
    found = prometheus.query('{__name__=~"(app|requests|objective|slo|target):.+", host="honest"}')
    return {tuple(sorted(series["metric"].items())): float(series["value"][1]) for series in found}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "seed"),
    [pytest.param("prometheus", 1, marks=pytest.mark.system), pytest.param("prometheus3", 2, marks=pytest.mark.long)],
)
def test_no_target_stops_or_changes_the_records_of_another(
    tmp_path: Path, program: Literal["prometheus", "prometheus3"], seed: int
) -> None:
    with ExitStack() as stack:
        honest = {"telegraf": [stack.enter_context(honest_page()).group("honest", "base")]}
        hostile: dict[str, list[Group]] = defaultdict(list)
        for number in range(2):
            for job in (*FOLDERS, "node", "cadvisor", "telegraf", "app", "guest"):
                page = stack.enter_context(hostile_page(job, 10 * seed + number))
                entry = page.group("hostile", PLATFORM_OF.get(job, "cgroup" if job == "cadvisor" else "base"))
                if job in ("guest", "telegraf", "app"):
                    entry["labels"]["vserver"] = "g"
                hostile[job].append(entry)
        hostile["telegraf"] += honest["telegraf"]
        (tmp_path / "alone").mkdir()
        alone, beside = (
            stack.enter_context(Prometheus(folder, jobs, program=program, interval="5s", group_interval="5s"))
            for folder, jobs in ((tmp_path / "alone", honest), (tmp_path, hostile))
        )
        wanted = sum(map(len, hostile.values()))
        beside.wait_for(
            f'count(max_over_time(up{{job!~"prometheus|alertmanager|stack"}}[5m]) == 1) == {wanted}', SECONDS
        )
        for prometheus in (alone, beside):
            prometheus.wait_for('app:response_seconds:mean{host="honest"}', SECONDS)
            wait_for_evaluations(prometheus, 3)
        assert failures(beside) == []
        expected, found = of_honest_host(alone), of_honest_host(beside)
        assert expected.keys() == found.keys() != set()
        assert beside.value('app:errors:ratio{host="honest"}') == pytest.approx(0.1, abs=0.01)
        assert beside.value('app:response_seconds:mean{host="honest"}') == pytest.approx(0.25)
