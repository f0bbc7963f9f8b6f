"""With a cluster label, hosts with the same name in two clusters are separate in rules, alerts and dashboards."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml

from tests.mixin.rendered import Mixin, groups, rendered
from tests.rules.test_rules import TEST_FILES, from_root, run

# Tested on every commit: files with many joins, and alerts. The others are long tests.
OFTEN = {"events.yml", "monitor.yml", "monitoring.yml", "virtual_servers.yml"}

OF_NO_SITE = {"SamplesNotStored"}  # about Prometheus itself, and its newest sample

Json = Any


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module")
def of_sites(folder: Path) -> Mixin:
    return rendered(folder, "{ clusterLabel: 'site' }")


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Mixin:
    return rendered(tmp_path_factory.mktemp("without"))


def test_prometheus_accepts_the_rules_and_every_aggregation_and_join_is_by_site(of_sites: Mixin, folder: Path) -> None:
    """Except joins with records of constants, which have no cluster: the objectives' error budgets."""
    run("promtool", "check", "rules", folder / "rules.yml", folder / "alerts.yml")
    lists = {
        found
        for rule in of_sites.every_rule()
        for found in re.findall(r"\b(?:by|on) ?\((?!site\b)[^)]*\)", rule["expr"])
    }
    assert lists == {"on()", "on(app, file)", "on(sloth_id, sloth_slo, sloth_service)"}
    every = [rule["expr"] for rule in of_sites.every_rule()]
    assert [expr for expr in every if re.search(r"\b(sum|min|max|avg|count|group|topk) ?\((?!.*without)", expr)] == []


FILES = [
    pytest.param(file, marks=[] if file.name in OFTEN else pytest.mark.long, id=from_root(file)) for file in TEST_FILES
]


@pytest.mark.parametrize("file", FILES)
def test_the_rules_unit_tests_pass_beside_another_cluster_with_the_same_hosts(
    file: Path, of_sites: Mixin, tmp_path: Path
) -> None:
    """The other cluster has different values, and only some of the series."""
    tests = json.loads(json.dumps(yaml.load(file.read_text(), WithoutHex)))  # no aliases: changed in place
    own = groups(*((file.parent / rules).resolve() for rules in tests["rule_files"]))
    every = {**of_sites.rules, **of_sites.alerts}
    asked = [test for part in tests["tests"] for test in part.get("promql_expr_test", [])]
    # Users define cluster labels, and some rules only exist for tests.
    others = [group for name, group in own.items() if name not in every]
    for group in others:
        every[group["name"]] = group | {"rules": [rule | {"expr": by_site(rule["expr"])} for rule in group["rules"]]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [every[name] for name in own]}))
    tests["rule_files"] = ["rules.yml"]
    for test in asked:
        test["expr"] = of_site_a(test["expr"])
        for sample in test.get("exp_samples") or []:
            sample["labels"] = with_site(sample["labels"], "a")
    for part in tests["tests"]:
        part["input_series"] = [
            each for series in part["input_series"] for each in (at("a", series), *elsewhere(series))
        ]
        of_alerts = part.pop("alert_rule_test", [])
        part.setdefault("promql_expr_test", []).extend(map(firing, of_alerts))
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    run("promtool", "test", "rules", tmp_path / "tests.yml")


class WithoutHex(yaml.SafeLoader):
    """Load YAML like promtool: `0x20`, a repeated value, is a string."""


WithoutHex.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:int"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
WithoutHex.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"-?\d+$"), list("-0123456789"))


def at(site: str, series: Json) -> Json:
    return {**series, "series": with_site(series["series"], site)}


def elsewhere(series: Json) -> Iterator[Json]:
    """The other cluster's series: three times the values, for two series of three."""
    if crc32(series["series"].encode()) % 3:
        yield at("b", series) | {
            "values": re.sub(r"(?<![x\w.])\d+(\.\d+)?(e\d+)?(?=[-+x\s]|$)", thrice, str(series["values"]))
        }


def thrice(number: re.Match[str]) -> str:
    return f"{3 * float(number[0]):.12g}"


