"""CPU of hosts, their overhead and applications is what was used, in any five minutes, while guests come and go.

By promtool, with scrapes that are never at the instant of an evaluation, as in the field; test_conformance holds a real
Prometheus to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.rules import churn
from tests.rules.promtool import evaluate
from tests.rules.test_rules import ROOT

MINUTES = 21
FIRST = 7  # five minutes, the minute of the first rate, and one to begin
TOLERANCE = 0.05
PLATFORMS = ["xen", "openvz", "cgroup", "base"]
ABOUT_CPU = ("cpu_usage:", "overhead", "info", "guests:count", "xen_domain:group", "ended", "rest")
RECORDS = ("host:cpu_usage:rate", "host:guests_cpu_usage:rate", "host:overhead_cpu:rate", "app:cpu_usage:rate")


def rules_about_cpu(folder: Path) -> list[Path]:
    """The rules that tell of CPU, as they are: with all the others, promtool takes ten times as long."""
    written = []
    for name in [*PLATFORMS, "derived"]:
        content = yaml.safe_load((ROOT / f"prometheus/rules/{name}.yml").read_text())
        for group in content["groups"]:
            group["rules"] = [rule for rule in group["rules"] if any(part in rule["record"] for part in ABOUT_CPU)]
        content["groups"] = [group for group in content["groups"] if group["rules"]]
        if name == "derived":
            written.append(folder / "applications.yml")
            written[-1].write_text(yaml.safe_dump(churn.mapping()))
        written.append(folder / f"{name}.yml")
        written[-1].write_text(yaml.safe_dump(content))
    return written


@dataclass(frozen=True)
class Watched:
    """How hosts are watched, and how closely their records hold to the truth.

    scrape, evaluation: seconds; phase: between an evaluation and the next scrape.

    What a guest used after its last scrape is in no file. It is estimated without bias, but each end is uncertain by
    half a scrape interval of that guest. Where the overhead is a difference from which the guests are taken away, this
    is ten times as much of what is left.
    """

    scrape: int
    evaluation: int
    phase: int
    of_applications: float = TOLERANCE
    of_short_jobs: float = TOLERANCE
    of_guests: float = TOLERANCE
    of_a_difference: float = TOLERANCE

    def untrue(self) -> Iterator[str]:
        """Queries that find nothing."""
        yield f"{off('host:cpu_usage:rate')} > {TOLERANCE}"
        yield f"{off('host:guests_cpu_usage:rate')} > {self.of_guests}"
        difference = 'group by (host) (up{host=~"openvz|containers"})'
        for worst in (off("host:overhead_cpu:rate"), RATIO_OFF):
            yield f"{worst} > {self.of_a_difference}"
            yield f"({worst} unless on (host) {difference}) > {TOLERANCE}"
        worst = off("app:cpu_usage:rate")
        yield f"{worst} > {self.of_short_jobs}"
        short_jobs = 'label_replace(vector(1), "app", "runners", "", "")'
        yield f"({worst} unless on (app) {short_jobs}) > {self.of_applications}"


def off(record: str) -> str:
    """How far the mean of five minutes is off that of what is true of each of their minutes, at worst."""
    mean = f"avg_over_time({record}[5m]) / avg_over_time(true:{record}[5m])"
    return f"max_over_time(abs({mean} - 1)[{MINUTES - FIRST}m:1m])"


def _overhead_ratio(true: str) -> str:
    """Over time, a ratio is a sum divided by a sum."""
    return f"sum_over_time({true}host:overhead_cpu:rate[5m]) / sum_over_time({true}host:cpu_usage:rate[5m])"


RATIO_OFF = f"max_over_time(abs({_overhead_ratio('')} / ({_overhead_ratio('true:')}) - 1)[{MINUTES - FIRST}m:1m])"


def true_series(truth: churn.Truth, watching: churn.Watching, evaluation: int) -> tuple[str, str]:
    """What is true of the minute before each evaluation, as a record called true:..., for promtool."""
    labels = ",".join(f'{name}="{value}"' for name, value in truth.labels.items())
    times = range(0, watching.seconds + 1, evaluation)
    values = [f"{truth.minute(at):.6f}" if at >= churn.MINUTE else "_" for at in times]
    between = evaluation // watching.interval - 1
    return f"true:{truth.record}{{{labels}}}", (f" _x{between} " if between else " ").join(values)


def hold_to_the_truth(
    folder: Path, watched: Watched, *, seed: int, program: str, places: Sequence[churn.Place] = churn.PLACES
) -> None:
    watching = churn.Watching(watched.scrape, MINUTES * 60, phase=watched.phase)
    hosts = [churn.host(name, seed, watching.seconds, places) for name in churn.HOSTS]
    truths = [truth for host in hosts for truth in churn.truths(host) if truth.used(watching.seconds) > 0]
    # Each is compared for every host that has a truth, at every minute.
    minutes = MINUTES - FIRST
    compared = [
        f"(count_over_time(({record} and true:{record})[{minutes}m:1m]) or 0 * true:{record}) < {minutes}"
        for record in RECORDS
    ]
    evaluate(
        folder / "churn.yml",
        rules_about_cpu(folder),
        interval=watching.interval,
        evaluation=watched.evaluation,
        given=[
            *(series for host in hosts for series in churn.exposed(host, watching)),
            *(true_series(truth, watching, watched.evaluation) for truth in truths),
        ],
        expected=[{"expr": query, "eval_time": f"{MINUTES}m"} for query in [*compared, *watched.untrue()]],
        program=program,
    )


AS_SHIPPED = Watched(5, 5, phase=3)


@pytest.mark.parametrize("program", ["promtool", "promtool3"])
@pytest.mark.timeout(600)
def test_cpu_is_what_was_used_in_any_five_minutes(tmp_path: Path, program: str) -> None:
    hold_to_the_truth(tmp_path, AS_SHIPPED, seed=1, program=program)
