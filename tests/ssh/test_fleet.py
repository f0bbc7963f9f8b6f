"""Two hundred hosts in one process, each scraped every 15 seconds; some hang or refuse."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.proofs.bench.containers import Containers
from tests.ssh.exporter import over_ssh
from tests.ssh.sshd import Sshd, cpu_seconds, descendants, resident, script
from virtscope.ssh import authorized_key

HOSTS = 200
CONTAINERS = 20
HANGING, REFUSING = 10, 10
INTERVAL = 15.0
ROUNDS = 6  # the first one connects


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_hosts_every_15_seconds(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    names = [f"vz{number}" for number in range(HOSTS)]
    with Sshd(tmp_path) as sshd:
        for number, name in enumerate(names):
            host = Containers(tmp_path / name, CONTAINERS, first=1000 * number + 1001)
            command = authorized_key.command(script(host.procfs))
            sshd.add_host(name, command if number >= HANGING else command.replace("answer grep", "answer tail -f", 1))
        for name in names[-REFUSING:]:
            (tmp_path / f"key-{name}").unlink()
        with over_ssh(sshd, *names, flags=["--vzlist.interval=0"]) as exporter, ThreadPoolExecutor(HOSTS) as scrapers:

            def scrape(number: int) -> list[str]:
                """Each at its own offset within the interval, with a timeout of 10 s, like Prometheus."""
                pages = []
                begun = time.monotonic() + INTERVAL * number / HOSTS
                for turn in range(ROUNDS):
                    time.sleep(max(begun + INTERVAL * turn - time.monotonic(), 0))
                    url = f"/probe?module=openvz&target={names[number]}"
                    pages.append(exporter.get(url, timeout=120, X_Prometheus_Scrape_Timeout_Seconds="10").text)
                return pages

            begun = time.monotonic()
            pages = list(scrapers.map(scrape, range(HOSTS)))
            seconds = time.monotonic() - begun
            pid, clients = exporter.process.pid, descendants(exporter.process.pid)
            resident_mb = resident(pid) / 1e6
            record_property("exporter_cpu_share", cpu_seconds(pid) / seconds)
            record_property("ssh_clients_cpu_share", sum(map(cpu_seconds, clients)) / seconds)
            record_property("exporter_resident_mb", resident_mb)
            record_property("ssh_client_resident_mb", sum(map(resident, clients)) / len(clients) / 1e6)
            record_property("threads", len(list(Path(f"/proc/{pid}/task").iterdir())))
    for number, of_host in enumerate(pages):
        if number < HANGING:
            assert not any("openvz_container_cpu" in page for page in of_host)
        elif number >= HOSTS - REFUSING:
            assert all(page.startswith("503: ") for page in of_host)
        else:
            assert all(f'_seconds_total{{ctid="{1000 * number + 1001}"}}' in page for page in of_host[1:]), number
            assert set(re.findall(r'ctid="([0-9]+)[0-9]{3}"', "".join(of_host))) == {str(number + 1)}, "another's"
    assert resident_mb < 600
