"""The parts of a fleet: as many as there should be, each with addresses of its own, and who talks to whom."""

from __future__ import annotations

import dataclasses
import re

from fleet import settings
from fleet.parts import Part, alertmanagers, parts, queries, receivers, rules, writes_to
from fleet.settings import MOST
from fleet.sharing import BUCKETS, shares

SHIPPED = settings.read()
LARGEST = dataclasses.replace(
    SHIPPED,
    shards=MOST["shards"],
    receivers=MOST["receivers"],
    queries=MOST["queries"],
    alertmanagers=MOST["alertmanagers"],
)
APART = dataclasses.replace(
    SHIPPED,
    listen="0.0.0.0",
    machines={
        "prometheus": "prometheus-{shard}-{replica}.example.org",
        "receive": "receive-{number}.example.org",
        "query": "query-{number}.example.org",
        "rule": "rule-{replica}.example.org",
        "alertmanager": "alertmanager-{number}.example.org",
    },
)


def listens(part: Part) -> list[str]:
    """The addresses that a part listens on."""
    flags = r"--(web\.listen|http|grpc|remote-write|receive\.capnproto|cluster\.listen)-address=(.+)"
    flags += r"|--remote-write\.address=(.+)"
    found = [re.fullmatch(flags, argument) for argument in part.arguments]
    return [match[2] or match[3] for match in found if match]


def test_there_are_as_many_as_the_settings_say() -> None:
    assert [part.name for part in parts(SHIPPED)] == [
        *("receive-0", "receive-1", "receive-2", "query-0", "query-1", "alertmanager-0", "alertmanager-1"),
        *("rule-a", "rule-b", "prometheus-0-a", "prometheus-0-b", "prometheus-1-a", "prometheus-1-b"),
    ]


def test_no_two_parts_have_a_port_in_common() -> None:
    for of in (SHIPPED, LARGEST, APART):
        ports = [address.rpartition(":")[2] for part in parts(of) for address in listens(part)]
        assert len(set(ports)) == len(ports) == sum({"receive": 4, "prometheus": 1}.get(p.kind, 2) for p in parts(of))
        assert min(map(int, ports)) >= of.first_port


def test_a_shard_more_leaves_all_others_where_they_are() -> None:
    more = {part.name: part for part in parts(dataclasses.replace(SHIPPED, shards=3))}
    assert [part for part in parts(SHIPPED) if more[part.name] != part] == []


def test_all_listen_on_loopback_unless_the_settings_say_otherwise() -> None:
    assert {address.rpartition(":")[0] for part in parts(SHIPPED) for address in listens(part)} == {"127.0.0.1"}
    # The protocol of receivers among each other that isn't used stays there.
    unused = [address for part in parts(APART) for address in listens(part) if not address.startswith("0.0.0.0")]
    assert len(unused) == APART.receivers


def test_parts_reach_each_other_by_the_names_of_their_machines() -> None:
    for part in parts(APART):
        reached = " ".join(
            argument for argument in part.arguments if "listen" not in argument and "capnproto" not in argument
        )
        assert "127.0.0.1" not in reached
        assert part.host == f"{part.name}.example.org"
        assert not part.is_here


def test_the_two_of_a_pair_write_to_different_receivers() -> None:
    of = dataclasses.replace(SHIPPED, shards=7)
    assert all(writes_to(of, shard, "a") != writes_to(of, shard, "b") for shard in range(7))


def test_each_bucket_of_hosts_is_one_shard_s_and_a_shard_more_moves_no_others() -> None:
    for shards in (1, 2, 3, 7, 10, 100):
        before, after = shares(shards), shares(shards + 1)
        assert sorted(bucket for share in before for bucket in share) == list(range(BUCKETS))
        assert max(map(len, before)) - min(map(len, before)) <= 1
        assert all(set(stays) <= set(was) for was, stays in zip(before, after, strict=False))
        assert len(after[-1]) == BUCKETS // (shards + 1)


def test_receivers_are_asked_by_each_query_and_each_query_by_the_central_rules() -> None:
    stores = [f"--endpoint={part.grpc}" for part in (*receivers(SHIPPED), *rules(SHIPPED))]
    for query in queries(SHIPPED):
        assert [argument for argument in query.arguments if argument.startswith("--endpoint=")] == stores
    for rule in rules(SHIPPED):
        assert {f"--alertmanagers.url={each.url}" for each in alertmanagers(SHIPPED)} <= set(rule.arguments)


def test_the_two_that_evaluate_central_rules_ask_different_queries() -> None:
    for number, asked in ((1, ([0], [0])), (2, ([0], [1])), (5, ([0, 2, 4], [1, 3]))):
        of = dataclasses.replace(SHIPPED, queries=number)
        for rule, numbers in zip(rules(of), asked, strict=True):
            found = [argument for argument in rule.arguments if argument.startswith("--query=")]
            assert found == [f"--query={queries(of)[each].url}" for each in numbers]


def test_each_alertmanager_knows_the_others_and_not_itself() -> None:
    of = dataclasses.replace(SHIPPED, alertmanagers=3)
    for part in alertmanagers(of):
        peers = {argument.partition("=")[2] for argument in part.arguments if argument.startswith("--cluster.peer=")}
        assert peers == {other.gossip for other in alertmanagers(of)} - {part.gossip}
