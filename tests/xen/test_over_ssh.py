"""ssh-exporter outside of the host, by Dom0's sshd and a line in its authorized_keys, with the real xentop and xl."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support.pages import Series
from tests.support.reporting import Report
from tests.support.waiting import wait_for
from tests.xen.dom0_sshd import sshd_in
from tests.xen.exporters import Page, SecondExporter, second_exporter_in
from tests.xen.host import GUESTS, XenHost
from tools import programs
from virtscope.ssh import authorized_key, xen_host
from virtscope.ssh.child import Room
from virtscope.ssh.connection import Connection
from virtscope.toolkit.collect import SourceError

pytestmark = pytest.mark.long

READINGS = 5  # even with all guests paused, Dom0 itself may send them a packet while we look
ROUNDS = 12
CONNECTION_SECONDS, XL_SECONDS = 120, 300
NODE_EXPORTER = "127.0.0.1:9100"
# About the exporter and its machine: how long it took, what it read, what its child did.
OF_ITSELF = re.compile(r"process_|xentop_(?!up$|source_up$)")


class Account:
    """A cgroup in Dom0: the CPU time of all that runs in it, and of what that has started."""

    def __init__(self, xen: XenHost, name: str) -> None:
        self._xen = xen
        self._folder = f"/sys/fs/cgroup/{name}"
        mounted = "grep -q ' /sys/fs/cgroup ' /proc/mounts || mount -t cgroup2 cgroup2 /sys/fs/cgroup"
        xen.dom0(f"{mounted}; mkdir -p {self._folder}")
        self.enter = f"echo $$ >{self._folder}/cgroup.procs"  # of a shell

    def take(self, pid: str) -> None:
        """Count a process that runs already, from now on."""
        self._xen.dom0(f"echo {pid} >{self._folder}/cgroup.procs")

    def milliseconds(self) -> float:
        found = re.search("usage_usec ([0-9]+)", self._xen.dom0(f"cat {self._folder}/cpu.stat"))
        assert found
        return int(found[1]) / 1000

    def of(self, scrape: Callable[[], object]) -> float:
        """Milliseconds that a scrape takes."""
        before = self.milliseconds()
        scrape()
        return self.milliseconds() - before


@dataclass(frozen=True)
class Dom0Sshd:
    """Dom0's sshd, the account of all that it starts, and the client's files to come in with the forced command."""

    folder: Path
    account: Account


@pytest.fixture(scope="module")
def sshd(xen: XenHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dom0Sshd]:
    """Started with the line in authorized_keys as docs/agentless.md has it made."""
    folder = tmp_path_factory.mktemp("ssh")
    account = Account(xen, "sshd")
    with sshd_in(xen, folder, authorized_key.line, root="forced-commands-only", first=account.enter):
        yield Dom0Sshd(folder, account)


@pytest.fixture
def over_ssh(sshd: Dom0Sshd) -> Iterator[Callable[[], Page]]:
    """A scrape by ssh-exporter here; in emulation, a new connection may take longer than ssh waits for it."""
    (sshd.folder / "hosts").write_text("dom0\n")
    flags = (f"--hosts.file={sshd.folder}/hosts", f"--ssh.config.file={sshd.folder}/config", "--xl.interval=5s")
    environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    with RunningExporter(sshd.folder, *flags, environment=environment, package="virtscope.ssh") as exporter:

        def probe() -> tuple[int, str]:
            url = "/probe?module=xen&target=dom0"
            answer = exporter.get(url, timeout=60, X_Prometheus_Scrape_Timeout_Seconds="50")
            return answer.status_code, answer.text

        def page() -> Page:
            status, text = wait_for(probe, CONNECTION_SECONDS, every=1, until=lambda answer: answer[0] != 503)
            assert status == 200, text
            return Page.parse(text)

        yield page


@pytest.fixture(scope="module")
def inside(xen: XenHost) -> Iterator[SecondExporter]:
    """xentop-exporter in Dom0, whose source is xentop's text too."""
    with second_exporter_in(xen, "--source=xentop --xl.interval=5s") as exporter:
        yield exporter


def wait_for_xl(read: Callable[[], Page]) -> None:
    """Return once all guests have what xl knows of them."""
    weight = "xen_domain_scheduler_weight"
    wait_for(read, XL_SECONDS, every=1, until=lambda page: all(page.all(weight, domain=guest.name) for guest in GUESTS))


def shown(page: Page) -> Series:
    """All but what the exporter says about itself."""
    return {key: value for key, value in page.series().items() if not OF_ITSELF.match(key[0])}


def of_guests(series: Series) -> Series:
    names = {guest.name for guest in GUESTS}
    return {key: value for key, value in series.items() if names & set(dict(key[1]).values())}


