"""What the rules cost a Prometheus that monitors a fleet: 1,000 hosts with 50 virtual servers each, `make bench-rules`.

A real Prometheus with the shipped rules and alerts scrapes the fleet (bench/fleet.py) over HTTP. It measures how long a
group of rules takes, while scrapes and other groups run; the slowest of several evaluations counts. The target is a
quarter of the group's interval, and a quarter of one CPU for all groups together, as they share the processors.

FLEET_HOSTS sets the number of hosts, FLEET_INTERVAL the time between scrapes and between evaluations;
FLEET_PROMETHEUS=debian uses Debian's release instead of compose.yaml's, which is recommended for such a fleet.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import requests
from prometheus_client.parser import text_string_to_metric_families

from bench.fleet import GUESTS, Fleet
from tests.live import Prometheus

SCRAPE_INTERVAL, EVALUATION_INTERVAL = "15s", "1m"  # as docs/cost.md recommends for such a fleet
BAR = 0.25  # of a group's interval
SETTLE_SECONDS = 200  # until rates cover a minute, and groups with an interval of a minute have been evaluated twice
MEASURE_SECONDS = 120
GROUPS_SHOWN = 10


class Group(NamedTuple):
    """A group of rules: duration of its last evaluation and interval, in seconds."""

    name: str
    took: float
    interval: float

    @property
    def share(self) -> float:
        return self.took / self.interval


def main() -> None:
    """Start the fleet and a Prometheus, let it settle, and print what the rules cost."""
    hosts = int(os.environ.get("FLEET_HOSTS", "1000"))
    scrapes = os.environ.get("FLEET_INTERVAL", SCRAPE_INTERVAL)
    evaluations = os.environ.get("FLEET_INTERVAL", EVALUATION_INTERVAL)
    with (
        Fleet() as fleet,
        tempfile.TemporaryDirectory() as folder,
        Prometheus(
            Path(folder),
            fleet.targets(hosts),
            interval=evaluations,
            scrape_interval=scrapes,
            program="prometheus" if os.environ.get("FLEET_PROMETHEUS") == "debian" else "prometheus3",
        ) as prometheus,
    ):
        version = requests.get(f"{prometheus.url}/api/v1/status/buildinfo", timeout=60).json()["data"]["version"]
        print(
            f"{hosts:,} hosts of {GUESTS} virtual servers, scraped every {scrapes}, rules every {evaluations}; "
            f"Prometheus {version}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before",
            flush=True,
        )
        time.sleep(SETTLE_SECONDS)
        _report(prometheus)


def _report(prometheus: Prometheus) -> None:
    url = prometheus.url
    before, began = _own_metrics(url), time.monotonic()
    slowest: dict[str, Group] = {}
    while time.monotonic() < began + MEASURE_SECONDS:
        for group in _groups(url):
            slowest[group.name] = max(slowest.get(group.name, group), group)
        time.sleep(5)
    after, seconds = _own_metrics(url), time.monotonic() - began

    def per_second(name: str) -> float:
        return (after[name] - before[name]) / seconds

    print(f"  series in memory   {after['prometheus_tsdb_head_series']:12,.0f}")
    print(f"  samples per second {per_second('prometheus_tsdb_head_samples_appended_total'):12,.0f}")
    print(f"  resident           {after['process_resident_memory_bytes'] / 1e9:12.1f} GB")
    print(f"  CPU, scrapes too   {per_second('process_cpu_seconds_total'):12.2f} cores")
    print(f"  load               {os.getloadavg()[0]:12.1f}")
    print(f"  failed scrapes     {len(prometheus.query('up == 0')):12,d} of {len(prometheus.query('up')):,}")
    print(f"  missed evaluations {_missed(after) - _missed(before):12,.0f}")
    print(f"  alerts             {len(prometheus.alerts()):12,d}")
    print(f"  the slowest groups; bar: {BAR:.0%} of the interval")
    for group in sorted(slowest.values(), key=lambda group: -group.share)[:GROUPS_SHOWN]:
        print(f"    {group.name:45}{group.took:8.2f} s of {group.interval:3.0f} s {_judged(group.share)}")
    print(f"    {'all groups together':45}{'':18} {_judged(per_second('prometheus_rule_group_duration_seconds_sum'))}")


def _judged(share: float) -> str:
    return f"{share:6.1%}: {'met' if share <= BAR else 'MISSED'}"


def _own_metrics(url: str) -> dict[str, float]:
    """Return Prometheus's own metrics, summed by name."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(requests.get(f"{url}/metrics", timeout=60).text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0) + sample.value
    return values


def _missed(metrics: Mapping[str, float]) -> float:
    return metrics["prometheus_rule_group_iterations_missed_total"]


def _groups(url: str) -> list[Group]:
    groups = requests.get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"]
    return [Group(f"{Path(of['file']).stem}: {of['name']}", of["evaluationTime"], of["interval"]) for of in groups]


if __name__ == "__main__":
    main()
