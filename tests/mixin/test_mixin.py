"""The mixin is what the stack has, and a setting arrives where it should and nowhere else."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.program import program_path
from tests.rules.test_rules import run
from tools import mixin

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted([*ROOT.glob("prometheus/rules/*.yml"), *ROOT.glob("prometheus/rules/generated/*.yml")])
OBJECTIVES = sorted(ROOT.glob("alerts/generated/*.yml"))
ALERTS = [*sorted(ROOT.glob("alerts/rules/*.yml")), *OBJECTIVES]
DASHBOARDS = sorted(ROOT.glob("dashboards/json/*.json"))
SOURCES = sorted(mixin.SOURCES.glob("*sonnet"))

Json = Any


@dataclass(frozen=True)
class Mixin:
    """What is rendered: groups by name, and dashboards by the name of their file."""

    rules: dict[str, Json]
    alerts: dict[str, Json]
    dashboards: dict[str, Json]

    def every_rule(self) -> list[Json]:
        return [rule for groups in (self.rules, self.alerts) for group in groups.values() for rule in group["rules"]]


def groups(*files: Path) -> dict[str, Json]:
    return {group["name"]: group for file in files for group in yaml.safe_load(file.read_text())["groups"]}


def rendered(folder: Path, config: str | None = None) -> Mixin:
    """The mixin with some Jsonnet for `_config`."""
    program_path("jsonnet")  # skips where it can't be had
    settings = None
    if config is not None:
        settings = folder / "config.libsonnet"
        settings.write_text(config)
    mixin.render(folder, settings)
    dashboards = {file.name: json.loads(file.read_text()) for file in (folder / "dashboards").iterdir()}
    return Mixin(groups(folder / "rules.yml"), groups(folder / "alerts.yml"), dashboards)


def check_rules(folder: Path) -> None:
    """Fail unless promtool takes them; its lint has had each of the stack's files (tests/rules)."""
    run("promtool", "check", "rules", folder / "rules.yml", folder / "alerts.yml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixin")


@pytest.fixture(scope="module")
def unchanged(folder: Path) -> Mixin:
    """The mixin without any setting."""
    return rendered(folder)


def test_without_settings_it_is_the_stacks_own_files(unchanged: Mixin) -> None:
    advice = "name the new file in mixin/stack.libsonnet"
    assert unchanged.rules == groups(*RULES), advice
    assert unchanged.alerts == groups(*ALERTS), advice
    own = {f"virtscope-{file.name}": json.loads(file.read_text()) for file in DASHBOARDS}
    assert unchanged.dashboards == own, advice


def test_no_group_of_rules_and_of_alerts_has_the_same_name(unchanged: Mixin) -> None:
    """Prometheus refuses such groups in one file or PrometheusRule, which is how kube-prometheus loads both."""
    assert set(unchanged.rules) & set(unchanged.alerts) == set()


@pytest.mark.usefixtures("unchanged")
def test_prometheus_accepts_the_rules(folder: Path) -> None:
    check_rules(folder)


def of_own_targets(expected: Mixin) -> None:
    for rule in expected.every_rule():
        match rule:
            case {"alert": "ExporterDown"}:
                rule["expr"] = 'up{platform!="", job!~"prometheus|alertmanager"} == 0'
            case {"alert": "HostDown"}:
                rule["expr"] = rule["expr"].replace("(up)", '(up{platform!=""})')
            case {"alert": "HostsUnreachable"}:
                rule["expr"] = rule["expr"].replace("up{host", 'up{platform!="", host')
            case {"record": "monitor:cpu_usage:rate"}:
                rule["expr"] = rule["expr"].replace("total{", 'total{platform!="", ')
            case {"record": "target:process:info"}:
                rule["expr"] = rule["expr"].replace("seconds{", 'seconds{platform!="", ')


def alert(expected: Mixin, name: str) -> Json:
    (rule,) = (rule for rule in expected.every_rule() if rule.get("alert") == name)
    return rule


def of_another_prometheus(expected: Mixin) -> None:
    for name in (
        "HostsUnreachable",
        "DiskFillsUp",
        "StorageFailing",
        "ConfigurationRejected",
        "RulesFailing",
        "RuleEvaluationsMissed",
        "AlertmanagerNotReached",
    ):
        rule = alert(expected, name)
        rule["expr"] = rule["expr"].replace('job="prometheus"', 'job=~"prom.+"')
    for name in (f"virtscope-{page}.json" for page in ("monitor", "fleet", "host", "applications")):
        page = json.dumps(expected.dashboards[name])
        assert '{job=\\"prometheus\\"' in page
        changed = page.replace('job=\\"prometheus\\"', 'job=~\\"prom.+\\"')
        expected.dashboards[name] = json.loads(changed)


