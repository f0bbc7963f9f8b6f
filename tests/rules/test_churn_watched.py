"""While guests come and go, a real Prometheus with prometheus.yml records the CPU time that was really used.

Only as long as averages over five minutes need; test_churn covers more time, with promtool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import mean
from typing import Any

import pytest
import yaml

from tests.rules import churn
from tests.support import Exposition, Prometheus

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 90  # a rate is over a minute, in which a busy machine may have scraped late
FIVE_MINUTES = 300.0
OF_FIVE_MINUTES = 0.05
WATCHED = FIVE_MINUTES + 60  # five-minute windows end during one minute


@dataclass(frozen=True)
class Coming:
    """Hosts whose guests have been coming and going for some minutes, and when that began."""

    prometheus: Prometheus
    hosts: list[churn.Host]
    begun: float


@pytest.fixture(scope="module")
def coming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coming]:
    seconds = churn.MINUTE + WATCHED + PATIENCE_SECONDS
    hosts = [churn.host(name, seed=1, seconds=seconds) for name in churn.HOSTS]
    begun = time.time()

    def page(series: list[churn.Series]) -> Callable[[], str]:
        def at_this_scrape() -> str:
            at = time.time() - begun
            values = ((each.name, each.value(at)) for each in series)
            return "".join(f"{name} {value:.6f}\n" for name, value in values if value is not None)

        return at_this_scrape

    with ExitStack() as stack:
        jobs: dict[str, list[dict[str, Any]]] = {}
        for host in hosts:
            targets: dict[tuple[str, str], list[churn.Series]] = {}
            for series in churn.all_series(host):
                targets.setdefault((series.job, series.platform), []).append(series)
            for (job, platform), series_of in targets.items():
                exporter = stack.enter_context(Exposition(page(series_of)))
                jobs.setdefault(job, []).append(exporter.group(host.name, platform))
        prometheus = Prometheus(tmp_path_factory.mktemp("churn"), jobs, interval="5s")
        (prometheus.folder / "alerts/generated/churn.yml").write_text(yaml.safe_dump(churn.mapping()))
        stack.enter_context(prometheus)
        prometheus.wait_for("count(app:cpu_usage:rate) == 10", seconds=PATIENCE_SECONDS)
        # The first rates cover less than a minute.
        time.sleep(churn.MINUTE + WATCHED)
        yield Coming(prometheus, hosts, begun)


@pytest.mark.parametrize("name", churn.HOSTS)
def test_recorded_cpu_is_what_was_used_in_any_five_minutes(coming: Coming, name: str) -> None:
    """For the host, its guests and its applications, and for the host's overhead."""
    (host,) = (host for host in coming.hosts if host.name == name)
    means = {}
    for truth in churn.truths(host):
        labels = ",".join(f'{label}="{value}"' for label, value in truth.labels.items())
        (series,) = coming.prometheus.query(f"{truth.record}{{{labels}}}[{WATCHED:.0f}s]")
        samples = [(float(at), float(value)) for at, value in series["values"]]
        assert samples[-1][0] - samples[0][0] > WATCHED - 20
        means[truth.record, truth.labels.get("app")] = [
            (
                mean(value for _, value in samples[first:last]),
                mean(truth.minute(at - coming.begun) for at, _ in samples[first:last]),
            )
            for first, last in five_minutes([at for at, _ in samples])
        ]
    used, overhead = means["host:cpu_usage:rate", None], means.get(("host:overhead_cpu:rate", None))
    if overhead is not None:
        # A ratio over time is a sum divided by a sum.
        means["host:overhead:ratio", None] = [
            (part[0] / whole[0], part[1] / whole[1]) for part, whole in zip(overhead, used, strict=True)
        ]
    worst = {key: max(abs(recorded / true - 1) for recorded, true in pairs) for key, pairs in means.items()}
    assert {key: off for key, off in worst.items() if off > OF_FIVE_MINUTES} == {}


def five_minutes(times: Sequence[float]) -> Iterator[tuple[int, int]]:
    """The first index and the end of each run of samples that covers five minutes."""
    for first, begin in enumerate(times):
        last = next((place for place, at in enumerate(times) if at >= begin + FIVE_MINUTES), None)
        if last is None:
            return
        yield first, last


def test_no_alert_fires_on_hosts_whose_guests_come_and_go(coming: Coming) -> None:
    """Except for names that appear for the third time within an hour, such as those of a build server's jobs."""
    fired = 'ALERTS{alertstate="firing", severity!="none", host!="", alertname!="GuestFlapping"}'
    assert coming.prometheus.query(f"count by (alertname, host) (count_over_time({fired}[15m]))") == []
