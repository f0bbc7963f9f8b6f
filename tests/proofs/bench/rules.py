"""Cost of the rules in a Prometheus that monitors a fleet: 1,000 hosts with 50 virtual servers each, `make
bench-rules`.

A real Prometheus with the shipped rules and alerts scrapes the fleet (fleet.py) over HTTP. Measured is the duration of
each rule group while scrapes and other groups run; the slowest of several evaluations counts. The bar is 15 % of the
group's interval.

All groups share the processors; the bar for their sum is 0.35 of one CPU. It is the CPU of Prometheus minus that of one
without rules that scrapes the same fleet, so it includes garbage collection, also for the records, and storing records.
The sum of the groups' durations is shown next to it. It is no CPU time: groups also wait for a processor, and it lacks
work done between evaluations.

Beside it, on the same machine: rules that only copy, one record for each series of virtual servers; and
with FLEET_PEER=FILE another project's rules over 1,000 nodes of 50 pods. In a checkout of kubernetes-mixin, those are

    jsonnet -S -e 'std.manifestYamlDoc(((import "config.libsonnet") + (import "rules/apps.libsonnet") +
      {_config+:: {cadvisorSelector: "job=\\"kubelet\\""}}).prometheusRules)'

FLEET_HOSTS sets the number of hosts, FLEET_INTERVAL the time between scrapes and between evaluations; FLEET_DENSE=1
adds a KVM and a Xen host with 1,000 guests and 300,000 series each; FLEET_PROMETHEUS=debian uses Debian's release
instead of compose.yaml's, which is recommended for such a fleet.
"""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import requests
import yaml

from tests.proofs.bench.fleet import GUESTS, Fleet, cadvisor, kvm, vestat, xentop
from tests.support import Prometheus
from tests.support.pages import Page

SCRAPE_INTERVAL, EVALUATION_INTERVAL = "15s", "1m"  # recommended in docs/cost.md for such a fleet
GROUP_BAR = 0.15  # of its interval
BAR = 0.35  # of one CPU, for all of them
SETTLE_SECONDS = 200  # until rates cover a minute, and groups with an interval of a minute have been evaluated twice
MEASURE_SECONDS = 180  # a dozen garbage collections, so that one more or less hardly matters
GROUPS_SHOWN = 10
RULES_SHOWN = 20
MISSED = "prometheus_rule_group_iterations_missed_total"


class Group(NamedTuple):
    """A group of rules: duration of its last evaluation and interval, in seconds."""

    name: str
    took: float
    interval: float

    @property
    def share(self) -> float:
        return self.took / self.interval


class Rule(NamedTuple):
    """A rule by group, position and name, and the seconds of its last evaluation."""

    group: str
    place: int
    name: str
    took: float


def main() -> None:
    """Print the cost of scraping the fleet without rules, with ours, and with others."""
    hosts = int(os.environ.get("FLEET_HOSTS", "1000"))
    scrapes = os.environ.get("FLEET_INTERVAL", SCRAPE_INTERVAL)
    evaluations = os.environ.get("FLEET_INTERVAL", EVALUATION_INTERVAL)
    dense = bool(os.environ.get("FLEET_DENSE"))
    peer = os.environ.get("FLEET_PEER")

    @contextlib.contextmanager
    def settled(targets: dict[str, list[dict[str, Any]]], rules: Sequence[Path] | None) -> Iterator[Prometheus]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Prometheus(
                Path(folder),
                targets,
                interval=evaluations,
                scrape_interval=scrapes,
                program="prometheus" if os.environ.get("FLEET_PROMETHEUS") == "debian" else "prometheus3",
                rules=rules,
                jobs=[job for job in ("kubelet", "kube-state-metrics") if job in targets],
            ) as prometheus,
        ):
            time.sleep(SETTLE_SECONDS)
            yield prometheus

    load = os.getloadavg()[0]
    with Fleet(with_dense_hosts=dense) as fleet, tempfile.TemporaryDirectory() as folder:
        print(
            f"{hosts:,} hosts of {GUESTS} virtual servers{' and two dense ones' if dense else ''}, "
            f"scraped every {scrapes}, rules every {evaluations}; {os.cpu_count()} CPUs, load {load:.1f} before",
            flush=True,
        )
        copies = Path(folder) / "copies.yml"
        copies.write_text(yaml.safe_dump(copying()))
        runs: list[tuple[str, dict[str, list[dict[str, Any]]], list[Path] | None]] = [
            ("no rules", fleet.targets(hosts), []),
            ("virtscope's rules", fleet.targets(hosts), None),
            ("rules that copy", fleet.targets(hosts), [copies]),
        ]
        if peer:
            runs += [("pods, no rules", fleet.nodes(hosts), []), (f"pods, {peer}", fleet.nodes(hosts), [Path(peer)])]
        without: float | None = None
        for what, targets, rules in runs:
            with settled(targets, rules) as prometheus:
                print(what)
                cpu = _report(prometheus, with_rules=rules != [])
            if rules == []:
                without = cpu
            elif without is not None:
                judged = _judged(cpu - without, BAR) if rules is None else f"{cpu - without:6.1%}"
                print(f"  CPU, without that of scrapes {judged}", flush=True)


