"""Every alert names the problem and its numbers, and links to instructions.

Checks in pint that promtool's lint lacks: templates use labels that the alert has, their queries parse, and metrics in
them exist.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from deploy.exporters import FOLDERS, prefixes
from tests.rules.test_expressions import seconds
from tests.rules.test_rules import run

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
WRITTEN = sorted(ROOT.glob("alerts/rules/*.yml"))
# All applications' alerts have the same form; the auction site's represent them.
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


def test_an_alert_has_a_severity_that_is_routed_and_all_annotations() -> None:
    for name, (_, rule) in ALERTS.items():
        severity = rule["labels"]["severity"]
        assert set(rule["labels"]) - {"objective"} == {"severity"}, name
        assert severity in {"critical", "warning", "none"}, name
        wanted = {"summary", "description", "runbook_url"}
        wanted |= {"cause"} if "objective" in rule["labels"] else set()
        wanted |= {"dashboard"} if severity != "none" else set()
        assert set(rule["annotations"]) == wanted, name
        # A changed label makes a different alert: its `for` restarts, and a new notification is sent, if any.
        by_cause = re.search(r"(?:group_left|by) *\([^)]*\bcause\b", rule["expr"])
        assert severity == "none" or not by_cause, f"{name}'s cause may change while it fires"


def test_its_links_lead_to_a_dashboard_with_these_variables_and_to_a_runbook_that_begins_with_what_to_do() -> None:
    """Alertmanager's template prepends Grafana's address and appends the time, so the link needs a query string."""
    for name, (_, rule) in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == f"{{{{ $externalURL }}}}/user/runbooks/{name}.md"
        runbook = (RUNBOOKS / f"{name}.md").read_text()
        assert re.match(rf"# {name}\n\n(?!#)(?s:.)+?\n\n## What to do\n\n", runbook), name
        if rule["labels"]["severity"] != "none":
            assert re.match(r"What to do\n\n1\. (?s:.)*?`", runbook.split("\n\n## ")[1]), (
                f"{name}: steps, with a command or a query"
            )
            link = urlsplit(rule["annotations"]["dashboard"])
            dashboard = DASHBOARDS[link.path.removeprefix("d/")]
            chosen = {variable.removeprefix("var-") for variable in parse_qs(link.query, keep_blank_values=True)}
            assert chosen, name
            assert chosen <= {variable["name"] for variable in dashboard["templating"]["list"]}, name
            assert f'ashboard "{dashboard["title"]}"' in " ".join(runbook.split()), name


def test_a_unit_test_sees_it_inactive_firing_and_resolved() -> None:
    for name, (file, rule) in ALERTS.items():
        tests = unit_tests(file)
        cases = [case for test in tests for case in test.get("alert_rule_test", []) if case["alertname"] == name]
        asserted = [expected for case in cases for expected in case.get("exp_alerts") or []]
        assert asserted, name
        text = " ".join(rule["annotations"].values())
        used = set(re.findall(r"\$labels\.(\w+)", text))
        optional = set(re.findall(r"{{-? (?:with|if) \$labels\.(\w+) }}", text))
        for expected in asserted:
            assert set(expected["exp_annotations"]) == set(rule["annotations"]), name
            assert used - optional <= set(expected["exp_labels"]), name
        assert all(any(label in expected["exp_labels"] for expected in asserted) for label in used), name
        states = "quiet(firing)+quiet" if rule["labels"]["severity"] != "none" else "(firing)+"
        assert any(re.search(states, "".join(seen(name, test))) for test in tests), name


def test_its_numbers_have_few_digits_and_no_exponents() -> None:
    """%.2g prints 1,300 as 1.3e+03. humanizePercentage has four digits, and is for shares below 1."""
    for name, (_, rule) in ALERTS.items():
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"humanize\w*", text)) <= {"humanizePercentage", "humanizeDuration", "humanize1024"}, name
        verbs = re.findall(r'printf "(%[^qs"]+" }}%?)', text)
        assert [verb for verb in verbs if not re.fullmatch(r'%\.[0-3]f" }}%?|%\.3g" }}%', verb)] == [], name


def test_queries_in_annotations_and_runbooks_parse_and_the_metrics_in_them_exist(tmp_path: Path) -> None:
    """For the vocabulary, see test_records.py."""
    metrics = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    exposed = {metric.replace("NAME", exporter) for metric in metrics for exporter in FOLDERS}
    ours = "|".join(prefix for exporter in FOLDERS for prefix in prefixes(exporter))
    asked: dict[str, str] = {}
    for name, (_, rule) in ALERTS.items():
        runbook = (RUNBOOKS / f"{name}.md").read_text()
        # A query has a selector; `{...}` repeats the previous one.
        quoted = [text for text in re.findall(r"`([^`]+)`", runbook) if re.search(r'{(\.\.\.}|\w+=~?")', text)]
        found = [*queries(rule), *(text.replace("{...}", '{host="HOST"}') for text in quoted)]
        asked |= {f"query:{name}_{number}:asked": query for number, query in enumerate(found)}
        text = "\n".join([rule["expr"], *queries(rule), runbook])
        assert set(re.findall(rf"\b(?:{ours})\w+(?=[{{\[])", text)) <= exposed, name
    rules = [{"record": record, "expr": query} for record, query in asked.items()]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    run("promtool", "check", "rules", file)


def test_users_can_look_up_every_alert_and_no_other() -> None:
    page = (ROOT / "docs" / "alerting.md").read_text()
    listed = dict(re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", page, re.MULTILINE))
    assert listed == {name: rule["labels"]["severity"] for name, (_, rule) in ALERTS.items()}
    [of_gate] = yaml.safe_load((ROOT / "deploy/packages/push/gate/rules.yml").read_text())["groups"]
    of_pushing_hosts = {rule["alert"] for rule in of_gate["rules"]}
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == set(ALERTS) | of_pushing_hosts
    inhibitions = yaml.safe_load((ROOT / "alerts" / "alertmanager.yml").read_text())["inhibit_rules"]
    inhibited = re.findall(r'alertname \S+ "?([\w|]+)', json.dumps(inhibitions).replace("\\", ""))
    assert {name for names in inhibited for name in names.split("|")} <= set(ALERTS)


def unit_tests(file: Path) -> list[dict[str, Any]]:
    """promtool's tests of the alerts in a file."""
    written = (ROOT / "alerts" / "tests" / file.name).read_text()
    tests: list[dict[str, Any]] = yaml.load(written, yaml.CSafeLoader)["tests"]
    return tests


