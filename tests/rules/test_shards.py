"""A fleet's shard knows its own hosts only, and what others share with it: which rules it may evaluate, and that the
rest are evaluated centrally.

Prometheus parses the expressions (/api/v1/parse_query), so nothing here depends on how they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from fleet import generate, rules, settings
from tests.support.program import Program
from tests.support.promql import PrometheusClient
from tools.vocabulary_reference import RECORD_NAME, Rule
from tools.vocabulary_reference import rules as shipped_rules

# What a Prometheus says of itself, from all that it scrapes: each shard for itself, and that is what they are for.
ABOUT_ITSELF = {
    "ShardUnreadable": "it can't read another shard",
    "HostsUnreachable": "it is cut off from most of the hosts that it scrapes",
    "target:ssh_exporter_down:info": "it scrapes hosts through an ssh-exporter that is down",
    "SamplesNotStored": "it stores nothing of what it scrapes",
    "Watchdog": "it stores something of what it scrapes",
}

Parse = Callable[[str], dict[str, Any]]

# What each series of an expression is made of: one host's series, whose label it has, or none, as it is everywhere.
Of = Literal["one host", "no host"]


class SeveralHosts(Exception):
    """A part of an expression brings several hosts' series together."""


def of(node: dict[str, Any], constants: set[str]) -> Of:
    """What each series of an expression's result is made of; raises SeveralHosts. `constants` are such records."""
    match node["type"]:
        case "numberLiteral" | "stringLiteral":
            return "no host"
        case "vectorSelector" | "matrixSelector":
            return "no host" if node["name"] in constants else "one host"
        case "parenExpr" | "unaryExpr" | "subquery":
            return of(node["expr"], constants)
        case "call":
            return _of_call(node, constants)
        case "aggregation":
            if of(node["expr"], constants) == "no host":
                return "no host"
            if ("host" in node["grouping"]) == node["without"]:
                raise SeveralHosts(f"{node['op']} without host")
            return "one host"
        case "binaryExpr":
            return _of_binary(node, constants)
    raise NotImplementedError(node["type"])


def _of_call(node: dict[str, Any], constants: set[str]) -> Of:
    name, arguments = node["func"]["name"], node["args"]
    kinds = {of(argument, constants) for argument in arguments}
    if name in ("label_replace", "label_join") and arguments[1]["val"] == "host":
        raise SeveralHosts(f"{name} makes a host")
    if name in ("absent", "absent_over_time", "scalar") and "one host" in kinds:
        raise SeveralHosts(f"{name} of all hosts")
    return "one host" if "one host" in kinds else "no host"


def _of_binary(node: dict[str, Any], constants: set[str]) -> Of:
    sides = of(node["lhs"], constants), of(node["rhs"], constants)
    if sides != ("one host", "one host"):
        return "one host" if "one host" in sides else "no host"
    matching = node["matching"]
    labels = set(matching["labels"])
    # A target, a job's instance, is one host's.
    matches_host = ("host" in labels or {"job", "instance"} <= labels) if matching["on"] else "host" not in labels
    if not matches_host:
        raise SeveralHosts(f"{node['op']} {'on' if matching['on'] else 'ignoring'} ({', '.join(sorted(labels))})")
    return "one host"


pytestmark = pytest.mark.system  # Prometheus 3 parses the rules


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parse]:
    """Prometheus's parser: from an expression to its tree."""
    folder = tmp_path_factory.mktemp("parser")
    (folder / "prometheus.yml").write_text("{}")
    prometheus = Program("prometheus3", folder)
    prometheus.start(f"--web.listen-address=127.0.0.1:{prometheus.port}", "--config.file=prometheus.yml")
    client = PrometheusClient(prometheus.url)

    @cache
    def parsed(expr: str) -> dict[str, Any]:
        tree: dict[str, Any] = client.get("parse_query", {"query": expr})
        return tree

    yield parsed
    prometheus.stop()


def in_files(files: Iterable[Path]) -> list[Rule]:
    wanted = {file.relative_to(settings.CHECKOUT) for file in files}
    return [rule for rule in shipped_rules() if rule.file in wanted]


OF_SHARDS, CENTRAL = in_files(rules.of_shards()), in_files(rules.CENTRAL)


def several_hosts(found: list[Rule], parse: Parse) -> dict[str, str]:
    """The rules that look across hosts, and where."""
    trees = [(rule, parse(rule.expr)) for rule in found]
    constants = {"objective:wanted:info"}
    constants |= {rule.name for rule in found} - {rule.name for rule, tree in trees if nodes(tree, "vectorSelector")}
    said = {}
    for rule, tree in trees:
        try:
            of(tree, constants)
        except SeveralHosts as where:
            said[rule.name] = str(where)
    return said