def of_another_alertmanager(expected: Mixin) -> None:
    for name in ("NotificationsFailing", "ConfigurationRejected"):
        rule = alert(expected, name)
        rule["expr"] = rule["expr"].replace('job="alertmanager"', 'job="am"')


def with_another_applications_objectives(expected: Mixin) -> None:
    (file,) = (file for file in OBJECTIVES if file.stem == "rubis")
    for name in groups(file):
        del expected.alerts[name]


def with_a_watchdog_already(expected: Mixin) -> None:
    rules = expected.alerts["stack"]["rules"]
    rules[:] = [rule for rule in rules if rule["alert"] != "Watchdog"]


def with_runbooks_elsewhere(expected: Mixin) -> None:
    for rule in expected.every_rule():
        if "alert" in rule:
            rule["annotations"]["runbook_url"] = f"https://wiki.example.org/{rule['alert']}"
    alert = json.dumps('${__data.fields["Alert"]}')[1:-1]
    for name, dashboard in expected.dashboards.items():
        text = json.dumps(dashboard).replace(
            f"http://${{prometheus}}/user/runbooks/{alert}.md", f"https://wiki.example.org/{alert}"
        )
        expected.dashboards[name] = json.loads(text)


def with_links_to_grafana(expected: Mixin) -> None:
    for rule in expected.every_rule():
        if "dashboard" in rule.get("annotations", {}):
            rule["annotations"]["dashboard"] = f"https://grafana.example.org/{rule['annotations']['dashboard']}"


def with_names_of_its_own(expected: Mixin) -> None:
    for dashboard in expected.dashboards.values():
        dashboard["title"] = f"virtscope / {dashboard['title']}"


def with_other_tags(expected: Mixin) -> None:
    for dashboard in expected.dashboards.values():
        dashboard["tags"] = ["virt", "prod"]
        dashboard["links"][1]["tags"] = ["virt"]


def with_another_time_zone(expected: Mixin) -> None:
    for dashboard in expected.dashboards.values():
        dashboard["timezone"] = "utc"


def with_rarer_questions(expected: Mixin) -> None:
    for dashboard in expected.dashboards.values():
        dashboard["refresh"] = "1m"


def with_few_data_sources(expected: Mixin) -> None:
    for dashboard in expected.dashboards.values():
        (variable,) = (each for each in dashboard["templating"]["list"] if each["type"] == "datasource")
        variable["regex"] = "/^prod/"


SETTINGS: dict[str, Callable[[Mixin], None]] = {
    "{ targetSelector: 'platform!=\"\"' }": of_own_targets,
    "{ prometheusSelector: 'job=~\"prom.+\"' }": of_another_prometheus,
    "{ alertmanagerSelector: 'job=\"am\"' }": of_another_alertmanager,
    "{ objectives: ['auction'] }": with_another_applications_objectives,
    "{ alertsLeftOut: ['Watchdog'] }": with_a_watchdog_already,
    "{ runbookURLPattern: 'https://wiki.example.org/%s' }": with_runbooks_elsewhere,
    "{ grafanaURL: 'https://grafana.example.org/' }": with_links_to_grafana,
    "{ dashboardNamePrefix: 'virtscope / ' }": with_names_of_its_own,
    "{ dashboardTags: ['virt', 'prod'] }": with_other_tags,
    "{ dashboardTimezone: 'utc' }": with_another_time_zone,
    "{ dashboardRefresh: '1m' }": with_rarer_questions,
    "{ datasourceFilterRegex: '/^prod/' }": with_few_data_sources,
}


@pytest.mark.parametrize("config", SETTINGS)
def test_a_setting_arrives_where_it_should_and_nowhere_else(unchanged: Mixin, tmp_path: Path, config: str) -> None:
    expected = copy.deepcopy(unchanged)
    SETTINGS[config](expected)
    assert expected != unchanged
    assert rendered(tmp_path, config) == expected
    check_rules(tmp_path)


def test_every_setting_is_tested_and_explained() -> None:
    settings = set(re.findall(r"^ {4}(\w+):", (mixin.SOURCES / "config.libsonnet").read_text(), re.MULTILINE))
    assert {re.findall(r"\w+", config)[0] for config in SETTINGS} == settings
    assert set(re.findall(r"^\| `(\w+)` ", (ROOT / "docs" / "mixin.md").read_text(), re.MULTILINE)) == settings


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("{ runbookUrl: 'https://wiki.example.org/%s' }", "runbookUrl"),
        ("{ alertsLeftOut: ['HostDown', 'WatchDog'] }", r'no such alerts: \["WatchDog"\]'),
        ("{ objectives: ['acution'] }", "acution"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(tmp_path: Path, config: str, named: str) -> None:
    with pytest.raises(mixin.MixinError, match=named):
        rendered(tmp_path, config)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_sources_are_formatted_and_clean(source: Path) -> None:
    run("jsonnetfmt", "--test", source)
    run("jsonnet-lint", source)
