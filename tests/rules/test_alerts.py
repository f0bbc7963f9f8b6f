"""Every alert tells who is woken by it what it means, in numbers, and where to read what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
SECTIONS = ["What it means", "When to ignore it"]

# All applications' alerts are alike: the auction site's stand for them.
ALERTS = {
    rule["alert"]: (file, rule)
    for file in sorted([*ROOT.glob("alerts/rules/*.yml"), ROOT / "alerts" / "generated" / "auction.yml"])
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


@pytest.fixture(params=ALERTS)
def alert(request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any]]:
    """The file of an alert, and the alert as it stands there."""
    return ALERTS[request.param]


def test_it_has_a_severity_that_is_routed_and_all_annotations(alert: tuple[Path, dict[str, Any]]) -> None:
    _file, rule = alert
    assert set(rule["labels"]) - {"objective"} == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "none"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_its_runbook_is_there(alert: tuple[Path, dict[str, Any]]) -> None:
    _file, rule = alert
    name = rule["alert"]
    assert rule["annotations"]["runbook_url"] == f"{{{{ $externalURL }}}}/user/runbooks/{name}.md"
    runbook = (RUNBOOKS / f"{name}.md").read_text()
    assert runbook.startswith(f"# {name}\n")
    for section in SECTIONS:
        assert f"\n## {section}\n" in runbook


def test_its_words_are_asserted_in_a_unit_test(alert: tuple[Path, dict[str, Any]]) -> None:
    file, rule = alert
    tests = yaml.safe_load((ROOT / "alerts" / "tests" / file.name).read_text())["tests"]
    cases = [case for test in tests for case in test.get("alert_rule_test", []) if case.get("exp_alerts")]
    asserted = [expected for case in cases if case["alertname"] == rule["alert"] for expected in case["exp_alerts"]]
    assert asserted
    for expected in asserted:
        assert set(expected["exp_annotations"]) == set(rule["annotations"])


def test_users_can_look_up_every_alert_and_its_severity() -> None:
    page = (ROOT / "docs" / "alerting.md").read_text()
    listed = dict(re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", page, re.MULTILINE))
    assert listed == {name: rule["labels"]["severity"] for name, (_file, rule) in ALERTS.items()}


def test_no_runbook_is_left_over() -> None:
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == set(ALERTS)
