"""Every query of every panel, sent to a live Prometheus with the project's own rules, must return series."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from tests.dashboards import consolidated, counted, experiments, hosts
from tests.dashboards.excused import EXCUSED
from tests.dashboards.queries import (
    CACHES_AND_EVENTS,
    FOLDER,
    HOST,
    PROFILE,
    Answer,
    resolve_variables,
    run_annotations,
    run_queries,
)
from tests.support import Prometheus
from tests.support.program import Program

HOSTS = {"xen": "xen1", "base": "base1", "cgroup": "lab1"}
ITS_OWN_HOST = {"xen": "xen2", "kvm": "kvm1", "openvz": "vz1"}  # of the page of this platform, which offers no others
PAGES_OF_HOSTS = [
    pytest.param(path, platform, host, id=f"{path.stem}-{host}")
    for path in sorted(FOLDER.glob("*.json"))
    for platform, host in ([(path.stem, ITS_OWN_HOST[path.stem])] if path.stem in ITS_OWN_HOST else HOSTS.items())
]


class Fleet(NamedTuple):
    """A Prometheus, and the store that it sends everything to, where all series have the label `shard` of a fleet's."""

    shard: Prometheus
    store: Program


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    store = Program("prometheus", tmp_path_factory.mktemp("store"))
    (store.folder / "prometheus.yml").write_text("{}\n")
    store.start(
        f"--config.file={store.folder / 'prometheus.yml'}",
        f"--web.listen-address=127.0.0.1:{store.port}",
        "--web.enable-remote-write-receiver",
        f"--storage.tsdb.path={store.folder / 'data'}",
        "--log.level=warn",
    )
    try:
        for shard in _shard(tmp_path_factory.mktemp("dashboards"), store.url):
            yield Fleet(shard, store)
    finally:
        store.stop()


@pytest.fixture
def prometheus(fleet: Fleet) -> Prometheus:
    return fleet.shard


def _shard(folder: Path, store: str) -> Iterator[Prometheus]:
    lab = consolidated.Lab(step_seconds=2)
    experiments.page(0)  # which takes longer than a scrape may
    with (
        hosts.Ticking(lab.cadvisor) as cadvisor,
        hosts.Ticking(lab.node) as node,
        hosts.Ticking(lab.telegraf) as telegraf,
        hosts.Ticking(lab.runner) as runner,
        hosts.Ticking(lab.perf) as lab_perf,
        hosts.Ticking(lab.sched) as sched,
        hosts.Ticking(hosts.xen) as xen,
        hosts.Ticking(hosts.mute_xen) as mute,
        hosts.Ticking(hosts.every_metric_of_xen) as every_xen,
        hosts.Ticking(hosts.every_metric_of_kvm) as kvm,
        hosts.Ticking(hosts.every_metric_of_openvz) as openvz,
        hosts.Ticking(hosts.base) as base,
        hosts.Ticking(counted.perf) as perf,
        hosts.Ticking(hosts.ssh_exporter) as ssh,
        hosts.Ticking(hosts.parts_of_the_stack) as parts,
        hosts.Ticking(experiments.page) as runs,
    ):
        web = perf.group("xen1", "xen")
        web["labels"]["vserver"] = "web 1"
        targets = {
            "xentop": [xen.group("xen1", "xen"), mute.group("mute1", "xen"), every_xen.group("xen2", "xen")],
            "kvm": [kvm.group("kvm1", "kvm")],
            "vestat": [openvz.group("vz1", "openvz")],
            "node": [base.group("base1", "base"), node.group("lab1", "base")],
            "perf": [perf.group("xen1", "xen"), perf.group("base1", "base"), lab_perf.group("lab1", "base")],
            "sched": [sched.group("lab1", "base")],
            "guest": [web],
            "cadvisor": [cadvisor.group("lab1", "cgroup")],
            "telegraf": [
                telegraf.group("lab1", "cgroup"),
                telegraf.group("xen1", "xen"),
                telegraf.group("base1", "base"),
            ],
            "lab": [runner.group("lab1", "cgroup"), runs.group("lab1", "cgroup")],
            "stack": [parts.group("base1", "base")],
            # Of no platform that it could be probed for.
            "ssh": [{"targets": ["dom0"], "labels": {"__exporter__": ssh.address}}],
        }
        sent = (store, {"shard": "0"})
        with Prometheus(folder, targets, group_interval="5s", alert_for="0s", store=sent) as server:
            server.watch(
                "prometheus",
                [{"targets": [server.url.removeprefix("http://")], "labels": {"host": "base1", "platform": "base"}}],
            )
            server.wait_for('ALERTS{alertname="HostOverheadHigh", host="xen1"}', seconds=90)
            server.wait_for("rate(prometheus_tsdb_head_samples_appended_total[20s])", seconds=90)
            server.wait_for('vserver:cpu_usage:rate{host="base1"} and on (host) monitor:cpu_usage:rate', seconds=90)
            server.wait_for(
                "count(vserver:ipc:ratio{host!='lab1'} and on (host) host:events_covered:ratio) == 3", seconds=90
            )
            server.wait_for('ALERTS{alertname="SourceFailing", host="mute1"} and on (host) monitor:cpu_usage:rate', 90)
            evidence = 'app:cause:score{app="auction-4"} and on (host, platform, app) ALERTS{objective!=""}'
            server.wait_for(f"max_over_time((count(count by (host) ({evidence})) == 3)[1m:5s])", seconds=90)
            server.wait_for(
                "count(vserver:cpu_usage:rate{host=~'xen2|kvm1|vz1'} and on (host) host:cpu_capacity:cpus) > 5", 90
            )
            server.wait_for('app:slo_budget_left:ratio{host="lab1", app="auction-4"}', seconds=90)
            # Graphs that choose look each 20 s.
            server.wait_for('app:neighbour:ratio{host="lab1", app="auction-4"} offset 25s', seconds=90)
            # Costs of virtual servers are known from their second minute on; graphs that choose look each 20 s.
            of_each = "count(count by (host) (vserver:instructions_per_byte:ratio offset 25s)) == 3"
            server.wait_for(f"{of_each} and on () vserver:cycles_per_request:ratio", seconds=120)
            yield server


