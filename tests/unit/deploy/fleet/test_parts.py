"""The parts of a fleet: their number, their unique addresses, and their connections."""

import re

from deploy.fleet import settings
from deploy.fleet.parts import Part, alertmanagers, parts, queries, receivers, rules, writes_to
from deploy.fleet.scraping import BUCKETS, shares
from deploy.fleet.settings import MAX

SHIPPED = settings.read()
LARGEST = SHIPPED.model_copy(update=MAX)
APART = SHIPPED.model_copy(
    update={
        "listen": "0.0.0.0",
        "machines": {
            "prometheus": "prometheus-{shard}-{replica}.example.org",
            "rule": "rule-{replica}.example.org",
            **{kind: f"{kind}-{{number}}.example.org" for kind in ("receive", "query", "alertmanager")},
        },
    }
)
LISTENS = re.compile(r"--(?:[\w.]*listen|http|grpc|remote-write|receive\.capnproto)[-.]address=(.+)")


def listens(part: Part) -> list[str]:
    return [found[1] for argument in part.arguments if (found := LISTENS.fullmatch(argument))]


def values(part: Part, flag: str) -> list[str]:
    return [argument.partition("=")[2] for argument in part.arguments if argument.startswith(f"{flag}=")]


def test_there_are_as_many_as_the_settings_say_and_a_shard_more_leaves_them_where_they_are() -> None:
    assert [part.name for part in parts(SHIPPED)] == [
        *("receive-0", "receive-1", "receive-2", "query-0", "query-1", "alertmanager-0", "alertmanager-1"),
        *("rule-a", "rule-b", "prometheus-0-a", "prometheus-0-b", "prometheus-1-a", "prometheus-1-b"),
    ]
    assert set(parts(SHIPPED)) <= set(parts(SHIPPED.model_copy(update={"shards": 3})))


def test_no_two_parts_have_a_port_in_common() -> None:
    for of in (SHIPPED, LARGEST, APART):
        ports = [address.rpartition(":")[2] for part in parts(of) for address in listens(part)]
        assert len(set(ports)) == len(ports) == sum({"receive": 4, "prometheus": 1}.get(p.kind, 2) for p in parts(of))
        assert min(map(int, ports)) >= of.first_port


def test_all_listen_on_loopback_unless_the_settings_say_otherwise() -> None:
    assert {address.rpartition(":")[0] for part in parts(SHIPPED) for address in listens(part)} == {"127.0.0.1"}
    # The receivers' unused protocol stays on loopback.
    unused = [address for part in parts(APART) for address in listens(part) if not address.startswith("0.0.0.0")]
    assert len(unused) == APART.receivers


def test_parts_reach_each_other_by_the_names_of_their_machines() -> None:
    for part in parts(APART):
        reached = [argument for argument in part.arguments if not LISTENS.fullmatch(argument)]
        assert "127.0.0.1" not in " ".join(reached)
        assert (part.host, part.is_here) == (f"{part.name}.example.org", False)


def test_the_two_of_a_pair_write_to_different_receivers() -> None:
    of = SHIPPED.model_copy(update={"shards": 7})
    assert all(writes_to(of, shard, "a") != writes_to(of, shard, "b") for shard in range(7))


def test_each_bucket_of_hosts_is_one_shard_s_and_a_shard_more_moves_no_others() -> None:
    for shards in (1, 2, 3, 7, 10, 100):
        before, after = shares(shards), shares(shards + 1)
        assert sorted(bucket for share in before for bucket in share) == list(range(BUCKETS))
        assert max(map(len, before)) - min(map(len, before)) <= 1
        assert all(set(stays) <= set(was) for was, stays in zip(before, after, strict=False))
        assert len(after[-1]) == BUCKETS // (shards + 1)


def test_who_asks_and_tells_whom() -> None:
    stores = [part.grpc for part in (*receivers(SHIPPED), *rules(SHIPPED))]
    assert [values(query, "--endpoint") for query in queries(SHIPPED)] == [stores] * 2
    # The Prometheus evaluating central rules query different Queries, if there are two.
    for number, asked in ((1, ([0], [0])), (2, ([0], [1])), (5, ([0, 2, 4], [1, 3]))):
        of = SHIPPED.model_copy(update={"queries": number})
        for rule, numbers in zip(rules(of), asked, strict=True):
            assert values(rule, "--query") == [queries(of)[each].url for each in numbers]
            assert values(rule, "--alertmanagers.url") == [part.url for part in alertmanagers(of)]
    of = SHIPPED.model_copy(update={"alertmanagers": 3})
    gossip = [values(part, "--cluster.listen-address")[0] for part in alertmanagers(of)]
    for number, part in enumerate(alertmanagers(of)):
        assert values(part, "--cluster.peer") == gossip[:number] + gossip[number + 1 :]