def with_site(series: str, site: str) -> str:
    name, brace, labels = series.partition("{")
    return f'{name}{{site="{site}"{", " if labels.strip(" }") else ""}{labels if brace else "}"}'


def of_site_a(expr: str) -> str:
    """Restrict a test's query to cluster a: aggregations are followed directly by brackets."""
    quoted, name = r'"[^"]*"', r"\b([a-zA-Z_]\w*(?::\w+)+|\w+_total|ALERTS\w*)\b"
    limited = re.sub(rf"{quoted}|{name}(\{{?)|\{{(?=__name__)", _limit_to_site_a, expr)
    return by_site(re.sub(r"\b(count|sum|max|min|group)\(", r"\1 by (site) (", limited))


def _limit_to_site_a(found: re.Match[str]) -> str:
    if found[0].startswith('"'):
        return found[0]
    return f'{found[1] or ""}{{site="a"{", " if found[0].endswith("{") else "}"}'


def by_site(expr: str) -> str:
    return re.sub(r"\b(by|on) \(", r"\1 (site, ", expr)


def firing(test: Json) -> Json:
    """The expected alerts as a query; annotations are tested with a real Prometheus."""
    name = test["alertname"]
    labels = {"alertname": name, "alertstate": "firing"} | ({} if name in OF_NO_SITE else {"site": "a"})
    fire = [{**labels, **alert["exp_labels"]} for alert in test.get("exp_alerts") or []]
    return {
        "expr": selector(labels),
        "eval_time": test["eval_time"],
        "exp_samples": [{"labels": selector(labels), "value": 1} for labels in fire],
    }


def selector(labels: Json) -> str:
    return "ALERTS{" + ",".join(f"{label}={json.dumps(str(value))}" for label, value in labels.items()) + "}"


def test_alerts_name_their_site_and_lead_to_its_page(of_sites: Mixin) -> None:
    alerts = {rule["alert"]: rule["annotations"] for rule in of_sites.every_rule() if "alert" in rule}
    for name in alerts.keys() - OF_NO_SITE - {"Watchdog", "ObjectiveCause"}:
        assert "{{ with $labels.site }} (site {{ . }}){{ end }}" in alerts[name]["summary"], name
        assert "?var-cluster={{ $labels.site | urlquery }}" in alerts[name]["dashboard"], name


def test_everything_on_dashboards_is_of_one_cluster(of_sites: Mixin, without: Mixin) -> None:
    assert set(without.dashboards) == set(of_sites.dashboards)
    for name, dashboard in of_sites.dashboards.items():
        text = json.dumps(dashboard)
        for expr in expressions(dashboard):
            bare = re.sub(r'"(\\.|[^"\\])*"|\$\{\w+\}', "", expr)
            assert bare.count("{") == expr.count('{site="$cluster", ') > 0, f"{name}: {expr}"
            assert re.findall(r"\b\w+:\w+:\w+\b(?!\{)", bare) == [], f"{name}: {expr}"
        variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
        assert list(variables)[:2] == ["datasource", "cluster"]
        assert variables["cluster"]["query"].endswith(", site)")
        assert "multi" not in variables["cluster"]
        assert text.count("/d/virtscope-") == text.count("${datasource:queryparam}&${cluster:queryparam}")
        # Everything else is the same as without the label.
        del variables["cluster"]
        rest = {**dashboard, "templating": {"list": list(variables.values())}}
        text = json.dumps(rest).replace("&${cluster:queryparam}", "")
        text = text.replace(r"site=\"$cluster\", ", "")
        assert json.loads(text) == without.dashboards[name]


def expressions(part: Json) -> Iterator[str]:
    """Every expression in a part of a dashboard, including variables."""
    if isinstance(part, list):
        for item in part:
            yield from expressions(item)
    elif isinstance(part, dict):
        if isinstance(part.get("expr"), str):
            yield part["expr"]
        if part.get("type") == "query" and part["name"] != "cluster":
            yield part["query"]
        yield from expressions([*part.values()])