@pytest.mark.parametrize(("dashboard", "platform", "host"), PAGES_OF_HOSTS)
def test_every_query_brings_series(prometheus: Prometheus, dashboard: Path, platform: str, host: str) -> None:
    assert_filled(prometheus, prometheus.url, dashboard, platform, host)


@pytest.mark.parametrize(("dashboard", "platform", "host"), PAGES_OF_HOSTS)
def test_every_query_brings_as_much_from_the_store_of_a_fleet(
    fleet: Fleet, dashboard: Path, platform: str, host: str
) -> None:
    """Its series have one label more, that of the Prometheus which has sent them: joins must not break on it."""
    assert_filled(fleet.shard, fleet.store.url, dashboard, platform, host)
    run_annotations(fleet.store.url, dashboard, {"host": host})


def assert_filled(scraper: Prometheus, url: str, dashboard: Path, platform: str, host: str) -> None:
    """All panels but those that are excused have series, and these have none.

    A scrape that has timed out ends its series until the next one: only if there was such a one, this asks again.
    """
    excused = set(EXCUSED.get(dashboard.stem, {}).get(platform, {}))
    deadline = time.monotonic() + 60
    while True:
        answers = run_queries(url, dashboard, {"host": host})
        assert answers
        empty = {(answer.panel, answer.ref_id) for answer in answers if answer.series == 0}
        timed_out = scraper.query("min_over_time(up[1m]) == 0")
        if empty == excused or not timed_out or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert empty == excused, "panels are empty that should not be, or are not that were excused"


def test_the_store_s_series_have_the_label_of_their_shard(fleet: Fleet) -> None:
    (counted,) = requests.get(
        f"{fleet.store.url}/api/v1/query",
        params={"query": 'count by (shard) ({__name__=~".+:.+|ALERTS|up"})'},
        timeout=30,
    ).json()["data"]["result"]
    assert counted["metric"] == {"shard": "0"}


