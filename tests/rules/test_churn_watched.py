"""While guests come and go, a real Prometheus with prometheus.yml records the CPU time that was really used.

Only as long as averages over five minutes need; test_churn covers more time, with promtool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

from tests.support import Exposition, Prometheus
from tests.support.hosts import Target, churn, series

PATIENCE_SECONDS = 90  # a rate is over a minute, in which a busy machine may have scraped late
FIVE_MINUTES = 300.0
OF_FIVE_MINUTES = 0.05
WATCHED = FIVE_MINUTES + 60  # five-minute windows end during one minute


def page(target: Target, begun: float) -> Callable[[], str]:
    """What it exposes at the time of each scrape."""
    lines = [series(line) if isinstance(line, str) else line for line in target.lines]

    def at_this_scrape() -> str:
        values = ((name, value(time.time() - begun)) for name, value in lines)
        return "".join(f"{name} {value:.6f}\n" for name, value in values if value is not None)

    return at_this_scrape


@pytest.mark.long
@pytest.mark.timeout(900)
def test_recorded_cpu_is_what_was_used_in_any_five_minutes_and_no_alert_fires(tmp_path: Path) -> None:
    """For hosts, their guests and applications, and for their overhead.

    Only GuestFlapping may fire: names appear for the third time within an hour, such as those of a build server's jobs.
    """
    hosts = [churn.host(name, seed=1, seconds=churn.MINUTE + WATCHED + PATIENCE_SECONDS) for name in churn.HOSTS]
    begun = time.time()
    with ExitStack() as stack:
        jobs: dict[str, list[dict[str, Any]]] = {}
        for target in (target for host in hosts for target in churn.targets(host)):
            exporter = stack.enter_context(Exposition(page(target, begun)))
            jobs.setdefault(target.job, []).append(exporter.group(target.host, target.platform))
        prometheus = Prometheus(tmp_path, jobs, interval="5s")
        (prometheus.folder / "alerts/generated/churn.yml").write_text(yaml.safe_dump(churn.mapping()))
        stack.enter_context(prometheus)
        prometheus.wait_for("count(app:cpu_usage:rate) == 10", seconds=PATIENCE_SECONDS)
        time.sleep(churn.MINUTE + WATCHED)  # the first rates cover less than a minute

        off = {
            key: worst for host in hosts for key, worst in errors(prometheus, host, begun) if worst > OF_FIVE_MINUTES
        }
        assert off == {}
        fired = 'ALERTS{alertstate="firing", severity!="none", host!="", alertname!="GuestFlapping"}'
        assert prometheus.query(f"count by (alertname, host) (count_over_time({fired}[15m]))") == []


def errors(prometheus: Prometheus, host: churn.Host, begun: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """How far each record, and the overhead ratio, was off the truth in the worst five minutes."""
    means = {}
    for truth in churn.truths(host):
        labels = ",".join(f'{label}="{value}"' for label, value in truth.labels.items())
        (found,) = prometheus.query(f"{truth.record}{{{labels}}}[{WATCHED:.0f}s]")
        samples = [(float(at), float(value), truth.minute(float(at) - begun)) for at, value in found["values"]]
        assert samples[-1][0] - samples[0][0] > WATCHED - 20
        means[truth.record, *truth.labels.values()] = [
            tuple(mean(each[part] for each in window) for part in (1, 2)) for window in five_minutes(samples)
        ]
    of_host = (host.name, host.platform)
    if overhead := means.get(("host:overhead_cpu:rate", *of_host)):
        # A ratio over time is a sum divided by a sum.
        used = means["host:cpu_usage:rate", *of_host]
        means["host:overhead:ratio", *of_host] = [
            tuple(one / all_ for one, all_ in zip(part, whole, strict=True))
            for part, whole in zip(overhead, used, strict=True)
        ]
    for key, pairs in means.items():
        yield key, max(abs(recorded / true - 1) for recorded, true in pairs)


def five_minutes(samples: list[tuple[float, float, float]]) -> Iterator[list[tuple[float, float, float]]]:
    """Each run of samples that covers five minutes."""
    for first, (begin, *_) in enumerate(samples):
        last = next((place for place, (at, *_) in enumerate(samples) if at >= begin + FIVE_MINUTES), None)
        if last is not None:
            yield samples[first:last]
