"""The mixin has the stack's rules, and each setting changes exactly what it should."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from deploy import StackError
from tests.mixin.rendered import Json, Mixin, groups, rendered
from tests.rules.test_rules import run
from tools import mixin

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted([*ROOT.glob("prometheus/rules/*.yml"), *ROOT.glob("prometheus/rules/generated/*.yml")])
OBJECTIVES = sorted(ROOT.glob("alerts/generated/*.yml"))
ALERTS = [*sorted(ROOT.glob("alerts/rules/*.yml")), *OBJECTIVES]
DASHBOARDS = sorted(ROOT.glob("dashboards/json/*.json"))
CONSOLES = sorted(ROOT.glob("prometheus/consoles/*.html"))
SOURCES = sorted(mixin.SOURCES.glob("*sonnet"))


def check_rules(folder: Path) -> None:
    """Fail unless promtool accepts them; tests/rules lints the stack's own files."""
    run("promtool", "check", "rules", folder / "rules.yml", folder / "alerts.yml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixin")


@pytest.fixture(scope="module")
def unchanged(folder: Path) -> Mixin:
    """The mixin without any setting."""
    return rendered(folder)


def test_without_settings_it_is_the_stacks_own_files(unchanged: Mixin, folder: Path) -> None:
    advice = "name the new file in mixin/stack.libsonnet"
    assert unchanged.rules == groups(*RULES), advice
    assert unchanged.alerts == groups(*ALERTS), advice
    own = {f"virtscope-{file.name}": json.loads(file.read_text()) for file in DASHBOARDS}
    assert unchanged.dashboards == own, advice
    assert unchanged.consoles == {file.name: file.read_text() for file in CONSOLES}, advice
    check_rules(folder)
    # Prometheus refuses duplicate groups in one file or PrometheusRule, which is how kube-prometheus loads both.
    assert set(unchanged.rules) & set(unchanged.alerts) == set(), "groups of rules and of alerts with one name"


