"""A fleet's shard knows only its own hosts and the series shared by others: which rules it may evaluate, and that the
rest are evaluated centrally."""

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from deploy.fleet import generate, rules, settings
from deploy.places import CHECKOUT
from tools.vocabulary_reference import RECORD_NAME, Rule
from tools.vocabulary_reference import rules as shipped_rules

# Prometheus's metrics about itself over all its targets are meant per shard: it can't read another shard, is cut off
# from most hosts, scrapes them through a failed ssh-exporter, or stores no samples or only some of them.
ABOUT_ITSELF = {
    *("ShardUnreadable", "HostsUnreachable", "target:ssh_exporter_down:info", "SamplesNotStored", "Watchdog")
}
# Joins with Sloth's records of constants, and with pods' names by UIDs, which have no host.
CONSTANTS = {
    *("on (sloth_id, sloth_slo, sloth_service)", "on (uid)", "by (uid)", "by (uid, name)", "by (uid, namespace, pod)")
}


def in_files(files: Iterable[Path]) -> list[Rule]:
    wanted = {file.relative_to(CHECKOUT) for file in files}
    return [rule for rule in shipped_rules() if rule.file in wanted]


OF_SHARDS, CENTRAL = in_files(rules.of_shards()), in_files(rules.central_files())
AGGREGATIONS = r"\b(sum|min|max|avg|count|group|stddev|topk|bottomk|quantile|count_values) *(?=[(]|by|without)"


def across_hosts(expr: str) -> list[str]:
    """The parts of an expression that combine several hosts' series."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r"(?m)^\s*#.*", "", expr))
    found = re.findall(r"\b(?:absent|absent_over_time|scalar) *\(", bare)
    found += re.findall(r'label_(?:replace|join)\([^"]*, *"host"', expr)
    for how, listed in re.findall(r"\b(by|without|on|ignoring) *\(([^)]*)\)", bare):
        labels = set(re.findall(r"\w+", listed))
        # A target, that is a job's instance, belongs to one host.
        keeps = "host" in labels or (how == "on" and {"job", "instance"} <= labels)
        if keeps != (how in ("by", "on")):
            found.append(f"{how} ({listed})")
    for aggregation in re.finditer(AGGREGATIONS, bare):
        if bare[aggregation.end()] == "(" and not re.match(r"\s*(by|without)\b", after(bare, aggregation.end())):
            found.append(aggregation[0])
    return [each for each in found if each not in CONSTANTS]


def after(expr: str, opening: int) -> str:
    """The text after the parenthesis that closes the one at this index."""
    depth = 0
    for place in range(opening, len(expr)):
        depth += {"(": 1, ")": -1}.get(expr[place], 0)
        if depth == 0:
            return expr[place + 1 :]
    raise AssertionError(f"not closed: {expr}")


def test_no_rule_of_a_shard_looks_across_hosts_but_at_the_one_record_that_others_share() -> None:
    (reader,) = (rule for rule in OF_SHARDS if rules.ELSEWHERE in RECORD_NAME.findall(rule.expr))
    assert reader.name == "requests:of_web_tier:rate1m"
    assert {rule.name for rule in OF_SHARDS if across_hosts(rule.expr)} == {*ABOUT_ITSELF, reader.name}
    # It aggregates the shard's own series and those of others.
    assert across_hosts(reader.expr) == ["on (app)", "by (app)", "on ()", "by (of_shard)"]
    name, tier = rules.SHARED
    read = [part for part in re.findall(r"[\w:]+\{.*?\}", reader.expr) if part.startswith((name, rules.ELSEWHERE))]
    assert set(read) == {f'{each}{{tier="{tier}"}}' for each in (name, rules.ELSEWHERE)}
    assert name in {rule.name for rule in OF_SHARDS if not across_hosts(rule.expr)}, "one record of a host is shared"


def test_nothing_is_central_that_a_shard_could_do() -> None:
    """Each central rule looks across hosts, or reads the record of one that does."""
    across = {rule.name for rule in CENTRAL if across_hosts(rule.expr)}
    for rule in CENTRAL:  # in order: each only reads earlier ones
        if across & set(RECORD_NAME.findall(rule.expr)):
            across.add(rule.name)
    assert {rule.name for rule in CENTRAL} == across


def test_what_looks_across_hosts_is_recognised() -> None:
    for expr in (
        *("sum by (app) (app:requests:rate)", "sum without (host, tier) (app:requests:rate)", "count(up)"),
        *("app:cpu_usage:rate / on (app) group_left () app:requests:rate", "up and on () app:requests:rate"),
        *("app:cpu_usage:rate / ignoring (host) app:requests:rate", "up > scalar(app:requests:rate)"),
        *('label_replace(up, "host", "$1", "instance", "(.*)")', "absent(up)", "rate(sum by (app) (up)[5m:1m])"),
    ):
        assert across_hosts(expr), expr
    assert across_hosts("max by (host) (up) * on (host) sum(up) by (host)") == []


def test_what_the_central_rules_read_is_what_shards_write_and_what_follows_from_them_is_central_too() -> None:
    recorded = {rule.name for rule in OF_SHARDS if not rule.is_alert}
    own = {rule.name for rule in CENTRAL if not rule.is_alert}
    read = {name for rule in CENTRAL for name in RECORD_NAME.findall(rule.expr)}
    assert read - own <= recorded | {"objective:wanted:info", "objective:judged:info"}
    assert own & recorded == set()
    assert {rule.name for rule in OF_SHARDS if own & set(RECORD_NAME.findall(rule.text))} == set()


def test_shards_and_the_central_pair_evaluate_every_rule_once(tmp_path: Path) -> None:
    generate.generate(settings.read(), tmp_path)

    def groups(files: list[Path]) -> list[tuple[str, list[str]]]:
        every = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
        return sorted(
            (group["name"], [f"{rule.get('record')} {rule.get('alert')} {rule['expr']}" for rule in group["rules"]])
            for group in every
        )

    config = yaml.safe_load((tmp_path / "prometheus/prometheus-1-b.yml").read_text())
    shards = [file for pattern in config["rule_files"] for file in (tmp_path / "running").glob(pattern)]
    assert groups([*shards, *(tmp_path / "rules/central").glob("*.yml")]) == groups(rules.files())
    assert groups(shards)
