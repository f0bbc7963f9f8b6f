"""Hosts over ssh: cost of a scrape on the watched host and on the monitor, compared with an exporter on the host."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy import programs
from tests.proofs.bench import CHECKOUT
from tests.proofs.bench.containers import Containers
from tests.proofs.bench.scraping import Target, node_exporter
from tests.ssh.sshd import Sshd, descendants, script
from tests.support.ports import free_port
from virtscope.ssh import authorized_key

SCRAPES = {10: 40, 100: 40, 1_000: 10}  # by containers; CPU clocks of ended processes have 10 ms resolution
SHELLS = ("/bin/dash", "/bin/bash", "/bin/busybox sh")
ROUNDS = 3  # the cheapest counts
BUSY = 0.3  # share of containers whose usage changes between two scrapes

_TICKS = os.sysconf("SC_CLK_TCK")


def measure() -> None:
    """Print the table."""
    print(
        "\nOpenVZ over ssh: CPU ms per scrape, of the watched host (sshd and all that it starts) by its shell, and of"
        "\nthe monitoring one (ssh-exporter and ssh); beside vestat-exporter on the host, and node_exporter"
    )
    if not shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        print("  sshd is absent: apt-get install openssh-server")
        return
    node = node_exporter(programs.path("node_exporter"))
    beside = min(node.cpu_seconds_per_scrape(SCRAPES[10]) for _ in range(ROUNDS))
    node.stop()
    print(f"  node_exporter: {beside * 1e3:.1f} ms")
    print(" guests  shell        the host  times node's  times local  monitoring  vestat-exporter")
    for count in SCRAPES:
        for shell in SHELLS:
            if shutil.which(shell.split()[0]):
                _measure(count, shell, beside)


def _measure(count: int, shell: str, node: float) -> None:
    with tempfile.TemporaryDirectory(prefix="virtscope-bench-") as name:
        folder = Path(name)
        host = Containers(folder / "proc", count)
        with Sshd(folder) as sshd:
            sshd.add_host("vz", authorized_key.command(script(host.procfs), shell))
            (folder / "hosts").write_text("vz\n")
            over_ssh = _start(
                "virtscope.ssh",
                f"--hosts.file={folder}/hosts",
                f"--ssh.config.file={sshd.config}",
                "--vzlist.interval=0",
                path="/probe?module=openvz&target=vz",
            )
            local = _start("virtscope.openvz", f"--path.procfs={host.procfs}", "--vzlist.interval=0")
            there, here, beside = [], [], []
            for _ in range(ROUNDS):
                before = (
                    _ticks(sshd.pids()),
                    _ticks(descendants(over_ssh.pid)),
                    over_ssh.cpu_seconds(),
                    local.cpu_seconds(),
                )
                for _ in range(SCRAPES[count]):
                    host.run_on(BUSY)
                    over_ssh.scrape_anew()
                    local.scrape_anew()
                there.append((_ticks(sshd.pids()) - before[0]) / SCRAPES[count])
                client = _ticks(descendants(over_ssh.pid)) - before[1]
                here.append((over_ssh.cpu_seconds() - before[2] + client) / SCRAPES[count])
                beside.append((local.cpu_seconds() - before[3]) / SCRAPES[count])
            over_ssh.stop()
            local.stop()
    watched, monitoring, exporter = min(there), min(here), min(beside)
    print(
        f"{count:7,}  {shell.split('/')[2]:11}{watched * 1e3:10.1f}{watched / node:14.1f}{watched / exporter:13.1f}"
        f"{monitoring * 1e3:12.1f}{exporter * 1e3:17.1f}"
    )


def _start(module: str, *flags: str, path: str = "/metrics") -> Target:
    port = free_port()
    command = [sys.executable, "-m", module, f"--web.listen-address=127.0.0.1:{port}", *flags]
    return Target(command, port, {**os.environ, "PYTHONPATH": str(CHECKOUT / "exporters")}, path)


def _ticks(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and their ended children."""
    fields = (Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split() for pid in pids)
    return sum(sum(map(int, of_one[11:15])) for of_one in fields) / _TICKS


if __name__ == "__main__":
    measure()