def leaves(part: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Each text, number or list of texts by its path; rules by their names."""
    if isinstance(part, list) and any(isinstance(each, dict) for each in part):
        names = [str(each.get("alert") or each.get("record") or place) for place, each in enumerate(part)]
        part = {f"{name} {names[:place].count(name)}": part[place] for place, name in enumerate(names)}
    if isinstance(part, dict) and part:
        for key, value in part.items():
            yield from leaves(value, f"{path}/{key}")
    else:
        yield path, part


# Expected change of the leaves with matching paths: replaced text (before, after), removed (None), siblings added (a
# dictionary), or this value.
Change = tuple[str, str] | None | dict[str, Json] | str | list[str]
Changes = Sequence[tuple[str, Change]]


def changed(mixin: Mixin, changes: Changes) -> dict[str, Json]:
    found = dict(leaves(asdict(mixin)))
    for pattern, change in changes:
        paths = [path for path in found if re.fullmatch(pattern, path)]
        before = dict(found)
        for path in paths:
            if isinstance(change, tuple):
                found[path] = re.sub(*change, found[path]) if isinstance(found[path], str) else found[path]
            elif isinstance(change, dict):
                found |= {f"{path.rpartition('/')[0]}/{key}": value for key, value in change.items()}
            elif change is None:
                del found[path]
            else:
                found[path] = change
        assert found != before, f"nothing to change at {pattern}"
    return found


def of(names: str, leaf: str = "expr") -> str:
    """The path of rules with these names."""
    return rf"/(rules|alerts)/[^/]+/rules/({names}) \d+/{leaf}"


OURS = 'platform!=""'
WIKI = "https://wiki.example.org/"
OF_PROMETHEUS = (
    "HostsUnreachable|DiskFillsUp|InodesRunOut|FileDescriptorsRunOut|RemoteWriteBehind|RemoteWriteRefused"
    "|ScrapeLimitExceeded|StorageFailing|ConfigurationRejected|ObjectiveRulesFailing|RulesFailing|RuleEvaluationsMissed"
    "|AlertmanagerNotReached"
)
WINDOWED = (
    "CacheMissesUnusual|CapBindsLong|EventsMostlyEstimated|HostOverheadHigh|OverheadOutgrowsLoad"
    "|OvercommitBeyondObjective|VirtualServerStarved"
)
(RUBIS,) = (groups(file) for file in OBJECTIVES if file.stem == "rubis")
SETTINGS: dict[str, Changes] = {
    "targetSelector: 'platform!=\"\"'": [
        (of("ExporterDown|ScrapedTooSeldom"), (r"up\{", f"up{{{OURS}, ")),
        (of("HostDown|HostsUnreachable"), (r"up\{host", f"up{{{OURS}, host")),
        (of("TargetFlapping"), (r"up\[", f"up{{{OURS}}}[")),
        (of("CertificateExpires"), ("(probe_ssl_earliest_cert_expiry|x509_cert_expiry)", rf"\1{{{OURS}}}")),
        (of("monitor:cpu_usage:rate"), (r"total\{", f"total{{{OURS}, ")),
        (of("target:process:info"), (r"seconds\{", f"seconds{{{OURS}, ")),
    ],
    "prometheusSelector: 'job=~\"prom.+\"'": [
        (of(OF_PROMETHEUS), ('job="prometheus"', 'job=~"prom.+"')),
        ("/dashboards/virtscope-monitor.json/.*", ('job="prometheus"', 'job=~"prom.+"')),
    ],
    "alertmanagerSelector: 'job=\"am\"'": [
        (of("NotificationsFailing|ConfigurationRejected|FileDescriptorsRunOut"), ('job="alertmanager"', 'job="am"'))
    ],
    "kubeStateMetricsSelector: 'job=\"ksm\"'": [(of("container:name:info"), ('job="kube-state-metrics"', 'job="ksm"'))],
    "objectives: ['auction']": [(f"/alerts/({'|'.join(RUBIS)})/.*", None)],
    "alertsLeftOut: ['Watchdog']": [(of("Watchdog", ".*"), None)],
    "runbookURLPattern: 'https://wiki.example.org/%s'": [
        (of(".*", "annotations/runbook_url"), (r".*/user/runbooks/(.*)\.md", rf"{WIKI}\1")),
        ("/dashboards/.*", (r"http://\$\{prometheus\}/user/runbooks/(.*)\.md", rf"{WIKI}\1")),
        ("/consoles/.*", (r"\{\{ pathPrefix \}\}/user/runbooks/(.+?)\.md", rf"{WIKI}\1")),
    ],
    "grafanaURL: 'https://grafana.example.org/'": [
        (of(".*", "annotations/dashboard"), ("^", "https://grafana.example.org/"))
    ],
    "dashboardNamePrefix: 'virtscope / '": [("/dashboards/[^/]*/title", ("^", "virtscope / "))],
    "dashboardTags: ['virt', 'prod']": [
        ("/dashboards/[^/]*/tags", ["virt", "prod"]),
        ("/dashboards/[^/]*/links/1 0/tags", ["virt"]),
    ],
    "dashboardTimezone: 'utc'": [("/dashboards/[^/]*/title", {"timezone": "utc"})],
    "dashboardRefresh: '1m'": [("/dashboards/[^/]*/refresh", "1m")],
    "datasourceFilterRegex: '/^prod/'": [("/dashboards/[^/]*/templating/list/0 0/name", {"regex": "/^prod/"})],
    "alertFor: { VirtualServerStarved: '30m', CapBindsLong: '2h', GuestFlapping: '1m' }": [
        (of("VirtualServerStarved", "expr"), {"for": "30m"}),
        (of("GuestFlapping", "expr"), {"for": "1m"}),
        (of("CapBindsLong", "expr"), {"for": "2h"}),
    ],
    "alertWindow: '10m'": [(of(WINDOWED), (r"\[5m\]", "[10m]"))],
    "objectLabels: { release: 'monitoring' }": [("/objects/[^/]+/metadata/name", {"labels/release": "monitoring"})],
    "targets+: { xentop: [{ targets: ['dom0:10290'], labels: { host: 'xen1' } }] }": [
        (
            "/objects/scrapeConfig-xentop.yaml/spec/jobName",
            {"staticConfigs/0 0/targets": ["dom0:10290"], "staticConfigs/0 0/labels/host": "xen1"},
        )
    ],
    "scrapeInterval: '15s'": [  # over ssh it is 15 s by default
        ("/objects/scrapeConfig-(?!.*over-ssh).*/spec/scrapeInterval", "15s"),
        ("/objects/scrapeConfig-(?!.*over-ssh).*/spec/scrapeTimeout", "14s"),
        ("/objects/(pod|service)Monitor-.*/interval", "15s"),
    ],
}

THRESHOLDS: dict[str, float] = yaml.safe_load((ROOT / "prometheus" / "settings.yml").read_text())


@pytest.mark.parametrize("config", SETTINGS)
def test_a_setting_arrives_where_it_should_and_nowhere_else(unchanged: Mixin, tmp_path: Path, config: str) -> None:
    assert dict(leaves(asdict(rendered(tmp_path, f"{{ {config} }}")))) == changed(unchanged, SETTINGS[config])
    check_rules(tmp_path)


def test_every_threshold_arrives_where_it_should_and_nowhere_else(unchanged: Mixin, tmp_path: Path) -> None:
    others = {name: value + 0.125 for name, value in THRESHOLDS.items()}
    config = ", ".join(f"{name}: {value}" for name, value in others.items())
    expected = dict(leaves(asdict(unchanged)))
    for path, expr in expected.items():
        if path.endswith("/expr") and path.startswith(("/rules/", "/alerts/")):
            expected[path] = re.sub(r"[\d.]+  # (\w+)", lambda mark: f"{others[mark[1]]:.12g}  # {mark[1]}", expr)
    assert dict(leaves(asdict(rendered(tmp_path, f"{{ {config} }}")))) == expected
    check_rules(tmp_path)
    marks = [re.findall(r"  # (\w+)$", rule["expr"], re.MULTILINE) for rule in unchanged.every_rule()]
    assert {mark for each in marks for mark in each} == set(THRESHOLDS)


def test_every_setting_is_tested_and_explained() -> None:
    settings = set(re.findall(r"^ {4}(\w+):", (mixin.SOURCES / "config.libsonnet").read_text(), re.MULTILINE))
    tested = {re.findall(r"\w+", config)[0] for config in SETTINGS} | {"clusterLabel"}  # test_clusters.py
    assert tested == settings
    assert set(re.findall(r"^\| `(\w+)` ", (ROOT / "docs" / "mixin.md").read_text(), re.MULTILINE)) == settings


def test_what_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    for config, named in {
        "{ runbookUrl: 'https://wiki.example.org/%s' }": r'^no such settings: \["runbookUrl"\]; there are \["alertFor"',
        "{ alertsLeftOut: ['HostDown', 'WatchDog'] }": r'no such alerts: \["WatchDog"\]',
        "{ objectives: ['acution'] }": r'^objectives: no such files: \["acution"\]; there are \["auction", "rubis"\]$',
        "{ alertFor: { HostDwon: '5m' } }": r'alertFor: no such alerts: \["HostDwon"\]',
        "{ scrapeInterval: '30s' }": "^scrapeInterval: rules take rates over a minute, so at most 15s$",
        "{ scrapeInterval: '1m' }": "^scrapeInterval: 1m is not in whole seconds, such as 15s$",
        "{ objectives: 'auction' }": "^objectives must be of type array, not string$",
        "{ targetSelector: 'platform=!\"\"' }": '^targetSelector: platform=!"" is not a label matcher, such as ',
        "[]": "^the settings must be an object, such as",
        "{ targets: { kvn: [] } }": r'^targets: no such files: \["kvn"\]; there are \["advise", "app"',
    }.items():
        with pytest.raises(StackError, match=named):
            rendered(tmp_path, config)


def test_sources_are_formatted_and_clean() -> None:
    run("jsonnetfmt", "--test", *SOURCES)
    for source in SOURCES:
        run("jsonnet-lint", source)
