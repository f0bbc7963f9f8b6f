"""Cost of perf-exporter's counters: on large simulated machines, and here compared with other programs."""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack

from deploy import programs
from tests.proofs.bench import scraping
from tests.support.ports import free_port

BAR = 0.01  # of a core, for 64 CPUs scraped every second
LARGE = ((64, 0), (64, 50))  # CPUs and cgroups
ROUNDS = 5
SOFTWARE = "task-clock,context-switches,cpu-migrations,page-faults"
SECONDS = 10
_PERF_EXPORTER = "import bench; from virtscope.perf.exporter import main; main()"  # bench sets the path of virtscope


def measure() -> None:
    """Print both tables."""
    _large_machines()
    _this_machine()


def _large_machines() -> None:
    print(
        "\nCounters on a simulated kernel, the five default groups (18 events); the exporter's CPU per scrape"
        f"\nBar: {BAR:.0%} of a core for 64 CPUs, scraped every second"
        "\n    CPUs  cgroups   series  ms per scrape  of a core"
    )
    for cpus, cgroups in LARGE:
        target = scraping.Target([sys.executable, "-m", "tests.proofs.bench.fake_counters", str(cpus), str(cgroups)])
        try:
            seconds = min(target.cpu_seconds_per_scrape(20) for _ in range(ROUNDS))
        finally:
            target.stop()
        verdict = "" if cgroups else f"   {'met' if seconds <= BAR else 'MISSED'}"
        print(f"{cpus:8}{cgroups:9}{target.series:9,}{seconds * 1e3:15.2f}{seconds:11.2%}{verdict}")


def _this_machine() -> None:
    print(
        f"\nCounters of this machine's {os.cpu_count()} CPUs, for its events; CPU per scrape, for perf per second"
        "\n  program                                  series        ms"
    )
    with ExitStack() as running:
        targets = {
            "perf-exporter": scraping.Target(
                [sys.executable, "-c", _PERF_EXPORTER, *_listen(port := free_port())], port
            ),
            "node_exporter --collector.perf": scraping.Target(
                [
                    str(programs.path("node_exporter")),
                    "--collector.disable-defaults",
                    "--collector.perf",
                    *_listen(port := free_port()),
                ],
                port,
            ),
        }
        for target in targets.values():
            running.callback(target.stop)
        least = dict.fromkeys(targets, float("inf"))
        for _ in range(ROUNDS):
            for name, target in targets.items():
                least[name] = min(least[name], target.cpu_seconds_per_scrape(10))
    for name, target in targets.items():
        print(f"  {name:38}{target.series:9,}{least[name] * 1e3:10.2f}")
    if shutil.which("perf"):
        print(f"  perf stat -a -I 1000 -e ...{'':20}{_perf_stat() * 1e3:10.2f}")
    else:
        print("  perf stat: no perf here (apt-get install linux-perf)")


def _perf_stat() -> float:
    """CPU seconds per second of `perf stat -I 1000`, without its start and end."""
    costs = []
    for seconds in (1, 1 + SECONDS):
        command = ["perf", "stat", "-a", "-A", "-I", "1000", "-e", SOFTWARE, "-x,", "--interval-count", str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        costs.append(usage.ru_utime + usage.ru_stime)
    return max(costs[1] - costs[0], 0.0) / SECONDS


def _listen(port: int) -> list[str]:
    return [f"--web.listen-address=127.0.0.1:{port}"]
