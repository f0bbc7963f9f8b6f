"""Every alert says what is wrong, with which numbers, and where to read what to do.

Checks that pint has and promtool's lint doesn't: templates use labels that the alert has, their queries parse, metrics
that they name exist, and each `for` is explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.rules.test_rules import run
from tools.exporters import FOLDERS, prefixes

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
SECTIONS = ["What to do", "What it means", "When to silence it"]
IN_WORDS = {
    None: "at once|always",
    "1m": "a minute",
    "2m": "two minutes",
    "5m": "five minutes",
    "10m": "ten minutes",
    "15m": "fifteen minutes",
    "30m": "thirty minutes",
    "1h": "an hour",
}

WRITTEN = sorted(ROOT.glob("alerts/rules/*.yml"))
# All applications' alerts are alike: the auction site's represent them.
ALERTS = {
    rule["alert"]: (file, rule)
    for file in [*WRITTEN, ROOT / "alerts" / "generated" / "auction.yml"]
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
DASHBOARDS = {
    dashboard["uid"]: dashboard
    for dashboard in (json.loads(file.read_text()) for file in ROOT.glob("dashboards/json/*.json"))
}
OUR_METRICS = {
    metric.replace("NAME", exporter)
    for metric in re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    for exporter in FOLDERS
}


@pytest.fixture(params=ALERTS)
def alert(request: pytest.FixtureRequest) -> tuple[Path, dict[str, Any]]:
    """The file of an alert, and the alert itself."""
    return ALERTS[request.param]


def test_it_has_a_severity_that_is_routed_and_all_annotations(alert: tuple[Path, dict[str, Any]]) -> None:
    _file, rule = alert
    assert set(rule["labels"]) - {"objective"} == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "none"}
    wanted = {"summary", "description", "runbook_url"}
    if "objective" in rule["labels"]:
        wanted.add("cause")
    if rule["labels"]["severity"] != "none":
        wanted.add("dashboard")
    assert set(rule["annotations"]) == wanted


def test_what_may_change_while_it_fires_is_not_a_label(
    alert: tuple[Path, dict[str, Any]],
) -> None:
    """A changed label makes another alert: its `for` restarts, and another notification is sent, if any is."""
    _file, rule = alert
    assert rule["labels"]["severity"] == "none" or not re.search(r"(?:group_left|by) *\([^)]*\bcause\b", rule["expr"])


def test_its_dashboard_exists_and_has_the_variables_in_the_link(alert: tuple[Path, dict[str, Any]]) -> None:
    """Alertmanager's template prepends Grafana's address and appends the time: so the link needs a query string."""
    _file, rule = alert
    if "dashboard" in rule["annotations"]:
        link = urlsplit(rule["annotations"]["dashboard"])
        dashboard = DASHBOARDS[link.path.removeprefix("d/")]
        chosen = {name.removeprefix("var-") for name in parse_qs(link.query, keep_blank_values=True)}
        assert chosen
        assert chosen <= {variable["name"] for variable in dashboard["templating"]["list"]}
        runbook = " ".join((RUNBOOKS / f"{rule['alert']}.md").read_text().split())
        assert f'ashboard "{dashboard["title"]}"' in runbook


def test_its_runbook_exists_and_begins_with_what_to_do(alert: tuple[Path, dict[str, Any]]) -> None:
    _file, rule = alert
    name = rule["alert"]
    assert rule["annotations"]["runbook_url"] == f"{{{{ $externalURL }}}}/user/runbooks/{name}.md"
    runbook = (RUNBOOKS / f"{name}.md").read_text()
    assert runbook.startswith(f"# {name}\n\n")
    assert re.findall(r"^## (.+)$", runbook, re.MULTILINE) == SECTIONS
    if rule["labels"]["severity"] != "none":
        steps = runbook.split("## What to do\n\n")[1]
        assert re.match(r"1\. (?s:.)*?`", steps.split("\n\n## ")[0]), "steps, with a command or a query"


def test_its_annotations_are_asserted_in_a_unit_test_and_use_labels_that_it_has(
    alert: tuple[Path, dict[str, Any]],
) -> None:
    file, rule = alert
    asserted = [
        expected
        for test in unit_tests(file)
        for case in test.get("alert_rule_test", [])
        if case["alertname"] == rule["alert"]
        for expected in case.get("exp_alerts") or []
    ]
    assert asserted
    text = " ".join(rule["annotations"].values())
    used = set(re.findall(r"\$labels\.(\w+)", text))
    optional = set(re.findall(r"{{-? (?:with|if) \$labels\.(\w+) }}", text))  # optional
    for expected in asserted:
        assert set(expected["exp_annotations"]) == set(rule["annotations"])
        assert used - optional <= set(expected["exp_labels"])
    assert all(any(label in expected["exp_labels"] for expected in asserted) for label in used)


def test_its_numbers_have_few_digits_and_no_exponents(
    alert: tuple[Path, dict[str, Any]],
) -> None:
    """%.2g prints 1,300 as 1.3e+03, and humanizePercentage has four digits. A percentage is never above 100."""
    _file, rule = alert
    text = " ".join(rule["annotations"].values())
    assert re.findall(r"humanize(?!Timestamp)\w*", text) == []
    verbs = re.findall(r'printf "(%[^qs"]+" }}%?)', text)
    assert [verb for verb in verbs if not re.fullmatch(r'%\.[0-3]f" }}%?|%\.3g" }}%', verb)] == []


def test_a_unit_test_sees_it_inactive_firing_and_resolved(alert: tuple[Path, dict[str, Any]]) -> None:
    file, rule = alert
    wanted = "quiet(firing)+quiet" if rule["labels"]["severity"] != "none" else "(firing)+"
    assert any(re.search(wanted, "".join(seen(rule["alert"], test))) for test in unit_tests(file))


def test_each_for_is_explained_in_a_comment() -> None:
    for file in WRITTEN:
        for comment, name in re.findall(r"((?:^ *#.*\n)*)^ *- alert: (\w+)$", file.read_text(), re.MULTILINE):
            words = IN_WORDS[ALERTS[name][1].get("for")]
            assert re.search(rf"\b({words})\b", " ".join(re.sub("#", "", comment).split()), re.IGNORECASE), name


def test_queries_in_its_annotations_parse(alert: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _file, rule = alert
    check_queries(queries(rule), tmp_path)


def test_queries_in_its_runbook_parse(alert: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Queries are what has a selector; `{...}` repeats the one before."""
    _file, rule = alert
    quoted = re.findall(r"`([^`]+)`", (RUNBOOKS / f"{rule['alert']}.md").read_text())
    found = [text.replace("{...}", '{host="HOST"}') for text in quoted if re.search(r'{(\.\.\.}|\w+=~?")', text)]
    check_queries(iter(found), tmp_path)


