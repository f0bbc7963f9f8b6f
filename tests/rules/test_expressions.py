"""Checks of expressions in pint that promtool's lint lacks.

Annotations are checked in test_alerts.py, records that no rule makes in test_records.py, and ratios of NaN or Inf in
test_quiet.py.
"""

import re
from typing import NamedTuple

import yaml

from tests.rules.test_rules import ROOT, RULE_FILES

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
SELDOM = 15  # seconds between scrapes, the maximum in docs/mixin.md
# Exceptions: missing series, while another alert fires, and records that contain the comparison.
WITHOUT_COMPARISON = {"ObjectiveWithoutRequests", "ObjectiveCause", "TargetScrapedTwice"}

RANGE = re.compile(r"([\w:]+)\s*(?:{[^{}]*})?\[(\w+?)(?::\w*)?\]")


class Evaluated(NamedTuple):
    """A rule and its evaluation interval in seconds."""

    name: str
    expr: str
    is_alert: bool
    interval: int


def seconds(duration: str) -> int:
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", duration))


RULES = [
    Evaluated(rule.get("record") or rule["alert"], rule["expr"], "alert" in rule, seconds(group.get("interval", "5s")))
    for file in RULE_FILES
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
]


def test_the_defaults_are_those_of_the_configuration() -> None:
    configuration = yaml.safe_load((ROOT / "prometheus" / "prometheus.yml").read_text())["global"]
    assert configuration["evaluation_interval"] == "5s"
    assert seconds(configuration["scrape_interval"]) <= SELDOM


def test_an_alert_compares_with_something_and_nothing_is_found_by_absent() -> None:
    """Otherwise it fires for every existing series. absent() has no host, and is empty if one of many exists."""
    alerts = [rule for rule in RULES if rule.is_alert]
    assert {rule.name for rule in alerts if not re.search(r"[<>]=? |[!=]= ", rule.expr)} == WITHOUT_COMPARISON
    assert [rule.name for rule in RULES if re.search(r"\babsent(_over_time)?\s*\(", rule.expr)] == []


def test_a_rate_covers_at_least_four_scrapes() -> None:
    """Two samples remain if one scrape fails and the range isn't aligned with scrapes."""
    rates = r"\b(?:rate|irate|increase|delta|idelta|deriv)\(\s*[\w:]+\s*(?:{[^{}]*})?\[(\w+)\]"
    found = [(rule.name, window) for rule in RULES for window in re.findall(rates, rule.expr)]
    assert found
    assert [(name, window) for name, window in found if seconds(window) < 4 * SELDOM] == []


def test_a_range_over_a_record_has_several_of_its_samples() -> None:
    """Or, for a range of a second, only that of this evaluation."""
    made = {rule.name: rule.interval for rule in RULES}
    ranges = [(rule, record, window) for rule in RULES for record, window in RANGE.findall(rule.expr) if record in made]
    found = [(rule, record, window) for rule, record, window in ranges if window != "1s"]
    assert found
    assert [(rule.name, record, window) for rule, record, window in found if seconds(window) < 3 * made[record]] == []
