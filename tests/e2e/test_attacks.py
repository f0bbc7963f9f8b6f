"""An exporter under attack by two clients with 500 connections each: it answers scrapes, and its memory stays small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import bcrypt
import pytest
import requests
import trustme
import yaml

from bench.containers import Containers
from tests.e2e import attacker
from tests.e2e.running_exporter import RunningExporter

CONNECTIONS = 500
SCRAPES = 5
SCRAPE_TIMEOUT = 10  # Prometheus's default
MOST_BYTES = 100 << 20
USER, PASSWORD = "prometheus", "correct horse"


class Sources(NamedTuple):
    """Where attackers are: an address, or a network of addresses, for each."""

    name: str
    networks: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


OTHERS = Sources("others", ("127.0.0.2", "127.0.0.3"))
OWN = Sources("own", ("127.0.0.1", "127.0.0.1"))
MANY = Sources("many", ("127.16.0.0/12", "127.32.0.0/12"))  # each connection another client's
IPV6 = Sources("own of IPv6", ("::1", "::1"))
ALWAYS = ("silent", "dribble", "large heads", "requests", "requests, never reading")
ON_TLS = ("handshakes, byte by byte", "handshakes, one after the other")
SELDOM = ("a body without end", "HTTP/2", "requests ahead", "requests, then gone")


def peak_bytes(exporter: RunningExporter) -> int:
    """Return the most memory that the exporter ever had."""
    status = Path(f"/proc/{exporter.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def attack(exporter: RunningExporter, how: str, *sources: str) -> Iterator[None]:
    """Attack from these addresses; yields once every connection has been open."""
    host, _, port = exporter.address.rpartition(":")
    with ExitStack() as attackers:
        started = []
        for source in sources:
            command = [sys.executable, attacker.__file__, host.strip("[]"), port, source, str(CONNECTIONS), how]
            process = attackers.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            attackers.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "attacking\n"
        yield


@pytest.mark.parametrize(
    ("how", "sources"),
    [
        *((how, sources) for how in ALWAYS for sources in (OTHERS, OWN)),
        *(pytest.param(how, OTHERS, marks=pytest.mark.long) for how in SELDOM),
        *(pytest.param(how, MANY, marks=pytest.mark.long) for how in (*ALWAYS, *SELDOM)),
        pytest.param("silent", IPV6, marks=pytest.mark.long),
        pytest.param("requests", IPV6, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_it_is_scraped_all_the_same(tmp_path: Path, how: str, sources: Sources) -> None:
    """From other addresses than Prometheus's and, as behind one gateway, from its own."""
    listen = "--web.listen-address=[::1]:0" if sources is IPV6 else "--web.listen-address=127.0.0.1:0"
    with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}", listen) as exporter:
        before = exporter.get().status_code
        with attack(exporter, how, *sources.networks):
            answers = [exporter.get(timeout=SCRAPE_TIMEOUT).status_code for _ in range(SCRAPES)]
        after = exporter.get().status_code
        peak = peak_bytes(exporter)
        log = exporter.log()
    assert [before, *answers, after] == [200] * (SCRAPES + 2)
    assert peak < MOST_BYTES
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("how", "sources"),
    [
        ("requests", MANY),
        pytest.param("requests", OWN, marks=pytest.mark.long),
        pytest.param("requests, never reading", MANY, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_a_page_of_many_guests_is_scraped_all_the_same(tmp_path: Path, how: str, sources: Sources) -> None:
    """Of a hundred containers it has 700 KB, more than the kernel takes for a client that doesn't read."""
    Containers(tmp_path / "proc", 100)
    flags = [f"--path.procfs={tmp_path}/proc"]
    with RunningExporter(tmp_path, *flags, package="virtscope.openvz") as exporter:
        before = exporter.get()
        with attack(exporter, how, *sources.networks):
            answers = [exporter.get(timeout=SCRAPE_TIMEOUT) for _ in range(SCRAPES)]
        peak = peak_bytes(exporter)
    assert len(before.content) > 500_000
    assert [answer.status_code for answer in answers] == [200] * SCRAPES
    assert peak < MOST_BYTES


@pytest.mark.parametrize(
    ("how", "sources"),
    [
        ("silent", OTHERS),
        ("guesses", OTHERS),
        ("guesses", MANY),
        *(pytest.param(how, sources, marks=pytest.mark.long) for how in ON_TLS for sources in (OTHERS, MANY)),
    ],
    ids=str,
)
def test_it_is_scraped_all_the_same_with_tls_and_a_password(tmp_path: Path, how: str, sources: Sources) -> None:
    """Behind TLS "silent" is a handshake that never comes, and so are guesses in plain HTTP without it."""
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    configuration: dict[str, object] = {
        "basic_auth_users": {USER: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()}
    }
    scheme = "http"
    if how != "guesses":
        scheme = "https"
        configuration["tls_server_config"] = {"cert_file": "server.pem", "key_file": "server.key"}
    (tmp_path / "web.yml").write_text(yaml.safe_dump(configuration))
    with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}", f"--web.config.file={tmp_path}/web.yml") as exporter:

        def scrape() -> int:
            return requests.get(
                f"{scheme}://{exporter.address}/metrics",
                auth=(USER, PASSWORD),
                verify=str(tmp_path / "ca.pem"),
                timeout=SCRAPE_TIMEOUT,
            ).status_code

        before = scrape()
        with attack(exporter, how, *sources.networks):
            answers = [scrape() for _ in range(SCRAPES)]
        peak = peak_bytes(exporter)
    assert [before, *answers] == [200] * (SCRAPES + 1)
    assert peak < MOST_BYTES
