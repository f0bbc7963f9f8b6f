"""A fleet's shard knows its own hosts only, and what others share with it: which rules it may evaluate, and that the
rest are evaluated centrally.

Prometheus parses the expressions (/api/v1/parse_query), so nothing here depends on how they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import requests
import yaml

from fleet import generate, rules, settings
from tests.support.program import Program
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


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Prometheus's parser: from an expression to its tree."""
    folder = tmp_path_factory.mktemp("parser")
    (folder / "prometheus.yml").write_text("{}")
    prometheus = Program("prometheus3", folder)
    prometheus.start(f"--web.listen-address=127.0.0.1:{prometheus.port}", "--config.file=prometheus.yml")

    @cache
    def parsed(expr: str) -> dict[str, Any]:
        answer = requests.post(f"{prometheus.url}/api/v1/parse_query", data={"query": expr}, timeout=30).json()
        assert answer["status"] == "success", f"{answer}: {expr}"
        tree: dict[str, Any] = answer["data"]
        return tree

    yield parsed
    prometheus.stop()


def of_shards() -> list[Rule]:
    files = {file.relative_to(settings.CHECKOUT) for file in rules.of_shards()}
    return [rule for rule in shipped_rules() if rule.file in files]


def central() -> list[Rule]:
    files = {file.relative_to(settings.CHECKOUT) for file in rules.CENTRAL}
    return [rule for rule in shipped_rules() if rule.file in files]


def several_hosts(found: list[Rule], parse: Callable[[str], dict[str, Any]]) -> dict[str, str]:
    """The rules that look across hosts, and where."""
    trees = [(rule, parse(rule.expr)) for rule in found]
    constants = {"objective:wanted:info"}
    constants |= {rule.name for rule in found} - {rule.name for rule, tree in trees if _selectors(tree)}
    said = {}
    for rule, tree in trees:
        try:
            of(tree, constants)
        except SeveralHosts as where:
            said[rule.name] = str(where)
    return said


def _aggregations(node: Any) -> list[dict[str, Any]]:
    """All aggregations in a tree."""
    if isinstance(node, list):
        return [found for each in node for found in _aggregations(each)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") == "aggregation" else []
    return own + [found for value in node.values() for found in _aggregations(value)]


def _written(selector: dict[str, Any]) -> str:
    """A selector as it is written."""
    matchers = [f'{each["name"]}{each["type"]}"{each["value"]}"' for each in selector["matchers"]]
    return f"{selector['name']}{{{', '.join(matcher for matcher in matchers if not matcher.startswith('__name__'))}}}"


def _selectors(node: Any) -> list[dict[str, Any]]:
    """All selectors in a tree."""
    if isinstance(node, list):
        return [selector for each in node for selector in _selectors(each)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") in ("vectorSelector", "matrixSelector") else []
    return own + [selector for value in node.values() for selector in _selectors(value)]


def test_no_rule_of_a_shard_looks_across_hosts_that_others_do_not_share(
    parse: Callable[[str], dict[str, Any]],
) -> None:
    across = several_hosts(of_shards(), parse)
    shared = {rule.name for rule in of_shards() if rules.ELSEWHERE in RECORD_NAME.findall(rule.expr)}
    assert set(across) == {*ABOUT_ITSELF, *shared}
    assert shared == {"requests:of_web_tier:rate1m"}


def test_what_is_shared_is_read_wherever_a_rule_looks_across_hosts(parse: Callable[[str], dict[str, Any]]) -> None:
    """The aggregation of several hosts in such a rule is of the shard's own series, and of the others'."""
    (rule,) = (rule for rule in of_shards() if rules.ELSEWHERE in RECORD_NAME.findall(rule.expr))
    across = [node for node in _aggregations(parse(rule.expr)) if "host" not in node["grouping"]]
    assert [node["grouping"] for node in across] == [["app"], ["of_shard"]]
    name, tier = rules.SHARED
    assert [_written(selector) for selector in _selectors(across[0])] == [
        f'{record}{{tier="{tier}"}}' for record in (name, rules.ELSEWHERE)
    ]


def test_what_is_shared_is_one_record_of_a_host(parse: Callable[[str], dict[str, Any]]) -> None:
    name, _ = rules.SHARED
    assert name in {rule.name for rule in of_shards()} - set(several_hosts(of_shards(), parse))


def test_nothing_is_central_that_a_shard_could_do(parse: Callable[[str], dict[str, Any]]) -> None:
    """Each central rule looks across hosts, or reads the record of one that does."""
    across = set(several_hosts(central(), parse))
    for rule in central():  # in order: each reads only what is before it
        if across & set(RECORD_NAME.findall(rule.expr)):
            across.add(rule.name)
    assert {rule.name for rule in central()} == across


@pytest.mark.parametrize(
    "expr",
    [
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
    ],
)
def test_what_looks_across_hosts_is_recognised(parse: Callable[[str], dict[str, Any]], expr: str) -> None:
    with pytest.raises(SeveralHosts):
        of(parse(expr), set())


def test_what_the_central_rules_read_is_what_shards_write() -> None:
    written = {rule.name for rule in of_shards() if not rule.is_alert}
    written |= {"objective:wanted:info", "objective:judged:info"}
    own = {rule.name for rule in central() if not rule.is_alert}
    read = {name for rule in central() for name in RECORD_NAME.findall(rule.expr)}
    assert read - own <= written
    assert own & written == set()


def test_what_follows_from_a_central_rule_is_central_too() -> None:
    own = {rule.name for rule in central()}
    assert {rule.name for rule in of_shards() if own & set(RECORD_NAME.findall(rule.text))} == set()


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
