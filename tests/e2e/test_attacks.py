"""An exporter attacked by two clients with 500 connections each still answers scrapes within its memory limit.

Other attacks and IPv6: tests/unit/toolkit/test_server.py.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import requests

from tests.e2e import attacker
from tests.e2e.running_exporter import RunningExporter
from tests.proofs.bench.containers import Containers
from tests.unit.toolkit.webconfig.pki import TLS, Pki

CONNECTIONS = 500
SCRAPES = 5
SCRAPE_TIMEOUT = 10  # Prometheus's default
MAX_BYTES = 100 << 20
USER, PASSWORD = "prometheus", "correct horse"

# The attackers' addresses: one address or one network per attacker.
OTHERS = ("127.0.0.2", "127.0.0.3")
OWN = ("127.0.0.1", "127.0.0.1")
ONE = ("127.0.0.2", "127.0.0.2")
MANY = ("127.16.0.0/12", "127.32.0.0/12")  # every connection from a different client
ALWAYS = ("silent", "dribble", "large heads", "requests", "requests, never reading")
ON_TLS = ("handshakes, byte by byte", "handshakes, one after the other")


def cases(system: Iterable[tuple[str, tuple[str, str]]], seldom: Iterable[tuple[str, tuple[str, str]]]) -> list[Any]:
    """The attacks that CI runs, and those run manually."""
    marked = [pytest.param(*case, marks=pytest.mark.system) for case in system]
    return marked + [pytest.param(*case, marks=pytest.mark.long) for case in seldom]


@contextmanager
def attack(exporter: RunningExporter, how: str, networks: tuple[str, str]) -> Iterator[None]:
    """Attack from these addresses; yields once every connection has been open."""
    host, _, port = exporter.address.rpartition(":")
    with ExitStack() as attackers:
        started = []
        for source in networks:
            command = [sys.executable, attacker.__file__, host, port, source, str(CONNECTIONS), how]
            process = attackers.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            attackers.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "attacking\n"
        yield


def scrapes_under_attack(
    exporter: RunningExporter, how: str, networks: tuple[str, str], scrape: Callable[[], requests.Response]
) -> list[int]:
    """Page sizes of scrapes before, during and after an attack, which must all succeed."""
    answers = [scrape()]
    with attack(exporter, how, networks):
        answers += [scrape() for _ in range(SCRAPES)]
    answers.append(scrape())
    assert [answer.status_code for answer in answers] == [200] * (SCRAPES + 2)
    peak = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{exporter.process.pid}/status").read_text())
    assert int(peak[0]) << 10 < MAX_BYTES
    assert "Traceback" not in exporter.log()
    return [len(answer.content) for answer in answers]


@pytest.mark.parametrize(
    ("how", "networks"),
    cases(
        [*product(ALWAYS, (OWN,)), *product(("silent", "requests", "requests, never reading"), (OTHERS,))],
        [*product(ALWAYS[1:3], (OTHERS,)), *product(ALWAYS, (MANY,))],
    ),
)
def test_it_is_scraped_all_the_same(tmp_path: Path, how: str, networks: tuple[str, str]) -> None:
    """From other addresses than Prometheus, and from the same one, as behind a shared gateway."""
    with RunningExporter(tmp_path, f"--path.sysfs={tmp_path}") as exporter:
        scrapes_under_attack(exporter, how, networks, lambda: exporter.get(timeout=SCRAPE_TIMEOUT))


@pytest.mark.parametrize(
    ("how", "networks"), cases([("requests", MANY)], [("requests", OWN), ("requests, never reading", MANY)])
)
def test_a_page_of_many_guests_is_scraped_all_the_same(tmp_path: Path, how: str, networks: tuple[str, str]) -> None:
    """For a hundred containers it is 700 KB, more than the kernel buffers for a client that doesn't read."""
    Containers(tmp_path / "proc", 100)
    flags = [f"--path.procfs={tmp_path}/proc"]
    with RunningExporter(tmp_path, *flags, package="virtscope.openvz") as exporter:
        sizes = scrapes_under_attack(exporter, how, networks, lambda: exporter.get(timeout=SCRAPE_TIMEOUT))
    assert min(sizes) > 500_000


@pytest.mark.parametrize(
    ("how", "networks"),
    cases([("silent", OTHERS), ("guesses", OTHERS), ("guesses", MANY)], product(ON_TLS, (OTHERS, MANY))),
)
def test_it_is_scraped_all_the_same_with_tls_and_a_password(
    tmp_path: Path, how: str, networks: tuple[str, str]
) -> None:
    """With TLS, "silent" is a handshake that never comes. Guesses are sent in plain HTTP, without TLS."""
    pki = Pki(tmp_path / "etc")
    pki.issue("server", pki.ca, "127.0.0.1")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    configuration = f"basic_auth_users: {{{USER}: {hashed}}}\n"
    scheme = "http"
    if how != "guesses":
        scheme = "https"
        configuration += f"{TLS}}}\n"
    flags = [f"--path.sysfs={tmp_path}", f"--web.config.file={pki.write(configuration)}"]
    with RunningExporter(tmp_path, *flags) as exporter:
        url = f"{scheme}://{exporter.address}/metrics"
        scrape = partial(
            requests.get, url, auth=(USER, PASSWORD), verify=f"{pki.folder}/ca.pem", timeout=SCRAPE_TIMEOUT
        )
        scrapes_under_attack(exporter, how, networks, scrape)