def copying() -> dict[str, Any]:
    """Rules that record each series of virtual servers as it is, without OpenVZ's beancounters.

    As many groups as the vocabulary has, each of an exporter.
    """
    groups = []
    for page in (xentop, kvm, vestat, cadvisor):
        names = sorted({re.split("[{ ]", line)[0] for line in page()} - {"openvz_beancounter_failures_total"})
        rules = [{"record": f"copy:{name}", "expr": name} for name in names]
        groups.append({"name": page.__name__, "rules": rules})
    return {"groups": groups}


def _report(prometheus: Prometheus, *, with_rules: bool) -> float:
    """Print the cost of Prometheus, groups and rules; return its CPU per second."""
    url = prometheus.url
    address = url.removeprefix("http://")
    before, began = Page.of(address), time.monotonic()
    slowest: dict[str, Group] = {}
    slowest_rules: dict[tuple[str, int], Rule] = {}
    while time.monotonic() < began + MEASURE_SECONDS:
        groups, rules = _groups_and_rules(url)
        for group in groups:
            slowest[group.name] = max(slowest.get(group.name, group), group)
        for rule in rules:
            key = (rule.group, rule.place)
            slowest_rules[key] = max(slowest_rules.get(key, rule), rule)
        time.sleep(5)
    after, seconds = Page.of(address), time.monotonic() - began

    def per_second(name: str) -> float:
        return (after.total(name) - before.total(name)) / seconds

    version = requests.get(f"{url}/api/v1/status/buildinfo", timeout=60).json()["data"]["version"]
    print(f"  Prometheus         {version:>12}")
    print(f"  series in memory   {after.total('prometheus_tsdb_head_series'):12,.0f}")
    print(f"  samples per second {per_second('prometheus_tsdb_head_samples_appended_total'):12,.0f}")
    print(f"  resident           {after.total('process_resident_memory_bytes') / 1e9:12.1f} GB")
    print(f"  CPU                {per_second('process_cpu_seconds_total'):12.2f} cores")
    print(f"  load               {os.getloadavg()[0]:12.1f}")
    print(f"  failed scrapes     {len(prometheus.query('up == 0')):12,d} of {len(prometheus.query('up')):,}")
    if not with_rules:
        return per_second("process_cpu_seconds_total")
    print(f"  records            {after.total('prometheus_rule_group_last_evaluation_samples'):12,.0f}")
    print(f"  missed evaluations {after.total(MISSED) - before.total(MISSED):12,.0f}")
    print(f"  alerts             {len(prometheus.alerts()):12,d}")
    print(f"  the slowest groups; bar: {GROUP_BAR:.0%} of the interval")
    for group in sorted(slowest.values(), key=lambda group: -group.share)[:GROUPS_SHOWN]:
        print(f"    {group.name:45}{group.took:8.2f} s of {group.interval:3.0f} s {_judged(group.share, GROUP_BAR)}")
    print("  the slowest rules, by their places in their groups; those of a group may be evaluated at the same time")
    for rule in sorted(slowest_rules.values(), key=lambda rule: -rule.took)[:RULES_SHOWN]:
        print(f"    {rule.group:45}{rule.took:8.2f} s {rule.place:4d} {rule.name}", flush=True)
    print(f"  sum of durations   {per_second('prometheus_rule_group_duration_seconds_sum'):12.1%}")
    return per_second("process_cpu_seconds_total")


def _judged(share: float, bar: float) -> str:
    return f"{share:6.1%}: {'met' if share <= bar else 'MISSED'}"


def _groups_and_rules(url: str) -> tuple[list[Group], list[Rule]]:
    groups, rules = [], []
    for of in requests.get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"]:
        name = f"{Path(of['file']).stem}: {of['name']}"
        groups.append(Group(name, of["evaluationTime"], of["interval"]))
        rules += [Rule(name, place, rule["name"], rule["evaluationTime"]) for place, rule in enumerate(of["rules"])]
    return groups, rules


if __name__ == "__main__":
    main()
