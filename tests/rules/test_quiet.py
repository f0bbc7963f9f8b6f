"""Nothing fires on healthy hosts: at any scrape interval, after a gap, after a restart of everything, or while idle.

No ratio is NaN or Inf, which would fire or hide alerts. The hosts are those of test_conformance, one per platform; all
records and alerts are evaluated over them. Firing alerts are tested in each alert's own unit tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy.exporters import FOLDERS
from tests.rules import test_conformance as conformance
from tests.rules.promtool import asks, evaluate
from tests.rules.test_rules import rules_in_order
from tests.support.hosts import Target, Watching, churn, exposed

pytestmark = pytest.mark.timeout(600)

# The stack's own metrics that alerts read; its disk is half full.
_DISK = '{device="/dev/sda1",fstype="ext4",mountpoint="/"}'
_COUNTED = (
    *("rule_evaluation_failures", "rule_group_iterations_missed", "notifications_dropped", "sd_file_read_errors"),
    *("tsdb_wal_writes_failed", "tsdb_compactions_failed"),
)
STACK = {
    "prometheus": [
        "prometheus_config_last_reload_successful 1",
        "prometheus_notifications_alertmanagers_discovered 1",
        *(f"prometheus_{counted}_total ~0" for counted in _COUNTED),
    ],
    "node": [
        f"node_filesystem_avail_bytes{_DISK} 5e10",
        f"node_filesystem_size_bytes{_DISK} 1e11",
        f"node_filesystem_readonly{_DISK} 0",
    ],
    "alertmanager": ["alertmanager_notifications_failed_total ~0", "alertmanager_config_last_reload_successful 1"],
}
HOSTS = [
    *(
        replace(target, lines=[*target.lines, f'{target.job}_source_up{{source="any"}} 1'])
        if target.job in FOLDERS
        else target
        for target in conformance.TARGETS
    ),
    *(Target(job, "stack", "base", lines) for job, lines in STACK.items()),
]
VIRTUALISED = [platform for platform in conformance.NAMES if platform != "base"]
RECORDS = '{__name__=~".+:.+"}'


def named(query: str) -> str:
    """A query whose series have their name as a label, so that `unless` doesn't mix them up."""
    return f'label_replace({query}, "record", "$1", "__name__", "(.+)")'


def assert_quiet(
    folder: Path,
    targets: Sequence[Target],
    watching: Watching,
    evaluation: float,
    tiers: Mapping[str, object],
    *,
    and_also: tuple[str, Sequence[str]],
    allowed: str = "",
) -> None:
    """Fail if an alert fires that isn't allowed, a record isn't finite, or another query isn't 1 for these labels."""
    mapping = folder / "tiers.yml"
    mapping.write_text(yaml.safe_dump(tiers))
    end = f"{watching.seconds}s"
    # In a gap promtool continues evaluating, like a Prometheus with a full disk, but unlike a stopped one.
    right = f"{allowed}|{'SamplesNotStored' if watching.away else ''}"
    wrong = f'ALERTS{{severity!="none", alertname!~"{right}"}}'
    queries: dict[str, Sequence[str]] = {
        f"count by (alertname, host) (count_over_time({wrong}[{end}]))": (),
        f"count by (record) ({named(RECORDS)} unless {named(f'-Inf < {RECORDS} < Inf')})": (),
        and_also[0]: and_also[1],
    }
    evaluate(
        folder / "quiet.yml",
        rules_in_order(mapping),
        interval=watching.interval,
        evaluation=evaluation,
        given=exposed(targets, watching),
        expected=[asks(query, end, dict.fromkeys(labels, 1)) for query, labels in queries.items()],
    )


def idle_and_restarted(seconds: float) -> float:
    """All counters restart after forty minutes, and hosts do a hundredth of their work."""
    return 0.01 * (seconds if seconds < 2400 else seconds - 2400)


@pytest.mark.parametrize(
    ("watching", "evaluation"),
    [
        (Watching(30, 4200, away=[(1800, 2400)], clock=idle_and_restarted), 60),
        (Watching(15, 1920, away=[(900, 1020)]), 15),
        (Watching(15, 1200, clock=lambda _: 0), 30),
    ],
    ids=[
        "idle, scraped twice a minute, all restarted after a gap of ten minutes",
        "busy, Prometheus down for two minutes",
        "nothing moves",
    ],
)
def test_nothing_fires_on_healthy_hosts(tmp_path: Path, watching: Watching, evaluation: float) -> None:
    guests = ("count by (platform) (host:guests:count)", [f'{{platform="{each}"}}' for each in VIRTUALISED])
    assert_quiet(tmp_path, HOSTS, watching, evaluation, conformance.tiers(), and_also=guests)


def test_nothing_fires_while_guests_come_and_go(tmp_path: Path) -> None:
    """Guests of 30 s to an hour start, end, reboot, migrate and share names.

    Meanwhile scrapes fail, once and for a minute and a half, and Prometheus is down for two minutes.
    """
    failed = {
        job: [(600 + 30 * place, 615 + 30 * place), (1200 + 200 * place, 1290 + 200 * place)]
        for place, job in enumerate(["xentop", "vestat", "cadvisor", "node", "kvm"])
    }
    watching = Watching(15, 40 * 60, phase=5, failed=failed, away=[(2040, 2160)])
    hosts = [churn.host(name, seed=2, seconds=watching.seconds) for name in churn.HOSTS]
    targets = [target for host in hosts for target in churn.targets(host)]
    # Some names appear for the third time within an hour, such as those of a build server's jobs.
    right = '{alertname="GuestFlapping"}'
    flapping = (f"group by (alertname) (count_over_time(ALERTS{right}[40m]))", [right])
    assert_quiet(tmp_path, targets, watching, 15, churn.mapping(), and_also=flapping, allowed="GuestFlapping")
