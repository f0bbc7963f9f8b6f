"""The proof of a fleet would notice what it is there to notice."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
import requests

from fleet.proof import judging, phases, story
from fleet.proof.comparison import Series, Tally, Why, compare, difference, samples, total
from fleet.proof.faults import Step
from fleet.proof.hosts import Exporters, Page, jobs_of
from fleet.proof.running import Link

NAMES = [f"host{number}" for number in range(12)]
OF_HOST = frozenset({("host", "host1")})


def _compared(
    oracle: Mapping[Series, Mapping[int, float]], fleet: Mapping[Series, Mapping[int, float]], why: Why = Why.NOTHING
) -> Tally:
    return total(compare(oracle, fleet, range(5), lambda _labels, _evaluation: why).values())


def test_equal_answers_are_equal() -> None:
    values = {OF_HOST: dict.fromkeys(range(5), 1.5)}
    tally = _compared(values, {OF_HOST: dict.fromkeys(range(5), 1.5 + 1e-6)})
    assert (tally.equal, tally.wrong) == (5, 0)
    assert tally.largest == pytest.approx(1e-6 / 1.5, rel=1e-3)


@pytest.mark.parametrize(
    ("oracle", "fleet", "verdict"),
    [
        ({0: 1, 1: 1, 2: 1}, {0: 1, 2: 1}, "missing"),
        ({0: 1, 2: 1}, {0: 1, 1: 1, 2: 1}, "extra"),
        ({0: 1, 1: 1, 2: 1}, {0: 1, 1: 1.01, 2: 1}, "different"),
    ],
)
def test_a_lost_invented_or_other_sample_is_noticed(
    oracle: dict[int, float], fleet: dict[int, float], verdict: str
) -> None:
    tally = _compared({OF_HOST: oracle}, {OF_HOST: fleet})
    assert getattr(tally, verdict) == tally.wrong == 1
    assert "host1" in tally.examples[0]


def test_a_series_that_only_one_has_is_noticed() -> None:
    values = {OF_HOST: dict.fromkeys(range(5), 1.0)}
    assert _compared(values, {}).missing == 5
    assert _compared({}, values).extra == 5


def test_a_change_explains_one_evaluation_and_the_values_between_and_no_more() -> None:
    began: dict[Series, dict[int, float]] = {OF_HOST: {2: 1, 3: 2, 4: 2}}
    later: dict[Series, dict[int, float]] = {OF_HOST: {3: 1.5, 4: 2}}
    assert (_compared(began, later, Why.CHANGED).shifted, _compared(began, later, Why.CHANGED).wrong) == (2, 0)
    assert _compared(began, later).wrong == 2
    assert _compared(began, {OF_HOST: {4: 2}}, Why.CHANGED).missing == 1
    assert _compared(began, {OF_HOST: {2: 1, 3: 2.5, 4: 2}}, Why.CHANGED).different == 1


def test_a_series_that_begins_or_ends_may_go_on_as_straight_as_it_does_next() -> None:
    ended: dict[Series, dict[int, float]] = {OF_HOST: {2: 0.8, 3: 0.6, 4: 0.4}}
    begins = {1: 0.9, 2: 0.7, 3: 0.5, 4: 0.3}
    assert (_compared(ended, {OF_HOST: begins}, Why.CHANGED).shifted, _compared(ended, {OF_HOST: begins}).wrong) == (
        4,
        4,
    )
    assert _compared(ended, {OF_HOST: {**begins, 1: 1.1}}, Why.CHANGED).extra == 1
    assert _compared(ended, {OF_HOST: {0: 0.9, **begins}}, Why.CHANGED).extra == 1


def test_what_was_before_the_run_shows_what_changes_at_its_first_evaluation() -> None:
    ended: dict[Series, dict[int, float]] = {OF_HOST: {-1: 1}}
    later: dict[Series, dict[int, float]] = {OF_HOST: {-1: 1, 0: 1}}
    for oracle, verdict in ((ended, "shifted"), ({}, "extra")):
        tallies = compare(oracle, later, range(5), lambda _labels, _evaluation: Why.CHANGED, margin=2)
        assert getattr(tallies[0], verdict) == total(tallies.values()).compared == 1


def test_a_restart_explains_other_values_but_none_that_is_missing() -> None:
    values: dict[Series, dict[int, float]] = {OF_HOST: {0: 1, 1: 1, 2: 1}}
    tally = _compared(values, {OF_HOST: {0: 1, 1: 0.7}}, Why.RESTARTED)
    assert (tally.equal, tally.partial, tally.missing) == (1, 1, 1)
    assert _compared(values, {OF_HOST: {0: 1, 1: 0.7}}, Why.MOVED).late == 1


def test_a_late_scrape_explains_other_values_but_none_that_only_one_has() -> None:
    values: dict[Series, dict[int, float]] = {OF_HOST: dict.fromkeys(range(5), 1.0)}
    invented = frozenset({("host", "host2")})
    tally = _compared(values, {OF_HOST: {0: 1, 1: 0.9, 3: 1, 4: 1}, invented: {3: 1}}, Why.DELAYED)
    assert (tally.delayed, tally.missing, tally.extra) == (1, 1, 1)


def test_a_failed_scrape_explains_what_is_missing_and_nothing_else_does() -> None:
    values: dict[Series, dict[int, float]] = {OF_HOST: dict.fromkeys(range(5), 1.0)}
    assert _compared(values, {}, Why.FAILED).delayed == 5
    for why in (Why.NOTHING, Why.RESTARTED, Why.DELAYED):
        assert _compared(values, {}, why).missing == 5, why


def test_labels_that_only_a_fleet_has_are_not_compared() -> None:
    metric = {"__name__": "up", "host": "host1", "shard": "0", "replica": "a"}
    assert samples([{"metric": metric, "values": [[100, "1"], [110.0, "NaN"]]}], 90, 10).keys() == {OF_HOST}
    assert difference(float("nan"), float("nan")) == 0
    assert difference(1, float("inf")) == float("inf")


def test_what_happens_follows_from_the_seed() -> None:
    pairs = [("host0", "host1")]
    assert story.tell(7, NAMES, 600, pairs, 60) == story.tell(7, NAMES, 600, pairs, 60)
    assert story.tell(7, NAMES, 600, pairs, 60) != story.tell(8, NAMES, 600, pairs, 60)


def test_the_story_has_all_that_is_to_be_proved() -> None:
    hosts = story.tell(1, NAMES, 1200, [("host0", "host1")], 60)
    assert {host.platform for host in hosts} == set(story.PLATFORMS)
    assert any(host.down for host in hosts)
    assert any(host.failing for host in hosts)
    assert any(life.crashed for host in hosts for life in host.lives)
    for host in hosts[:2]:
        assert host.down is None, "its application's requests would end with it"
    lives = [life for host in hosts for life in host.lives]
    assert any(life.born > story.LONG_AGO for life in lives), "no guest starts"
    assert any(life.begin != life.born for life in lives), "no guest is renamed"
    assert any(life.end < 1200 for life in lives), "no guest ends"


def test_nothing_changes_before_it_is_to_and_then_alerts_come_all_the_time() -> None:
    hosts = story.tell(1, NAMES, 3000, [("host0", "host1")], 500)
    assert min(change for host in hosts for change in host.changes()) >= 500
    crashes = sorted(life.crashed[0] for host in hosts for life in host.lives if life.crashed)
    assert max(after - before for before, after in pairwise([500, *crashes, 3000])) < 2 * story.INCIDENT_EVERY
    for host in hosts:
        crashes_here = any(life.crashed for life in host.lives)
        assert not (crashes_here and (host.down or host.failing)), "its alerts are inhibited"


def _value(page: str, series: str) -> float:
    (found,) = re.findall(rf"^{re.escape(series)} (\S+)$", page, re.MULTILINE)
    return float(found)


def test_counters_of_a_page_grow_evenly_and_guests_are_there_while_they_live() -> None:
    life = story.Life(3, "web", 100, 2, 100, 200, crashed=(120, 130))
    host = story.Host("host0", "xen", 1, [life], failing=(150, 160))
    page = Page(host, "xentop")
    cpu = 'xen_domain_cpu_seconds_total{domid="3",domain="web"}'
    assert _value(page.at(110), cpu) == pytest.approx(2 * 0.2 * 10)
    assert _value(page.at(199), cpu) == pytest.approx(2 * 0.2 * 99)
    assert 'domain="web"' not in page.at(99) + page.at(200)
    crashed = 'xen_domain_state{domid="3",domain="web",state="crashed"}'
    assert [_value(page.at(at), crashed) for at in (119, 120, 130)] == [0, 1, 0]
    assert [_value(page.at(at), 'xentop_source_up{source="xentop"}') for at in (149, 150, 160)] == [1, 0, 1]


def test_every_job_of_every_host_has_a_page() -> None:
    for host in story.tell(1, NAMES[:8], 300, [("host0", "host1")], 60):
        for job in jobs_of(host):
            assert Page(host, job).at(10).endswith("\n")


def test_no_host_answers_before_the_story_begins() -> None:
    host = story.Host("host0", "xen", 1, [], down=(1000, 2000))
    with Exporters([host], 5) as exporters:
        (address,) = exporters.targets()["xentop"][0]["targets"]
        assert requests.get(f"http://{address}/xentop", timeout=10).status_code == 503
        exporters.begin()
        assert "xentop_up 1" in requests.get(f"http://{address}/xentop", timeout=10).text
        exporters.zero -= 1500
        assert requests.get(f"http://{address}/xentop", timeout=10).status_code == 503


def test_changes_and_restarts_explain_differences_of_their_own_hosts_for_a_while() -> None:
    hosts = [story.Host("host0", "xen", 1, [], down=(500, 700)), story.Host("host1", "xen", 1, [])]
    span = judging.Span(1000, 3000, 10)
    step = Step("killed", begin=2000, repaired=2010, shards=(1,))
    observed = judging.Observed([step], {"host0": {0}, "host1": {1}}, {"host1": [2700]}, {"host0": [2500]})
    record = judging.Rule("record", False, False, 10, 0)
    explaining = judging.explaining(hosts, 1000, span, observed)
    explained = explaining(record)
    assert explained({"host": "host0"}, span.number(1500)) == Why.CHANGED
    assert explained({"host": "host0"}, span.number(1400)) == Why.NOTHING
    assert explained({"host": "host0"}, span.number(2005)) == Why.CHANGED
    assert explained({"host": "host1"}, span.number(1500)) == Why.NOTHING
    assert explained({"host": "host1"}, span.number(2005)) == Why.RESTARTED
    assert explained({"host": "host1"}, span.number(2750)) == Why.DELAYED
    assert explained({"host": "host1"}, span.number(2900)) == Why.NOTHING
    assert explained({"host": "host0"}, span.number(2550)) == Why.FAILED

    # What is made of several shards' records may differ for each of their hosts.
    assert explaining(replace(record, crosses_shards=True))({"host": "host0"}, span.number(2750)) == Why.DELAYED
    # An alert that waits ten minutes changes ten minutes later, too.
    assert explaining(replace(record, holds=600))({"host": "host0"}, span.number(2300)) == Why.CHANGED
    assert explained({"host": "host0"}, span.number(2300)) == Why.NOTHING
    # One that was dead when it began to wait, or to go on firing, knows nothing of that.
    assert explaining(replace(record, holds=600))({"host": "host1"}, span.number(2600)) == Why.RESTARTED
    assert explained({"host": "host1"}, span.number(2600)) == Why.NOTHING


def test_alerts_and_what_reads_them_change_later_than_what_they_follow_from() -> None:
    def record(name: str, query: str) -> dict[str, object]:
        return {"name": name, "type": "recording", "query": query}

    alert = {"name": "Alert", "type": "alerting", "query": "a:b > 1", "duration": 120, "keepFiringFor": 300}
    of_one = {
        "file": "rules/x.yml",
        "interval": 10,
        "rules": [record("a:b", "up"), alert, record("c:d", "sum(ALERTS)")],
    }
    of_another = {"file": "rules/y.yml", "interval": 60, "rules": [record("e:f", "c:d / 2"), record("a:b", "up + 1")]}
    found = {rule.name: (rule.interval, rule.holds) for rule in judging.rules_in([of_one, of_another])}
    assert found == {"a:b": (60, 0), "Alert": (10, 420), "c:d": (10, 420), "e:f": (60, 420)}


def test_alerts_are_counted_by_what_they_are_about() -> None:
    alert = {"status": "firing", "labels": {"alertname": "HostDown", "host": "host1", "shard": "0"}}
    other = {"status": "firing", "labels": {"alertname": "HostDown", "host": "of-the-fleet"}}
    resolved = {**alert, "status": "resolved"}
    counted = judging.notified([{"alerts": [alert, other]}, {"alerts": [resolved]}, {"alerts": [alert]}], {"host1"})
    assert counted == {frozenset({("alertname", "HostDown"), ("host", "host1")}): 2}


def test_a_link_that_is_cut_passes_nothing_until_it_is_restored() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(f"127.0.0.1:{server.getsockname()[1]}")
        host, port = link.address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as near:
            far, _ = server.accept()
            with far:
                near.sendall(b"before")
                assert far.recv(6, socket.MSG_WAITALL) == b"before"
                link.cut()
                near.sendall(b"during")
                far.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    far.recv(6)
                threading.Timer(0.1, link.restore).start()
                far.settimeout(10)
                assert far.recv(6, socket.MSG_WAITALL) == b"during"
        assert link.bytes_passed == 12
        link.close()


@pytest.mark.parametrize("replica", ["a", "b"])
def test_a_prometheus_has_a_host_name_by_which_it_scrapes_when_the_large_one_does(replica: str) -> None:
    labels = {"shard": "0", "replica": replica}
    wanted = phases.seed("oracle", {})

    name = phases.host_name(labels, wanted)

    assert re.fullmatch("[a-z]{11}", name)
    assert phases.seed(name, labels) ^ wanted < 20_000_000  # nanoseconds
    assert phases.seed(f"{name}x", labels) ^ wanted > 20_000_000


def test_the_seed_of_a_prometheus_is_what_hash_fnv_makes_of_its_host_and_labels() -> None:
    assert phases.seed("oracle", {}) == 0x8D3DED895B9A075B
    assert phases.seed("dom0", {"shard": "0", "replica": "a"}) == 0x1C55B4058D5A81A2