def test_the_same_metrics_and_values_as_on_the_host(
    xen: XenHost, over_ssh: Callable[[], Page], inside: SecondExporter
) -> None:
    wait_for_xl(over_ssh)
    wait_for_xl(inside.page)
    with xen.paused():
        for _ in range(READINGS):
            time.sleep(6)  # until xl and xentop have seen the pause
            before = shown(inside.page_from_now())
            there = shown(over_ssh())
            here = shown(inside.page_from_now())
            if of_guests(before) == of_guests(here):
                break
        else:
            pytest.fail(f"values changed during each of {READINGS} readings")
    assert over_ssh().labels("xentop_source_info", "detail") >= {
        f"ssh:dom0:{xen_host.XENTOP}, networks from {xen_host.NET_DEV}"
    }
    assert there.keys() == here.keys()
    assert of_guests(there) == of_guests(here)
    for name in ("domain_cpu_seconds_total", "domain_network_receive_bytes_total", "domain_scheduler_weight"):
        assert sum(value for key, value in of_guests(there).items() if key[0] == f"xen_{name}"), "zeros prove nothing"


def test_the_key_does_nothing_else(xen: XenHost, sshd: Dom0Sshd) -> None:
    ssh = ["ssh", f"-F{sshd.folder}/config", "-oBatchMode=yes", "dom0", "touch /touched"]
    requests = "touch /touched\nxl pause 1\nxl list -v\n"
    ended = subprocess.run(ssh, input=requests, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    nothing = "unknown 0\n\n0\n\n1\n"
    assert ended.stdout.startswith(f"virtscope 1\n{nothing}{nothing}xl list -v ")
    assert GUESTS[0].name in ended.stdout
    xen.dom0("test ! -e /touched")


def test_what_it_costs_dom0(xen: XenHost, sshd: Dom0Sshd, report: Report) -> None:
    """Beside others there, in turns, the least of each: in emulation times mean nothing, ratios something."""
    xentop_exporter, node_exporter, shell = (
        Account(xen, name) for name in ("xentop-exporter", "node_exporter", "shell")
    )
    xentop_exporter.take(pid_of(xen, "virtscope.xen --web.listen-address=0.0.0.0:10290"))
    xen.machine.put("/node_exporter", Path(programs.path("node_exporter")).read_bytes())
    xen.dom0(
        f"chmod 755 /node_exporter; sh -c '{node_exporter.enter};"
        f" exec setsid /node_exporter --web.listen-address={NODE_EXPORTER}' >/var/log/node_exporter 2>&1 &"
    )
    fetch = f"wget -q -O /dev/null http://{NODE_EXPORTER}/metrics"
    connection = Connection("dom0", ["ssh", f"-F{sshd.folder}/config"], Room())

    def ask(request: str) -> None:
        connection.ask(request, time.monotonic() + 50)

    def connected() -> bool:
        ask("xen")
        return True

    def run(command: str) -> None:
        xen.dom0(f"sh -c '{shell.enter}; exec {command}'")

    measured: dict[str, tuple[Account, Callable[[], object]]] = {
        "node_exporter": (node_exporter, lambda: xen.dom0(fetch)),
        "xentop-exporter, libxenstat": (xentop_exporter, lambda: Page.of(xen.exporter)),
        "xentop over ssh": (sshd.account, lambda: ask(xen_host.XENTOP)),
        "xentop itself": (shell, lambda: run(xen_host.XENTOP)),
        "networks over ssh": (sshd.account, lambda: ask("net")),
        "xl list -v -c over ssh": (sshd.account, lambda: ask("xl list -v -c")),
        "xl list -v -c itself": (shell, lambda: run("xl list -v -c")),
    }
    try:
        xen.dom0(f"for i in $(seq 60); do {fetch} && exit; sleep 1; done; cat /var/log/node_exporter; exit 1", 120)
        wait_for(connected, CONNECTION_SECONDS, every=1, not_yet=(SourceError,))
        rounds = [{name: account.of(scrape) for name, (account, scrape) in measured.items()} for _ in range(ROUNDS)]
    finally:
        connection.close()
        xen.dom0(f"kill {pid_of(xen, '/node_exporter')}; rm /node_exporter")
    least = {name: min(each[name] for each in rounds) for name in measured}
    for name, milliseconds in least.items():
        ratio = milliseconds / least["node_exporter"]
        report(f"CPU of Dom0, {name}: {milliseconds:.0f} ms, {ratio:.2f} times node_exporter's")
    assert all(least.values())


def pid_of(xen: XenHost, command: str) -> str:
    """The process whose command line has this in it."""
    found = xen.dom0("for p in /proc/[0-9]*; do echo ${p#/proc/} $(tr '\\0' ' ' <$p/cmdline); done 2>/dev/null || true")
    [pid] = [line.split()[0] for line in found.splitlines() if command in line and "for p in" not in line]
    return pid
