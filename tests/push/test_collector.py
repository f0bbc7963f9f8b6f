"""docs/push.md about OpenTelemetry's Collector: the real one with the shipped file, through the gate."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.push.gate import WAIT, Gate, Scraped
from tests.support import Exposition
from tests.support.program import Program, program_path
from tools.push import FOLDER

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

# A sensor's metrics, with a bucket that Prometheus 3 writes as 1.0 and the Collector as 1.
ANSWERS = """\
# TYPE app_request_duration_seconds histogram
app_request_duration_seconds_bucket{app="shop",tier="web",method="GET",status="2xx",le="0.3"} 3
app_request_duration_seconds_bucket{app="shop",tier="web",method="GET",status="2xx",le="1"} 4
app_request_duration_seconds_bucket{app="shop",tier="web",method="GET",status="2xx",le="+Inf"} 5
app_request_duration_seconds_sum{app="shop",tier="web",method="GET",status="2xx"} 6
app_request_duration_seconds_count{app="shop",tier="web",method="GET",status="2xx"} 5
"""


class _Collector(Program):
    """It doesn't listen: readiness is in its log."""

    def is_ready(self) -> bool:
        return "Everything is ready" in self.log.read_text(errors="replace")


def configuration(gate: Gate, folder: Path) -> str:
    """The shipped file with an operator's changes."""
    document = yaml.safe_load((FOLDER / "otelcol.yml").read_text())
    (folder / "password").write_text("two")
    client = document["extensions"]["basicauth/gate"]["client_auth"]
    client.update(username="host2", password_file=str(folder / "password"))
    document["exporters"]["prometheus_remote_write"]["http"].update(endpoint=gate.url, tls={"ca_file": gate.authority})
    document["receivers"]["prometheus"]["config"]["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    (folder / "otelcol.yml").write_text(yaml.safe_dump(document))
    return str(folder / "otelcol.yml")


@pytest.fixture(scope="module")
def watched() -> Scraped:
    return Scraped()


@pytest.fixture(scope="module")
def gate(watched: Scraped, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """It scrapes one host, `scraped`. `host2` pushes, with the same exporter and sensor behind its Collector."""
    program_path("otelcol")
    folder = tmp_path_factory.mktemp("collector")
    (folder / "targets").mkdir()
    with Exposition(Scraped()) as exporter, Exposition(watched) as pushed, Exposition(ANSWERS) as sensor:
        scraped = {"kvm": [exporter.group("scraped", "kvm")], "telegraf": [sensor.group("scraped", "kvm")]}
        with Gate(folder, scraped) as gate:
            for job, watch in (("kvm", pushed), ("telegraf", sensor)):
                # It claims to be another host, which the gate corrects.
                (folder / "targets" / f"{job}.yml").write_text(yaml.safe_dump([watch.group("scraped", "kvm")]))
            collector = _Collector("otelcol", folder)
            try:
                collector.start(f"--config=file:{configuration(gate, folder)}")
                yield gate
            finally:
                collector.stop()


def test_the_collector_takes_the_shipped_file() -> None:
    command = [str(program_path("otelcol")), "validate", f"--config=file:{FOLDER / 'otelcol.yml'}"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr


def test_a_host_whose_collector_pushes_is_as_one_that_is_scraped(gate: Gate) -> None:
    log = (gate.folder / "otelcol.log").read_text()
    assert [line for line in log.splitlines() if "deprecated" in line] == [], "settings that are about to go"
    gate.prometheus.wait_for('up{host="host2", job="kvm"} == 1', seconds=WAIT)
    gate.prometheus.wait_for('vserver:cpu_usage:rate{host="host2", role="guest"}', seconds=WAIT)
    gate.prometheus.wait_for('requests:duration_seconds_bucket:rate1m{host="host2"}', seconds=WAIT)
    gate.wait_until_alike("host2", "scraped", "kvm")
    edges = {dict(labels)["le"] for labels in gate.series_of("host2", "telegraf") if "le" in dict(labels)}
    assert edges == {"0.3", "1", "+Inf"}  # the rules accept these for 1.0, too


def test_what_a_collector_scrapes_while_the_gate_is_away_comes_later(gate: Gate, watched: Scraped) -> None:
    gate.prometheus.wait_for('up{host="host2", job="kvm"} == 1', seconds=WAIT)
    gate.assert_scrapes_while_it_is_away_come_later("host2", watched)
