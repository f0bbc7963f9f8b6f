"""`make doctor` finds what is wrong in a Prometheus and a Grafana that others configured."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from deploy.doctor import ADDRESS, retention
from tests.support import Prometheus
from tests.support.endpoints import Exposition, QuietHandler, http_server
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
XEN = """\
xentop_up 1
xen_host_cpus 4
xen_host_cpu_seconds_total {now}
xen_domain_cpu_seconds_total{{domid="0",domain="Domain-0"}} {now}
"""
NODE = 'node_uname_info{nodename="web1"} 1\n'


def doctor(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """The exit status and the printed lines, joined with their remedies."""
    command = [sys.executable, "-m", "deploy.doctor", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout.replace("\n      -> ", " -> ").splitlines()


@pytest.fixture(scope="module")
def xen() -> Iterator[Exposition]:
    grown = iter(range(1_000_000))
    with Exposition(lambda: XEN.format(now=next(grown))) as exporter:
        yield exporter


@pytest.mark.parametrize("program", ["prometheus", "prometheus3"])
def test_nothing_is_wrong_with_the_project_s_own(
    program: Literal["prometheus", "prometheus3"], xen: Exposition, tmp_path: Path
) -> None:
    with (
        Exposition() as alertmanager,
        Prometheus(
            tmp_path, {"xentop": [xen.group("xen1")]}, alertmanager=alertmanager.address, program=program
        ) as prometheus,
    ):
        prometheus.wait_for('host:overhead_cpu:rate{host="xen1"}', seconds=60)
        status, lines = doctor(prometheus.url)
    assert (status, lines[-1]) == (0, "nothing wrong"), lines
    assert lines[0].startswith("ok    Prometheus ")
    assert set(lines[1:]) >= {
        "ok    xentop-exporter: 1 scraped",
        "ok    rules and alerts are loaded",
        "ok    1 of 1 hosts are recorded",
        "note  no application's requests are counted -> docs/sensors.md",
    }


def test_each_mistake_is_named_with_its_remedy(xen: Exposition, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    rule = {"record": "broken:rate", "expr": "xentop_up + on () group_left () {__name__=~'xen.+'}"}
    broken.write_text(json.dumps({"groups": [{"name": "broken", "interval": "1s", "rules": [rule]}]}))
    xen_rules = ROOT / "prometheus/rules/xen.yml"
    copy = tmp_path / "copy.yml"
    copy.write_text(xen_rules.read_text())
    with Exposition(NODE) as node, Exposition(None) as down:
        theirs = [
            {"targets": [xen.address], "labels": {"platform": "kvm", "host": "xen1"}},
            {"targets": [node.address], "labels": {"host": "web1"}},
            down.group("web2"),
        ]
        with Prometheus(
            tmp_path,
            {"theirs": theirs},
            interval="1s",
            scrape_interval="16s",
            jobs=["theirs"],
            rules=[broken, xen_rules, copy],
        ) as prometheus:
            prometheus.wait_for('count(up{job="theirs"}) == 3', seconds=60)
            prometheus.wait_for("node_uname_info and on () xentop_up", seconds=60)
            wait_for(lambda: '"health": "err"' in json.dumps(prometheus.get("rules", {})))
            status, lines = doctor(prometheus.url)
    assert status == 1
    remedies = dict(line.partition(" -> ")[::2] for line in lines)
    labels = "labels: {{host: NAME, platform: {}}} at its target".format
    refused = "server returned HTTP status 500 Internal Server Error"
    expected = {
        f"wrong xentop-exporter at {xen.address} (job theirs) has platform kvm": labels("xen"),
        f"wrong node_exporter at {node.address} (job theirs) has no platform": labels("xen|kvm|openvz|base"),
        "wrong scraped too seldom: theirs, every 16s": "scrape_interval: 15s, or less",
        f"wrong {down.address} (job theirs, host web2) is down: {refused}": "docs/runbooks/ExporterDown.md",
        f"wrong rules are loaded twice: {' and '.join(sorted([str(copy), str(xen_rules)]))}": "one is enough",
        "wrong no Alertmanager: nobody is notified": "alerting: in prometheus.yml; docs/alerting.md",
    }
    assert expected.items() <= remedies.items()
    assert any(line.startswith("wrong broken:rate fails: found duplicate series") for line in lines)
    [(unloaded, remedy)] = [each for each in remedies.items() if each[0].startswith("wrong rules are not loaded: ")]
    assert remedy == "rule_files: in prometheus.yml; docs/own-prometheus.md"
    assert "prometheus/rules/derived.yml" in unloaded
    assert not any(f"rules/{platform}.yml" in unloaded for platform in ("xen", "kvm"))


def test_another_program_is_no_prometheus(xen: Exposition) -> None:
    for url, said in (
        (xen.address, f"{xen.address} is no URL such as http://prometheus:9090"),
        (f"http://user:secret@{xen.address}", f"http://{xen.address}/api/v1/status/buildinfo doesn't answer in JSON"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/api/v1/status/buildinfo: Connection refused"),
    ):
        assert doctor(url) == (1, [f"wrong {said} -> {ADDRESS}", "1 wrong"])
    assert doctor()[1][0] == "usage: make doctor PROMETHEUS=URL [GRAFANA=URL]"


def test_all_rules_that_are_missing_are_one_line(tmp_path: Path) -> None:
    with Prometheus(tmp_path, {}, jobs=[], rules=[]) as prometheus:
        lines = doctor(prometheus.url)[1]
    assert [line.partition(" -> ")[0] for line in lines if "rules" in line] == ["wrong no rules are loaded"]


def test_grafana_s_data_source_and_dashboards(tmp_path: Path) -> None:
    answers = {
        "/api/health": {"version": "12.4.0"},
        "/api/datasources": [
            {"uid": "a", "name": "Prom", "type": "prometheus", "url": "http://prom:9090"},
            {"uid": "b", "name": "Old", "type": "prometheus", "url": "http://localhost:9090"},
        ],
        "/api/datasources/uid/a/health": {"status": "OK"},
        "/api/datasources/uid/b/health": {"status": "ERROR", "message": "connection refused"},
        "/api/search": [{"uid": "virtscope-host"}],
    }

    class Grafana(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802
            allowed = self.headers.get("Authorization") == "Bearer key"
            answer = answers[self.path.partition("?")[0]]
            self.reply(200 if allowed else 401, json.dumps(answer).encode(), "application/json")

    server = http_server(Grafana)
    try:
        with Prometheus(tmp_path, {}) as prometheus:
            found = doctor(prometheus.url, "--grafana", f"http://{server.address}", GRAFANA_TOKEN="key")[1]
            refused = doctor(prometheus.url, "--grafana", f"http://{server.address}")
    finally:
        server.close()
    assert {
        "ok    Grafana 12.4.0",
        "ok    data source Prom (http://prom:9090)",
        "wrong data source Old (http://localhost:9090): connection refused -> its URL, as Grafana reaches it",
    } <= set(found)
    assert any(line.startswith("wrong 13 of 14 dashboards are missing: virtscope-") for line in found)
    remedy = "GRAFANA_TOKEN=TOKEN of a service account, a Viewer"
    assert refused[1][-2] == f"wrong http://{server.address}/api/health answers 401 Unauthorized -> {remedy}"
    assert "wrong no Alertmanager" in "\n".join(refused[1]), "what was found in Prometheus is shown, too"


def test_retention_below_the_baselines_week() -> None:
    assert [finding.what for finding in retention("2d")] == ["samples are kept for 2d, baselines are of a week"]
    assert [*retention("15d or 1GB"), *retention("1GB")] == []