def test_our_metrics_named_in_it_and_its_runbook_exist(alert: tuple[Path, dict[str, Any]]) -> None:
    """For the vocabulary, see tests/rules/test_records.py."""
    _file, rule = alert
    text = "\n".join([rule["expr"], *queries(rule), (RUNBOOKS / f"{rule['alert']}.md").read_text()])
    ours = "|".join(prefix for exporter in FOLDERS for prefix in prefixes(exporter))
    assert set(re.findall(rf"\b(?:{ours})\w+(?=[{{\[])", text)) <= OUR_METRICS


def test_users_can_look_up_every_alert_and_its_severity() -> None:
    page = (ROOT / "docs" / "alerting.md").read_text()
    listed = dict(re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", page, re.MULTILINE))
    assert listed == {name: rule["labels"]["severity"] for name, (_file, rule) in ALERTS.items()}


def test_no_runbook_is_left_over() -> None:
    [of_gate] = yaml.safe_load((ROOT / "packaging/push/gate/rules.yml").read_text())["groups"]
    of_pushing_hosts = {rule["alert"] for rule in of_gate["rules"]}
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == set(ALERTS) | of_pushing_hosts


def test_alerts_named_in_inhibitions_exist() -> None:
    rules = yaml.safe_load((ROOT / "alerts" / "alertmanager.yml").read_text())["inhibit_rules"]
    matchers = " ".join(
        matcher for rule in rules for key in ("source", "target") for matcher in rule[f"{key}_matchers"]
    )
    named = {name for names in re.findall(r'alertname \S+ "?([\w|]+)', matchers) for name in names.split("|")}
    assert named <= set(ALERTS)


def check_queries(asked: Iterator[str], folder: Path) -> None:
    """Fail unless promtool accepts them."""
    rules = [{"record": f"query:{number}:asked", "expr": query} for number, query in enumerate(asked)]
    file = folder / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    run("promtool", "check", "rules", file)


def unit_tests(file: Path) -> list[dict[str, Any]]:
    """promtool's tests of the alerts in a file."""
    tests: list[dict[str, Any]] = yaml.safe_load((ROOT / "alerts" / "tests" / file.name).read_text())["tests"]
    return tests


def seen(name: str, test: dict[str, Any]) -> Iterator[str]:
    """What a unit test expects of an alert, "quiet" or "firing", in chronological order."""
    expected = [
        (minutes(case["eval_time"]), bool(case.get("exp_alerts")))
        for case in test.get("alert_rule_test", [])
        if case["alertname"] == name
    ] + [
        (minutes(case["eval_time"]), f'"{name}",alertstate="firing"' in str(case.get("exp_samples")))
        for case in test.get("promql_expr_test", [])
        if re.match(rf"ALERTS(?!{{alertname=\"(?!{name}\"))", case["expr"])
    ]
    for _time, firing in sorted(expected):
        yield "firing" if firing else "quiet"


def minutes(duration: str | int) -> float:
    """The minutes of a duration such as 1h4m."""
    units = {"h": 60, "m": 1, "s": 1 / 60}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", str(duration)))


def queries(rule: dict[str, Any]) -> Iterator[str]:
    """The queries in an alert's templates, with values in place of printf's verbs.

    A %s stands for a selector with its braces, or within braces for their content. The first string of an action is the
    query, others are formats for its result.
    """
    for text in rule["annotations"].values():
        for action in re.findall(r"{{(.*?)}}", text, re.DOTALL):
            if re.search(r"\bquery\b", action):
                query = re.findall(r'"((?:[^"\\]|\\.)*)"', action)[0]
                query = re.sub(r"({[^{}]*)%s", r'\1host="h"', query)
                yield query.replace("%s", '{host="h"}').replace("%q", '"q"').replace("%g", "1")
