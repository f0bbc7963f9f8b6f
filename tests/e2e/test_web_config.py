"""xentop-exporter with --web.config.file: accepted clients, including Prometheus, and refused ones.

The file's contents and changes to it: tests/unit/toolkit/webconfig.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml

from tests.e2e.running_exporter import RunningExporter
from tests.support.program import Program
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, CLIENTS, Pki

USER, CLIENT_NAME = "alice", "prometheus.example"


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "etc")


@pytest.fixture
def exporter(pki: Pki, tmp_path: Path) -> Iterator[RunningExporter]:
    """An exporter with TLS, client certificates and passwords. It runs outside Xen, where it serves its own metrics."""
    for name, identity in (("client", CLIENT_NAME), ("other", "grafana.example")):
        pki.issue(name, pki.ca, identity)
    pki.issue("server", pki.ca, "127.0.0.1")
    pki.issue("foreign", pki.foreign_ca, CLIENT_NAME)
    configuration = pki.write(
        f"{CLIENTS}, client_allowed_sans: [{CLIENT_NAME}]}}\nbasic_auth_users: {{{USER}: {ALICES_HASH}}}\n"
        "http_server_config: {headers: {X-Frame-Options: deny}}\n"
    )
    with RunningExporter(tmp_path, f"--web.config.file={configuration}", f"--path.sysfs={tmp_path}") as running:
        yield running


def ask(
    pki: Pki, exporter: RunningExporter, client: str | None, password: str | None, method: str = "GET"
) -> requests.Response:
    """Fetch the metrics over TLS with the client's certificate and, unless None, the password."""
    auth = None if password is None else (USER, password)
    url, ca = f"https://{exporter.address}/metrics", str(pki.folder / "ca.pem")
    certificate = client and (f"{pki.folder}/{client}.pem", f"{pki.folder}/{client}.key")
    return requests.request(method, url, verify=ca, cert=certificate, auth=auth, timeout=10)


def test_without_certificate_and_password_nothing_is_said(pki: Pki, exporter: RunningExporter) -> None:
    for password, status, text in ((ALICES_PASSWORD, 200, "xentop_up 0.0"), ("wrong", 401, ""), (None, 401, "")):
        answer = ask(pki, exporter, "client", password)
        assert (answer.status_code, answer.headers["X-Frame-Options"]) == (status, "deny")
        assert answer.headers.get("WWW-Authenticate") == ("Basic" if status == 401 else None)
        assert text in answer.text
    for password, status in ((None, 401), (ALICES_PASSWORD, 405)):
        assert ask(pki, exporter, "client", password, "POST").status_code == status
    for client in (None, "foreign", "other"):
        with pytest.raises(requests.ConnectionError):
            ask(pki, exporter, client, ALICES_PASSWORD)


def test_prometheus_can_scrape_it(pki: Pki, exporter: RunningExporter) -> None:
    scrape = {
        "job_name": "xentop",
        "scheme": "https",
        "tls_config": {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key"},
        "basic_auth": {"username": USER, "password": ALICES_PASSWORD},
        "static_configs": [{"targets": [exporter.address]}],
    }
    configuration = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    (pki.folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    program = Program("prometheus", pki.folder)
    listen = f"--web.listen-address=127.0.0.1:{program.port}"
    program.start("--config.file=prometheus.yml", "--storage.tsdb.path=data", listen)
    try:
        PrometheusClient(program.url).wait_for("up == 1", 60)
    finally:
        program.stop()


def test_sighup_looks_at_the_files_if_there_are_any(tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text("")
    for flags in ([], [f"--web.config.file={web}"]):
        with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}", *flags) as exporter:
            web.write_text("?" if flags else "")
            exporter.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "web configuration unusable" in exporter.log() or not flags)  # noqa: B023
            assert exporter.get("/-/healthy").text == "xentop-exporter is healthy.\n"
            assert exporter.stop() == 0
            assert len(exporter.log_lines("stopping")) == 1