def test_lines_of_access_logs_that_do_not_parse_are_shown(prometheus: Prometheus) -> None:
    """Of the one application that has such lines, beside what fails of exporters."""
    answers = run_queries(prometheus.url, FOLDER / "monitor.json", {"host": "lab1"})
    (failures,) = [answer for answer in answers if answer.panel == "Source failures"]
    found = prometheus.query(failures.expr)
    shown = {(each["metric"]["host"], each["metric"]["source"], each["metric"]["reason"]) for each in found}
    assert ("lab1", "access log of auction-1", "unparsed") in shown
    assert not any("auction-2" in source for _, source, _ in shown)
    assert ("mute1", "libxenstat", "timeout") in shown


def test_the_panels_show_one_host_alone(prometheus: Prometheus) -> None:
    series = series_by_panel(run_queries(prometheus.url, HOST, {"host": "xen1"}))
    assert series["Overhead ratio"] == {"A": 1}
    assert series["CPU usage and capacity"] == {"A": 1, "B": 3, "C": 0, "D": 1, "E": 0}, (
        "Dom0, three guests, the capacity"
    )
    assert series["Virtual servers"] == {"A": 4, "B": 4, "C": 4, "D": 2, "E": 0, "F": 4, "G": 4}


def test_events_are_shown_of_dom0_and_of_the_guests_that_count(prometheus: Prometheus) -> None:
    series = series_by_panel(run_queries(prometheus.url, CACHES_AND_EVENTS, {"host": "xen1"}))
    assert series["LLC MPKI"] == {"A": 2}, "Dom0, one guest"
    assert series["Counted CPU share"] == {"A": 1}


def test_a_profile_stands_beside_another_host_s(prometheus: Prometheus) -> None:
    answers = run_queries(prometheus.url, PROFILE, {"host": "xen1", "other_host": "base1"})
    series = series_by_panel(answers)
    places = len(counted.SAMPLES)
    assert series["Symbols: $event on $host"] == {"A": 2 * places}, "of Dom0 and of a guest"
    assert series["Symbols: $other_event on $other_host, ${other_time:text}"] == {"A": places}
    images = len({image for image, _, _ in counted.SAMPLES})
    assert series["Images: $event on $host"] == {"A": 2 * images}
    assert series["Top: $event on $host"] == {"A": 5}, "as many as the legend has room for"
    assert series["Top: $other_event on $other_host, ${other_time:text}"] == {"A": places}
    shares = next(answer.expr for answer in answers if answer.panel == "Symbols: $event on $host")
    of_dom0 = {
        row["metric"]["symbol"]: float(row["value"][1])
        for row in prometheus.query(shares)
        if "vserver" not in row["metric"]
    }
    assert of_dom0["hypervisor_callback"] == pytest.approx(0.3035, abs=0.01)


def test_a_host_of_which_nothing_is_known_shows_its_alert(prometheus: Prometheus) -> None:
    series = series_by_panel(run_queries(prometheus.url, HOST, {"host": "mute1"}))
    assert set(series["Virtual servers"].values()) == {0}
    assert series["Alerts"] == {"A": 1}
    assert series["Monitoring CPU by job"] == {"A": 1}


def test_a_page_opens_on_the_host_with_the_severest_alerts_and_of_equal_ones_with_more_overhead(
    prometheus: Prometheus,
) -> None:
    firing = 'count by (host, severity) (ALERTS{alertstate="firing", severity="%s"})'
    points = by_host(prometheus, f"sum by (host) (1000 * {firing % 'critical'} or {firing % 'warning'})")
    overhead = by_host(prometheus, "max by (host) (host:overhead:ratio)")
    chosen = resolve_variables(prometheus.url, json.loads(HOST.read_text()), {})["host"]
    assert chosen == max(points, key=lambda host: (points[host], overhead.get(host, 0))), (points, overhead)


