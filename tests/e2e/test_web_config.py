"""xentop-exporter with --web.config.file: which clients are accepted, Prometheus among them, and which refused.

What is in such a file, and changes of it: tests/unit/toolkit/webconfig.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import requests
import trustme
import yaml

from tests.e2e.running_exporter import RunningExporter
from tests.support.program import Program
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for

USER, PASSWORD = "prometheus", "correct horse"
CLIENT_NAME = "prometheus.example"


class Folder:
    """The certificates of a server and its clients, beside the configuration."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(path / "ca.pem")
        self.issue("server", self.ca, "127.0.0.1")
        self.client = self.issue("client", self.ca, CLIENT_NAME)

    def issue(self, name: str, ca: trustme.CA, identity: str) -> tuple[str, str]:
        """Write NAME.pem and NAME.key, signed by `ca`; return their paths."""
        issued = ca.issue_cert(identity)
        certificate, key = self.path / f"{name}.pem", self.path / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(certificate)
        return str(certificate), str(key)

    def ask(
        self, exporter: RunningExporter, client: tuple[str, str] | None, password: str | None, method: str = "GET"
    ) -> requests.Response:
        """Ask for the metrics over TLS with the client's certificate and, unless None, the password."""
        auth = None if password is None else (USER, password)
        url, ca = f"https://{exporter.address}/metrics", str(self.path / "ca.pem")
        return requests.request(method, url, verify=ca, cert=client, auth=auth, timeout=10)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "etc")


@pytest.fixture
def exporter(folder: Folder, tmp_path: Path) -> Iterator[RunningExporter]:
    """One that asks for everything at once; it runs off Xen, where it serves its own metrics."""
    tls = {"cert_file": "server.pem", "key_file": "server.key", "client_ca_file": "ca.pem"}
    tls |= {"client_auth_type": "RequireAndVerifyClientCert"}
    configuration = {
        "tls_server_config": {**tls, "client_allowed_sans": [CLIENT_NAME]},
        "http_server_config": {"headers": {"X-Frame-Options": "deny"}},
        "basic_auth_users": {USER: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()},
    }
    (folder.path / "web.yml").write_text(yaml.safe_dump(configuration))
    with RunningExporter(tmp_path, f"--web.config.file={folder.path}/web.yml", f"--path.sysfs={tmp_path}") as running:
        yield running


def test_without_the_password_it_is_asked_for(folder: Folder, exporter: RunningExporter) -> None:
    for password, status, text in ((PASSWORD, 200, "xentop_up 0.0"), ("wrong", 401, ""), (None, 401, "")):
        answer = folder.ask(exporter, folder.client, password)
        assert (answer.status_code, answer.headers["X-Frame-Options"]) == (status, "deny")
        assert answer.headers.get("WWW-Authenticate") == ("Basic" if status == 401 else None)
        assert text in answer.text


def test_the_password_comes_before_the_method(folder: Folder, exporter: RunningExporter) -> None:
    for method in ("POST", "TRACE", "OPTIONS"):
        assert folder.ask(exporter, folder.client, None, method).status_code == 401
        assert folder.ask(exporter, folder.client, PASSWORD, method).status_code == 405


def test_other_certificates_than_the_allowed_one_are_refused(folder: Folder, exporter: RunningExporter) -> None:
    foreign = folder.issue("foreign", trustme.CA(), CLIENT_NAME)
    other_name = folder.issue("other", folder.ca, "grafana.example")
    for client in (None, foreign, other_name):
        with pytest.raises(requests.ConnectionError):
            folder.ask(exporter, client, PASSWORD)


def test_prometheus_can_scrape_it(folder: Folder, exporter: RunningExporter) -> None:
    scrape = {
        "job_name": "xentop",
        "scheme": "https",
        "tls_config": {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key"},
        "basic_auth": {"username": USER, "password": PASSWORD},
        "static_configs": [{"targets": [exporter.address]}],
    }
    configuration = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    (folder.path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    program = Program("prometheus", folder.path)
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
