"""Hosts over ssh: cost of a scrape on the watched host and on the monitor, compared with an exporter on the host."""

import os
import shutil
import tempfile
from pathlib import Path

from tests.proofs.bench import scraping
from tests.proofs.bench.containers import Containers
from tests.ssh.sshd import Sshd, descendants, script
from virtscope.ssh import authorized_key

SCRAPES = {10: 40, 100: 40, 1_000: 10}  # by containers; CPU clocks of ended processes have 10 ms resolution
SHELLS = ("/bin/dash", "/bin/bash", "/bin/busybox sh")
ROUNDS = 3  # the cheapest counts
BUSY = 0.3  # share of containers whose usage changes between two scrapes


def measure() -> None:
    """Print the table."""
    print(
        "\nOpenVZ over ssh: CPU ms per scrape, of the watched host (sshd and all that it starts) by its shell, and of"
        "\nthe monitoring one (ssh-exporter and ssh); beside vestat-exporter on the host, and node_exporter"
    )
    if not shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        print("  sshd is absent: apt-get install openssh-server")
        return
    with scraping.node_exporter() as node:
        [beside] = scraping.in_turns([node], ROUNDS, SCRAPES[10])
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
            hosts, config = f"--hosts.file={folder}/hosts", f"--ssh.config.file={sshd.config}"
            probe = "/probe?module=openvz&target=vz"
            with (
                scraping.exporter("ssh", hosts, config, "--vzlist.interval=0", path=probe) as over_ssh,
                scraping.exporter("openvz", f"--path.procfs={host.procfs}", "--vzlist.interval=0") as local,
            ):

                def used() -> tuple[float, float, float]:
                    client = scraping.cpu_seconds(descendants(over_ssh.pid))
                    return scraping.cpu_seconds(sshd.pids()), over_ssh.cpu_seconds() + client, local.cpu_seconds()

                rounds = []
                for _ in range(ROUNDS):
                    before = used()
                    for _ in range(SCRAPES[count]):
                        host.run_on(BUSY)
                        over_ssh.scrape_anew()
                        local.scrape_anew()
                    rounds.append([after - first for first, after in zip(before, used(), strict=True)])
    watched, monitoring, exporter = (min(costs) / SCRAPES[count] for costs in zip(*rounds, strict=True))
    print(
        f"{count:7,}  {shell.split('/')[2]:11}{watched * 1e3:10.1f}{watched / node:14.1f}{watched / exporter:13.1f}"
        f"{monitoring * 1e3:12.1f}{exporter * 1e3:17.1f}"
    )


if __name__ == "__main__":
    measure()