def test_the_board_has_the_worst_alert_of_each_host_the_severest_first(prometheus: Prometheus) -> None:
    (board,) = [
        answer
        for answer in run_queries(prometheus.url, FOLDER / "fleet.json")
        if answer.panel == "Hosts that need attention"
    ]
    tiles = prometheus.query(board.expr)
    assert [tile["metric"]["host"] for tile in tiles].count("xen1") == 1
    severities = [int(float(tile["value"][1]) >= 1) + int(float(tile["value"][1]) >= 1000) for tile in tiles]
    assert severities == sorted(severities, reverse=True)
    assert all(
        ("alertname" in tile["metric"]) == bool(severity) for tile, severity in zip(tiles, severities, strict=True)
    )


@pytest.mark.parametrize(("page", "host"), [("xen", "vz1"), ("openvz", "xen2"), ("xen", "base1")])
def test_the_page_of_a_platform_offers_its_own_hosts_alone(prometheus: Prometheus, page: str, host: str) -> None:
    with pytest.raises(LookupError, match=f"can't be '{host}'"):
        run_queries(prometheus.url, FOLDER / f"{page}.json", {"host": host})


def test_the_page_of_a_platform_shows_the_chosen_virtual_server_alone(prometheus: Prometheus) -> None:
    whole = series_by_panel(run_queries(prometheus.url, FOLDER / "xen.json", {"host": "xen2"}))
    of_one = series_by_panel(run_queries(prometheus.url, FOLDER / "xen.json", {"host": "xen2", "vserver": "db01"}))
    assert whole["Domains"]["A"] > of_one["Domains"]["A"] == 1
    assert of_one["CPU pools of the host"] == whole["CPU pools of the host"]


def test_beancounters_are_of_one_container_at_first_the_one_that_was_refused_most(prometheus: Prometheus) -> None:
    (memory, *_) = [
        answer
        for answer in run_queries(prometheus.url, FOLDER / "openvz.json", {"host": "vz1"})
        if answer.panel == "Memory of $ctid"
    ]
    assert 10 < memory.series < 30, "a row for each resource"
    failures = 'sort_desc(sum by (ctid) (openvz_beancounter_failures_total{host="vz1"}))'
    assert f'ctid="{prometheus.query(failures)[0]["metric"]["ctid"]}"' in memory.expr


def test_platform_narrows_the_choice_of_hosts(prometheus: Prometheus) -> None:
    assert run_queries(prometheus.url, HOST, {"platform": "base", "host": "base1"})
    with pytest.raises(LookupError, match="can't be 'xen1'"):
        run_queries(prometheus.url, HOST, {"platform": "base", "host": "xen1"})


def test_what_draws_nothing_counts_as_empty(prometheus: Prometheus, tmp_path: Path) -> None:
    absent, nan, drawn = "no:such:record", "vector(0) / 0", 'host:overhead:ratio{host="$host"}'
    series = [answer.series for answer in run_queries(prometheus.url, page(tmp_path, absent, nan, drawn))]
    assert series == [0, 0, 1]


def test_a_query_that_prometheus_refuses_is_an_error(prometheus: Prometheus, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="parse error"):
        run_queries(prometheus.url, page(tmp_path, "sum by ("))


def test_a_variable_that_the_dashboard_lacks_is_an_error(prometheus: Prometheus, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="vserver"):
        run_queries(prometheus.url, page(tmp_path, 'vserver:cpu_usage:rate{vserver="$vserver"}'))


def page(folder: Path, *exprs: str) -> Path:
    """A dashboard of one panel with a variable `host`."""
    targets = [{"refId": f"Q{i}", "expr": expr} for i, expr in enumerate(exprs)]
    query = "label_values(host:overhead:ratio, host)"
    host = {"name": "host", "type": "query", "query": query, "multi": False, "includeAll": False}
    panel = {"type": "timeseries", "title": "Panel", "targets": targets}
    file = folder / "page.json"
    file.write_text(json.dumps({"panels": [panel], "templating": {"list": [host]}}))
    return file


def by_host(prometheus: Prometheus, expr: str) -> dict[str, float]:
    return {row["metric"]["host"]: float(row["value"][1]) for row in prometheus.query(expr)}


def series_by_panel(answers: list[Answer]) -> dict[str, dict[str, int]]:
    panels: dict[str, dict[str, int]] = {}
    for answer in answers:
        panels.setdefault(answer.panel, {})[answer.ref_id] = answer.series
    return panels