def seen(name: str, test: dict[str, Any]) -> Iterator[str]:
    """A unit test's expectations of an alert, "quiet" or "firing", in chronological order."""
    expected = [
        (seconds(str(case["eval_time"])), bool(case.get("exp_alerts")))
        for case in test.get("alert_rule_test", [])
        if case["alertname"] == name
    ] + [
        (seconds(str(case["eval_time"])), f'"{name}",alertstate="firing"' in str(case.get("exp_samples")))
        for case in test.get("promql_expr_test", [])
        if re.match(rf"ALERTS(?!{{alertname=\"(?!{name}\"))", case["expr"])
    ]
    for _time, firing in sorted(expected):
        yield "firing" if firing else "quiet"


def queries(rule: dict[str, Any]) -> Iterator[str]:
    """The queries in an alert's templates, with values instead of printf verbs.

    A %s is replaced by a selector with its braces, or within braces by their content. The first string of an action is
    the query, the others format its result.
    """
    for text in rule["annotations"].values():
        for action in re.findall(r"{{(.*?)}}", text, re.DOTALL):
            if re.search(r"\bquery\b", action):
                query = re.findall(r'"((?:[^"\\]|\\.)*)"', action)[0]
                query = re.sub(r"({[^{}]*)%s", r'\1host="h"', query)
                yield query.replace("%s", '{host="h"}').replace("%q", '"q"').replace("%g", "1")
