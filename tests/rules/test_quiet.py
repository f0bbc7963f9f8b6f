"""Nothing fires on healthy hosts at any scrape interval, after a gap, after everything restarted, or when all is idle.

And no ratio is NaN or Inf, which would fire or hide alerts. The hosts are those of test_conformance, one of each
platform, here as series for promtool: all records and alerts are evaluated over them. What fires when something is
wrong is in each alert's own unit tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rules import churn
from tests.rules import test_conformance as hosts
from tests.rules.promtool import evaluate
from tests.rules.test_rules import ROOT, RULE_FILES
from tools.exporters import FOLDERS, PLATFORMS

# Promtool evaluates in this order: rules that make records before those that read them.
FIRST = [*PLATFORMS, "openvz_beancounters", "events", "waits", "requests", "derived"]
RECORDS = '{__name__=~".+:.+"}'
LAST = ["alerts/generated", "alerts/rules"]


@dataclass(frozen=True)
class Watching:
    """Seconds between scrapes and between evaluations, then numbers of scrapes before, in and after a gap.

    load: as a share of that of test_conformance's hosts; restarted: after the gap, counters restart from 0.
    """

    scrape: int
    evaluation: int
    before: int
    gap: int
    after: int
    load: float = 1.0
    restarted: bool = False

    def values(self, value: str) -> str:
        """Promtool's values for a line of an exposition of test_conformance, in which `~RATE` is a counter."""
        if not value.startswith("~"):
            return f"{float(value)}x{self.before - 1} _x{self.gap} {float(value)}x{self.after - 1}"
        step = float(value[1:]) * self.load * self.scrape
        start = 0.0 if self.restarted else step * (self.before + self.gap)
        return f"0+{step:.9f}x{self.before - 1} _x{self.gap} {start:.6f}+{step:.9f}x{self.after - 1}"

    @property
    def seconds(self) -> int:
        return self.scrape * (self.before + self.gap + self.after)


def series() -> Iterator[tuple[str, str]]:
    """Each series and its value: of five platforms' exporters, and of Prometheus itself."""
    cgroups = {f"/{hosts.NAMES['cgroup'][server]}": hosts.SERVERS[server] for server in hosts.GUESTS}
    guests = {hosts.KVM_CGROUPS[server]: hosts.SERVERS[server] for server in hosts.GUESTS}
    feeds = [
        ("xentop", hosts.xentop(), "xen", "xen", ""),
        ("perf", hosts.perf(hosts.HOST), "xen", "xen", ""),
        *(("guest", hosts.perf(hosts.SERVERS[name]), "xen", "xen", name) for name in hosts.GUESTS),
        ("kvm", hosts.kvm(), "kvm", "kvm", ""),
        ("perf", hosts.perf(hosts.MACHINE, guests), "kvm", "kvm", ""),
        ("sched", hosts.sched(hosts.KVM_CGROUPS), "kvm", "kvm", ""),
        ("vestat", hosts.vestat(), "openvz", "openvz", ""),
        ("node", hosts.node(hosts.MACHINE), "openvz", "openvz", ""),
        ("cadvisor", hosts.cadvisor(), "cgroup", "cgroup", ""),
        ("node", hosts.node(hosts.MACHINE), "cgroup", "base", ""),
        ("perf", hosts.perf(hosts.MACHINE, cgroups), "cgroup", "base", ""),
        (
            "sched",
            hosts.sched({name: f"/{hosts.NAMES['cgroup'][name]}" for name in hosts.GUESTS}),
            "cgroup",
            "base",
            "",
        ),
        ("node", hosts.node(hosts.MACHINE), "base", "base", ""),
        ("perf", hosts.perf(hosts.MACHINE), "base", "base", ""),
        *(("telegraf", hosts.sensor(), platform, platform, "") for platform in hosts.NAMES),
        ("prometheus", prometheus(), "stack", "base", ""),
        ("node", stack_node(), "stack", "base", ""),
        (
            "alertmanager",
            iter(["alertmanager_notifications_failed_total ~0", "alertmanager_config_last_reload_successful 1"]),
            "stack",
            "base",
            "",
        ),
    ]
    for job, feed, host, platform, guest in feeds:
        target = f'host="{host}",platform="{platform}",vserver="{guest}",job="{job}",instance="{guest or host}/{job}"'
        yield f"up{{{target}}}", "1"
        if job in FOLDERS:
            yield f'{job}_source_up{{{target},source="any"}}', "1"
        for line in feed:
            name, value = line.rsplit(" ", 1)
            metric, _, labels = name.removesuffix("}").partition("{")
            yield f"{metric}{{{target}{',' if labels else ''}{labels}}}".replace('app="shop"', 'app="auction-1"'), value


def prometheus() -> Iterator[str]:
    """Metrics of the stack itself that alerts read."""
    yield "prometheus_config_last_reload_successful 1"
    yield "prometheus_notifications_alertmanagers_discovered 1"
    for counted in (
        "rule_evaluation_failures",
        "rule_group_iterations_missed",
        "notifications_dropped",
        "sd_file_read_errors",
        "tsdb_wal_writes_failed",
        "tsdb_compactions_failed",
    ):
        yield f"prometheus_{counted}_total ~0"