def nodes(tree: Any, kind: str) -> list[dict[str, Any]]:
    """All nodes of a kind in a tree; ranges count as selectors."""
    if isinstance(tree, list):
        return [found for each in tree for found in nodes(each, kind)]
    if not isinstance(tree, dict):
        return []
    own = [tree] if tree.get("type", "").replace("matrix", "vector") == kind else []
    return own + [found for value in tree.values() for found in nodes(value, kind)]


def written(selector: dict[str, Any]) -> str:
    """A selector as it is written."""
    matchers = [f'{each["name"]}{each["type"]}"{each["value"]}"' for each in selector["matchers"]]
    return f"{selector['name']}{{{', '.join(matcher for matcher in matchers if not matcher.startswith('__name__'))}}}"


def test_no_rule_of_a_shard_looks_across_hosts_but_at_the_one_record_that_others_share(parse: Parse) -> None:
    across = several_hosts(OF_SHARDS, parse)
    (reader,) = (rule for rule in OF_SHARDS if rules.ELSEWHERE in RECORD_NAME.findall(rule.expr))
    assert reader.name == "requests:of_web_tier:rate1m"
    assert set(across) == {*ABOUT_ITSELF, reader.name}
    # Its aggregation of several hosts is of the shard's own series, and of the others'.
    aggregations = [node for node in nodes(parse(reader.expr), "aggregation") if "host" not in node["grouping"]]
    assert [node["grouping"] for node in aggregations] == [["app"], ["of_shard"]]
    name, tier = rules.SHARED
    read = [written(selector) for selector in nodes(aggregations[0], "vectorSelector")]
    assert read == [f'{record}{{tier="{tier}"}}' for record in (name, rules.ELSEWHERE)]
    assert name in {rule.name for rule in OF_SHARDS} - set(across), "what is shared is one record of a host"


def test_nothing_is_central_that_a_shard_could_do(parse: Parse) -> None:
    """Each central rule looks across hosts, or reads the record of one that does."""
    across = set(several_hosts(CENTRAL, parse))
    for rule in CENTRAL:  # in order: each reads only what is before it
        if across & set(RECORD_NAME.findall(rule.expr)):
            across.add(rule.name)
    assert {rule.name for rule in CENTRAL} == across


def test_what_looks_across_hosts_is_recognised(parse: Parse) -> None:
    for expr in (
        "sum by (app) (app:requests:rate)",
        "sum without (host, tier) (app:requests:rate)",
        "count(up)",
        "app:cpu_usage:rate / on (app) group_left () app:requests:rate",
        "app:cpu_usage:rate / ignoring (host) app:requests:rate",
        "up and on () app:requests:rate",
        'label_replace(up, "host", "$1", "instance", "(.*)")',
        "absent(up)",
        "up > scalar(app:requests:rate)",
        "rate(sum by (app) (up)[5m:1m])",
    ):
        with pytest.raises(SeveralHosts):
            of(parse(expr), set())


def test_what_the_central_rules_read_is_what_shards_write_and_what_follows_from_them_is_central_too() -> None:
    recorded = {rule.name for rule in OF_SHARDS if not rule.is_alert}
    own = {rule.name for rule in CENTRAL if not rule.is_alert}
    read = {name for rule in CENTRAL for name in RECORD_NAME.findall(rule.expr)}
    assert read - own <= recorded | {"objective:wanted:info", "objective:judged:info"}
    assert own & recorded == set()
    assert {rule.name for rule in OF_SHARDS if own & set(RECORD_NAME.findall(rule.text))} == set()


def test_shards_and_the_central_pair_evaluate_every_rule_once(tmp_path: Path) -> None:
    generate.generate(settings.read(), tmp_path)

    def groups(files: list[Path]) -> list[tuple[str, list[tuple[str, str]]]]:
        found = []
        for file in files:
            for group in yaml.safe_load(file.read_text())["groups"]:
                names = [(rule.get("record") or rule["alert"], rule["expr"]) for rule in group["rules"]]
                found.append((group["name"], names))
        return sorted(found)

    config = yaml.safe_load((tmp_path / "prometheus/prometheus-1-b.yml").read_text())
    shards = [file for pattern in config["rule_files"] for file in (tmp_path / "running").glob(pattern)]
    assert groups([*shards, *(tmp_path / "rules/central").glob("*.yml")]) == groups(rules.files())
    assert groups(shards)
