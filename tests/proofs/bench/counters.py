"""Cost of perf-exporter's counters: on large simulated machines, and here compared with other programs."""

import os
import shutil
from contextlib import ExitStack

from tests.proofs.bench import scraping

BAR = 0.01  # of a core, for 64 CPUs scraped every second
LARGE = ((64, 0), (64, 50))  # CPUs and cgroups
ROUNDS = 5
SOFTWARE = "task-clock,context-switches,cpu-migrations,page-faults"
SECONDS = 10


def measure() -> None:
    """Print both tables."""
    print(
        "\nCounters on a simulated kernel, the five default groups (18 events); the exporter's CPU per scrape"
        f"\nBar: {BAR:.0%} of a core for 64 CPUs, scraped every second"
        "\n    CPUs  cgroups   series  ms per scrape  of a core"
    )
    for cpus, cgroups in LARGE:
        with scraping.python_server("counters", cpus, cgroups) as target:
            [seconds] = scraping.in_turns([target], ROUNDS, 20)
        verdict = "" if cgroups else f"   {scraping.verdict(seconds, BAR)}"
        print(f"{cpus:8}{cgroups:9}{target.series:9,}{seconds * 1e3:15.2f}{seconds:11.2%}{verdict}")
    print(
        f"\nCounters of this machine's {os.cpu_count()} CPUs, for its events; CPU per scrape, for perf per second"
        "\n  program                                  series        ms"
    )
    with ExitStack() as running:
        targets = {
            "perf-exporter": running.enter_context(scraping.exporter("perf")),
            "node_exporter --collector.perf": running.enter_context(
                scraping.node_exporter("--collector.disable-defaults", "--collector.perf")
            ),
        }
        costs = scraping.in_turns(list(targets.values()), ROUNDS, 10)
    for (name, target), seconds in zip(targets.items(), costs, strict=True):
        print(f"  {name:38}{target.series:9,}{seconds * 1e3:10.2f}")
    if shutil.which("perf"):
        print(f"  perf stat -a -I 1000 -e ...{'':20}{_perf_stat() * 1e3:10.2f}")
    else:
        print("  perf stat: no perf here (apt-get install linux-perf)")


def _perf_stat() -> float:
    """CPU seconds per second of `perf stat -I 1000`, without its start and end."""
    command = ["perf", "stat", "-a", "-A", "-I", "1000", "-e", SOFTWARE, "-x,", "--interval-count"]
    start, whole = (scraping.cpu_seconds_of([*command, str(seconds)]) for seconds in (1, 1 + SECONDS))
    return max(whole - start, 0.0) / SECONDS