def stack_node() -> Iterator[str]:
    """Metrics of node_exporter on Prometheus's machine: its disk is half full."""
    disk = '{device="/dev/sda1",fstype="ext4",mountpoint="/"}'
    yield f"node_filesystem_avail_bytes{disk} 5e10"
    yield f"node_filesystem_size_bytes{disk} 1e11"
    yield f"node_filesystem_readonly{disk} 0"


def rank(file: Path) -> tuple[int, str]:
    folder = str(file.parent.relative_to(ROOT))
    if folder in LAST:
        return len(FIRST) + 1 + LAST.index(folder), file.stem
    return FIRST.index(file.stem) if file.stem in FIRST else len(FIRST), file.stem


def named(query: str) -> str:
    """A query whose series have their name as a label, so that `unless` doesn't mix them up."""
    return f'label_replace({query}, "record", "$1", "__name__", "(.+)")'


@pytest.mark.parametrize(
    "watching",
    [
        Watching(scrape=30, evaluation=60, before=60, gap=20, after=60, load=0.01, restarted=True),
        Watching(scrape=15, evaluation=15, before=60, gap=8, after=60),
        Watching(scrape=15, evaluation=30, before=60, gap=0, after=20, load=0),
    ],
    ids=[
        "idle, scraped twice a minute, all restarted after a gap of ten minutes",
        "busy, Prometheus down for two minutes",
        "nothing moves",
    ],
)
@pytest.mark.timeout(300)
def test_nothing_fires_on_healthy_hosts(tmp_path: Path, watching: Watching) -> None:
    files = sorted(RULE_FILES, key=rank)
    end = f"{watching.seconds}s"
    # In the gap promtool goes on evaluating, as a Prometheus with a full disk would, but not one that is down.
    wrong = 'ALERTS{severity!="none", alertname!="SamplesNotStored"}' if watching.gap else 'ALERTS{severity!="none"}'
    expected: list[dict[str, Any]] = [
        {"expr": f"count by (alertname, host) (count_over_time({wrong}[{end}]))", "eval_time": end},
        # And the rules had data to evaluate.
        {
            "expr": "count by (platform) (host:guests:count)",
            "eval_time": end,
            "exp_samples": [{"labels": f'{{platform="{platform}"}}', "value": 1} for platform in hosts.VIRTUALISED],
        },
        {"expr": f"count by (record) ({named(RECORDS)} unless {named(f'-Inf < {RECORDS} < Inf')})", "eval_time": end},
    ]
    given = [(name, watching.values(value)) for name, value in series()]
    evaluate(
        tmp_path / "quiet.yml",
        files,
        interval=watching.scrape,
        evaluation=watching.evaluation,
        given=given,
        expected=expected,
    )


# Some names appear for the third time within an hour, such as those of a build server's jobs.
RIGHT_UNDER_CHURN = "GuestFlapping"


@pytest.mark.timeout(600)
def test_nothing_fires_while_guests_come_and_go(tmp_path: Path) -> None:
    """Guests of 30 s to an hour start, end, reboot, migrate and share names.

    Meanwhile scrapes fail, once and for a minute and a half, and Prometheus is down for two minutes.
    """
    watching = churn.Watching(
        15,
        40 * 60,
        phase=5,
        failed={
            job: [(600 + 30 * place, 615 + 30 * place), (1200 + 200 * place, 1290 + 200 * place)]
            for place, job in enumerate(["xentop", "vestat", "cadvisor", "node", "kvm"])
        },
        away=[(2040, 2160)],
    )
    hosts_of_churn = [churn.host(name, seed=2, seconds=watching.seconds) for name in churn.HOSTS]
    mapping = tmp_path / "churn.yml"
    mapping.write_text(yaml.safe_dump(churn.mapping()))
    files = [mapping, *sorted(RULE_FILES, key=rank)]
    end = f"{watching.seconds}s"
    wrong = f'ALERTS{{severity!="none", alertname!~"SamplesNotStored|{RIGHT_UNDER_CHURN}"}}'
    expected: list[dict[str, Any]] = [
        {"expr": f"count by (alertname, host) (count_over_time({wrong}[{end}]))", "eval_time": end},
        {
            "expr": f'group by (alertname) (count_over_time(ALERTS{{alertname="{RIGHT_UNDER_CHURN}"}}[{end}]))',
            "eval_time": end,
            "exp_samples": [{"labels": f'{{alertname="{RIGHT_UNDER_CHURN}"}}', "value": 1}],
        },
        {"expr": f"count by (record) ({named(RECORDS)} unless {named(f'-Inf < {RECORDS} < Inf')})", "eval_time": end},
    ]
    given = [series for host in hosts_of_churn for series in churn.exposed(host, watching)]
    evaluate(
        tmp_path / "quiet.yml",
        files,
        interval=watching.interval,
        evaluation=watching.scrape,
        given=given,
        expected=expected,
    )
