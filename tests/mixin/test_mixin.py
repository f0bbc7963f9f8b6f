"""The mixin is what the stack has, and a setting arrives where it should and nowhere else."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mixin.rendered import Json, Mixin, groups, rendered
from tests.rules.test_rules import run
from tests.support.program import program_path
from tools import mixin

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted([*ROOT.glob("prometheus/rules/*.yml"), *ROOT.glob("prometheus/rules/generated/*.yml")])
OBJECTIVES = sorted(ROOT.glob("alerts/generated/*.yml"))
ALERTS = [*sorted(ROOT.glob("alerts/rules/*.yml")), *OBJECTIVES]
DASHBOARDS = sorted(ROOT.glob("dashboards/json/*.json"))
CONSOLES = sorted(ROOT.glob("prometheus/consoles/*.html"))
SOURCES = sorted(mixin.SOURCES.glob("*sonnet"))


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
    assert unchanged.consoles == {file.name: file.read_text() for file in CONSOLES}, advice


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
                rule["expr"] = rule["expr"].replace("up{", 'up{platform!="", ')
            case {"alert": "HostDown"}:
                rule["expr"] = rule["expr"].replace("up{host", 'up{platform!="", host')
            case {"alert": "TargetFlapping"}:
                rule["expr"] = rule["expr"].replace("up[", 'up{platform!=""}[')
            case {"alert": "ScrapedTooSeldom"}:
                rule["expr"] = rule["expr"].replace("up{", 'up{platform!="", ')
            case {"alert": "CertificateExpires"}:
                for name in ("probe_ssl_earliest_cert_expiry", "x509_cert_expiry"):
                    rule["expr"] = rule["expr"].replace(name, name + '{platform!=""}')
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
        "InodesRunOut",
        "FileDescriptorsRunOut",
        "RemoteWriteBehind",
        "RemoteWriteRefused",
        "ScrapeLimitExceeded",
        "StorageFailing",
        "ConfigurationRejected",
        "ObjectiveRulesFailing",
        "RulesFailing",
        "RuleEvaluationsMissed",
        "AlertmanagerNotReached",
    ):
        rule = alert(expected, name)
        rule["expr"] = rule["expr"].replace('job="prometheus"', 'job=~"prom.+"')
    page = json.dumps(expected.dashboards["virtscope-monitor.json"])
    assert '{job=\\"prometheus\\"' in page
    changed = page.replace('job=\\"prometheus\\"', 'job=~\\"prom.+\\"')
    expected.dashboards["virtscope-monitor.json"] = json.loads(changed)


def of_another_alertmanager(expected: Mixin) -> None:
    for name in ("NotificationsFailing", "ConfigurationRejected", "FileDescriptorsRunOut"):
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
    for name, page in expected.consoles.items():
        expected.consoles[name] = re.sub(
            r"\{\{ pathPrefix \}\}/user/runbooks/(.+?)\.md", r"https://wiki.example.org/\1", page
        )


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


def with_a_longer_wait(expected: Mixin) -> None:
    starved, capped, flapping = (
        alert(expected, name) for name in ("VirtualServerStarved", "CapBindsLong", "GuestFlapping")
    )
    starved["for"] = "30m"
    flapping["for"] = "1m"
    capped["for"] = "2h"
    for text in ("summary", "description"):
        capped["annotations"][text] = re.sub(
            "(at its CPU limit |F)or half an hour", r"\1or 2h", capped["annotations"][text]
        )
    capped["annotations"]["summary"] = capped["annotations"]["summary"].replace("half an hour", "2h")


def over_ten_minutes(expected: Mixin) -> None:
    for rule in expected.every_rule():
        if rule.get("alert") not in JUDGE_THE_LAST_MINUTES:
            continue
        rule["expr"] = rule["expr"].replace("[5m]", "[10m]")
        for name in ("summary", "description"):
            text = rule["annotations"][name].replace("[5m]", "[10m]")
            rule["annotations"][name] = text.replace("in the last five minutes", "in the last ten minutes").replace(
                "In the last five minutes", "In the last ten minutes"
            )


JUDGE_THE_LAST_MINUTES = {
    *("CacheMissesUnusual", "CapBindsLong", "EventsMostlyEstimated", "HostOverheadHigh", "OverheadOutgrowsLoad"),
    *("OvercommitBeyondObjective", "VirtualServerStarved"),
}


def with_a_label_that_finds_them(expected: Mixin) -> None:
    for each in expected.objects.values():
        each["metadata"]["labels"]["release"] = "monitoring"


def with_a_host(expected: Mixin) -> None:
    expected.objects["scrapeConfig-xentop.yaml"]["spec"]["staticConfigs"] = [
        {"targets": ["dom0:10290"], "labels": {"host": "xen1"}}
    ]


def less_often(expected: Mixin) -> None:
    for each in expected.objects.values():
        if each["kind"] == "ScrapeConfig" and not each["spec"]["jobName"].endswith("_over_ssh"):  # theirs is 15 s
            each["spec"].update(scrapeInterval="15s", scrapeTimeout="14s")


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
    "{ alertFor: { VirtualServerStarved: '30m', CapBindsLong: '2h', GuestFlapping: '1m' } }": with_a_longer_wait,
    "{ alertWindow: '10m' }": over_ten_minutes,
    "{ objectLabels: { release: 'monitoring' } }": with_a_label_that_finds_them,
    "{ targets+: { xentop: [{ targets: ['dom0:10290'], labels: { host: 'xen1' } }] } }": with_a_host,
    "{ scrapeInterval: '15s' }": less_often,
}

# By setting: another value, and the alert's text before and after.
THRESHOLDS: dict[str, tuple[str, str, str, str]] = {
    "overcommitBeyondObjectiveCpuUsed": ("0.8", "OvercommitBeyondObjective", "[3m]) > 0.9", "[3m]) > 0.8"),
    "headroomEndsSoonApps": ("2", "HeadroomEndsSoon", "apps < 1\nand\n", "apps < 2\nand\n"),
    "cacheMissesUnusualTimes": ("3", "CacheMissesUnusual", "> 2\n", "> 3\n"),
    "eventsMostlyEstimatedShare": ("0.5", "EventsMostlyEstimated", ") < 0.2", ") < 0.5"),
    "hostsUnreachableShare": ("0.5", "HostsUnreachable", ">= 0.75", ">= 0.5"),
    "clockSkewedSeconds": ("30", "ClockSkewed", "> 5\n", "> 30\n"),
    "seriesChurnHighSeries": ("500000", "SeriesChurnHigh", "> 125000\n", "> 500000\n"),
    "hostOverheadHighShare": ("0.4", "HostOverheadHigh", "> 0.25\n", "> 0.4\n"),
    "hostOverheadHighCpus": ("1.25", "HostOverheadHigh", "> 0.5\n", "> 1.25\n"),
    "overheadOutgrowsLoadTimes": ("4", "OverheadOutgrowsLoad", "> 2\n", "> 4\n"),
    "overheadOutgrowsLoadCpuTimes": ("1.75", "OverheadOutgrowsLoad", "> 1.5 *", "> 1.75 *"),
    "overheadOutgrowsLoadCpus": ("0.3", "OverheadOutgrowsLoad", "> 0.25\n", "> 0.3\n"),
    "diskFillsUpFree": ("0.1", "DiskFillsUp", "< 0.2\n", "< 0.1\n"),
    "diskFillsUpNearlyFull": ("0.01", "DiskFillsUp", "< 0.03\n", "< 0.01\n"),
    "inodesRunOutFree": ("0.1", "InodesRunOut", "< 0.03\n", "< 0.1\n"),
    "remoteWriteBehindSeconds": ("600", "RemoteWriteBehind", "> 120\n", "> 600\n"),
    "targetFlappingShare": ("0.5", "TargetFlapping", "< 0.9 and", "< 0.5 and"),
    "virtualServerStarvedShare": ("0.7", "VirtualServerStarved", "> 0.5\n", "> 0.7\n"),
    "virtualServerStarvedWait": ("0.2", "VirtualServerStarved", "> 0.1\n", "> 0.2\n"),
    "guestFlappingStarts": ("5", "GuestFlapping", ">= 3", ">= 5"),
}

# Those that an alert compares with three metrics.
OF_SEVERAL_ARMS = {"fileDescriptorsRunOutShare": "0.95", "certificateExpiresDays": "7"}


@pytest.mark.parametrize("config", SETTINGS)
def test_a_setting_arrives_where_it_should_and_nowhere_else(unchanged: Mixin, tmp_path: Path, config: str) -> None:
    expected = copy.deepcopy(unchanged)
    SETTINGS[config](expected)
    assert expected != unchanged
    assert rendered(tmp_path, config) == expected
    check_rules(tmp_path)


def test_every_threshold_arrives_where_it_should_and_nowhere_else(unchanged: Mixin, tmp_path: Path) -> None:
    expected = copy.deepcopy(unchanged)
    for _, name, before, after in THRESHOLDS.values():
        rule = alert(expected, name)
        assert rule["expr"].count(before) == 1, f"{before!r} in {name}"
        rule["expr"] = rule["expr"].replace(before, after)
    soon, unreachable, starved = (
        alert(expected, name) for name in ("HeadroomEndsSoon", "HostsUnreachable", "VirtualServerStarved")
    )
    soon["expr"] = soon["expr"].replace("[2w:6h]) >= 1", "[2w:6h]) >= 2")
    for name, before, after, places in (
        ("FileDescriptorsRunOut", "> 0.8\n", "> 0.95\n", 3),
        ("CertificateExpires", "14 * 86400", "7 * 86400", 1),
    ):
        rule = alert(expected, name)
        assert rule["expr"].count(before) == places
        rule["expr"] = rule["expr"].replace(before, after)
    # What would be said of the defaults isn't said of others.
    for rule, said, instead in (
        (soon, "no room for one more application", "room for less than 2 applications"),
        (unreachable, "at least three quarters of all", "a share of at least 0.5"),
        (starved, "It runs at less than half of its speed.", "It is slowed down."),
    ):
        for name, text in rule["annotations"].items():
            rule["annotations"][name] = text.replace(said, instead)
    # The same evidence decides on causes.
    neighbour, hypervisor = (
        rule
        for rule in expected.every_rule()
        if rule.get("record") == "app:cause:score" and rule["labels"]["cause"] in {"neighbour", "hypervisor"}
    )
    neighbour["expr"] = neighbour["expr"].replace("(2 * vserver:llc", "(3 * vserver:llc")
    hypervisor["expr"] = hypervisor["expr"].replace("0.25", "0.4").replace("rate > 0.5", "rate > 1.25")
    settings = ", ".join(f"{setting}: {value}" for setting, (value, *_) in THRESHOLDS.items())
    settings += "".join(f", {setting}: {value}" for setting, value in OF_SEVERAL_ARMS.items())
    assert rendered(tmp_path, f"{{ {settings} }}") == expected
    check_rules(tmp_path)


def test_every_setting_is_tested_and_explained() -> None:
    settings = set(re.findall(r"^ {4}(\w+):", (mixin.SOURCES / "config.libsonnet").read_text(), re.MULTILINE))
    tested = {
        *(re.findall(r"\w+", config)[0] for config in SETTINGS),
        *THRESHOLDS,
        *OF_SEVERAL_ARMS,
        "clusterLabel",
    }  # test_clusters.py
    assert tested == settings
    assert set(re.findall(r"^\| `(\w+)` ", (ROOT / "docs" / "mixin.md").read_text(), re.MULTILINE)) == settings


def test_jsonnet_alone_renders_the_same(tmp_path: Path, folder: Path, unchanged: Mixin) -> None:
    """Except with a cluster label, which it refuses."""
    assert unchanged
    into = ("--string", "--create-output-dirs", "--multi", tmp_path)
    source = mixin.SOURCES / "render.jsonnet"
    run("jsonnet", *into, source)
    files = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*.*")}
    assert files == {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.*")}
    refused = [
        str(program_path("jsonnet")),
        *map(str, into),
        "--tla-code",
        "config={clusterLabel: 'site'}",
        str(source),
    ]
    result = subprocess.run(refused, check=False, capture_output=True, text=True)
    assert "clusterLabel: Jsonnet alone cannot rewrite PromQL; render it with `make mixin`" in result.stderr


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("{ runbookUrl: 'https://wiki.example.org/%s' }", "runbookUrl"),
        ("{ alertsLeftOut: ['HostDown', 'WatchDog'] }", r'no such alerts: \["WatchDog"\]'),
        ("{ objectives: ['acution'] }", "acution"),
        ("{ alertFor: { HostDwon: '5m' } }", r'alertFor: no such alerts: \["HostDwon"\]'),
        ("{ scrapeInterval: '30s' }", "rules take rates over a minute"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(tmp_path: Path, config: str, named: str) -> None:
    with pytest.raises(mixin.MixinError, match=named):
        rendered(tmp_path, config)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_sources_are_formatted_and_clean(source: Path) -> None:
    run("jsonnetfmt", "--test", source)
    run("jsonnet-lint", source)
