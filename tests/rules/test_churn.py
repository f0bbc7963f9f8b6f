"""While guests come and go, recorded CPU usage of hosts, overhead and applications is right in any five minutes.

Evaluated by promtool, with scrapes that never coincide with an evaluation, as in reality.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.rules.promtool import evaluate
from tests.rules.test_rules import ROOT
from tests.support.hosts import Target, Watching, churn, exposed
from tools.exporters import PLATFORMS

MINUTES = 21
FIRST = 7  # five minutes, one for the first rate, and one to start
TOLERANCE = 0.05
ABOUT_CPU = ("cpu_usage:", "guest:", "overhead", "info", "guests:count", "xen_domain:group", "ended", "rest")
RECORDS = ("host:cpu_usage:rate", "host:guests_cpu_usage:rate", "host:overhead_cpu:rate", "app:cpu_usage:rate")


def rules_about_cpu(folder: Path) -> list[Path]:
    """The rules about CPU, unchanged: with all the others, promtool takes ten times as long."""
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
    """How hosts are watched, and how far their records may be off the truth.

    scrape, evaluation: seconds; phase: seconds between an evaluation and the next scrape.

    What a guest used after its last scrape is nowhere recorded. Its estimate has no bias, but for each guest that ends
    it may be off by what that guest uses in half a scrape interval. Where the overhead is the host's total minus its
    guests, the same error is ten times as large in relation to it.
    """

    scrape: int
    evaluation: int
    phase: int
    of_applications: float = TOLERANCE
    of_short_jobs: float = TOLERANCE
    of_guests: float = TOLERANCE
    of_a_difference: float = TOLERANCE
    of_a_difference_over_all: float = TOLERANCE

    def __str__(self) -> str:
        return f"{self.scrape} s, {self.evaluation} s"

    @property
    def watching(self) -> Watching:
        return Watching(self.scrape, MINUTES * 60, phase=self.phase)

    def untrue(self) -> Iterator[str]:
        """Queries that must return nothing."""
        yield f"{off('host:cpu_usage:rate')} > {TOLERANCE}"
        yield f"{off('host:guests_cpu_usage:rate')} > {self.of_guests}"
        difference = 'group by (host) (up{host=~"openvz|containers"})'
        over_all = mean_off("host:overhead_cpu:rate", f"{MINUTES - FIRST}m")
        yield f"abs({over_all}) > {self.of_a_difference_over_all}"
        for worst in (off("host:overhead_cpu:rate"), RATIO_OFF):
            yield f"{worst} > {self.of_a_difference}"
            yield f"({worst} unless on (host) {difference}) > {TOLERANCE}"
        worst = off("app:cpu_usage:rate")
        yield f"{worst} > {self.of_short_jobs}"
        short_jobs = 'label_replace(vector(1), "app", "runners", "", "")'
        yield f"({worst} unless on (app) {short_jobs}) > {self.of_applications}"


def off(record: str) -> str:
    """The greatest error of a mean over five minutes, relative to the mean of the true values of these minutes."""
    return f"max_over_time(abs({mean_off(record, '5m')})[{MINUTES - FIRST}m:1m])"


def mean_off(record: str, time: str) -> str:
    return f"avg_over_time({record}[{time}]) / avg_over_time(true:{record}[{time}]) - 1"


def _overhead_ratio(true: str) -> str:
    """A ratio over time is a sum divided by a sum."""
    return f"sum_over_time({true}host:overhead_cpu:rate[5m]) / sum_over_time({true}host:cpu_usage:rate[5m])"


RATIO_OFF = f"max_over_time(abs({_overhead_ratio('')} / ({_overhead_ratio('true:')}) - 1)[{MINUTES - FIRST}m:1m])"


def true_series(truth: churn.Truth, watching: Watching, evaluation: int) -> tuple[str, str]:
    """The true value for the minute before each evaluation, as a record called true:..., for promtool."""
    labels = ",".join(f'{name}="{value}"' for name, value in truth.labels.items())
    times = range(0, watching.seconds + 1, evaluation)
    values = [f"{truth.minute(at):.6f}" if at >= churn.MINUTE else "_" for at in times]
    between = evaluation // watching.interval - 1
    return f"true:{truth.record}{{{labels}}}", (f" _x{between} " if between else " ").join(values)


def compare(
    folder: Path,
    rules: Sequence[Path],
    watched: Watched,
    *,
    targets: Sequence[Target],
    truths: Sequence[churn.Truth],
    untrue: Sequence[str],
    program: str,
) -> None:
    """Fail if one of these queries returns anything, where the truth about a record is called true:RECORD."""
    watching = watched.watching
    evaluate(
        folder / "churn.yml",
        rules,
        interval=watching.interval,
        evaluation=watched.evaluation,
        given=[
            *exposed(targets, watching),
            *(true_series(truth, watching, watched.evaluation) for truth in truths),
        ],
        expected=[{"expr": query, "eval_time": f"{MINUTES}m"} for query in untrue],
        program=program,
    )


def always(record: str) -> str:
    """A query that returns something unless the record is there, and its truth, at every minute."""
    minutes = MINUTES - FIRST
    return f"(count_over_time(({record} and true:{record})[{minutes}m:1m]) or 0 * true:{record}) < {minutes}"


def hold_to_the_truth(
    folder: Path, watched: Watched, *, seed: int, program: str, places: Sequence[churn.Place] = churn.PLACES
) -> None:
    seconds = watched.watching.seconds
    hosts = [churn.host(name, seed, seconds, places) for name in churn.HOSTS]
    truths = [truth for host in hosts for truth in churn.truths(host) if truth.used(seconds) > 0]
    targets = [target for host in hosts for target in churn.targets(host)]
    untrue = [*map(always, RECORDS), *watched.untrue()]
    compare(folder, rules_about_cpu(folder), watched, targets=targets, truths=truths, untrue=untrue, program=program)


AS_SHIPPED = Watched(5, 5, phase=3)
# An ideal estimate, which adds for each ended guest half an interval at its last rate and knows everything else, is off
# by up to 5.9 % for the short jobs and 9.8 % for overhead that is a difference, in 35 minutes with six seeds; these
# rules are off by up to 7.5 % and 15 %. (At 5 s: by 1.7 % and 3.8 %, and so are these rules.)
SELDOM = Watched(15, 15, phase=5, of_short_jobs=0.08, of_a_difference=0.16, of_a_difference_over_all=0.08)
# As docs/cost.md recommends for hundreds of hosts. A guest that starts and ends between two evaluations is in the
# host's total, but its name is not recorded. Of the short jobs, 30 to 120 s, a quarter was missing in the worst five
# minutes.
EACH_MINUTE = Watched(
    15,
    60,
    phase=5,
    of_applications=0.09,
    of_short_jobs=0.3,
    of_guests=0.08,
    of_a_difference=0.25,
    of_a_difference_over_all=0.1,
)
# 40 jobs end in five minutes, and use six times the overhead: 11 % was measured.
OF_30_SECONDS = Watched(5, 5, phase=3, of_a_difference=0.13, of_a_difference_over_all=0.11)


@pytest.mark.parametrize(
    ("watched", "seed", "program"),
    [
        (AS_SHIPPED, 1, "promtool"),
        (SELDOM, 1, "promtool"),
        (EACH_MINUTE, 1, "promtool"),
        *(
            pytest.param(*case, marks=pytest.mark.system)
            for case in [
                (AS_SHIPPED, 2, "promtool3"),
                *((SELDOM, seed, "promtool") for seed in (2, 3)),
                *((SELDOM, seed, "promtool3") for seed in (4, 5)),
                (EACH_MINUTE, 2, "promtool3"),
            ]
        ),
    ],
    ids=str,
)
@pytest.mark.timeout(600)
def test_recorded_cpu_is_what_was_used_in_any_five_minutes(
    tmp_path: Path, watched: Watched, seed: int, program: str
) -> None:
    hold_to_the_truth(tmp_path, watched, seed=seed, program=program)


@pytest.mark.system
@pytest.mark.parametrize(("lives", "watched"), [(30, OF_30_SECONDS), (60, AS_SHIPPED), (120, AS_SHIPPED)], ids=str)
@pytest.mark.timeout(600)
def test_recorded_cpu_is_what_was_used_by_consecutive_jobs(tmp_path: Path, lives: int, watched: Watched) -> None:
    """Only batch jobs, each starting when another ends: all CPU time is used by guests that end soon."""
    places = [
        churn.Place(tuple(f"runner-{place}{turn}" for turn in "abc"), (lives, lives), (0, 0), 1.6) for place in range(4)
    ]
    hold_to_the_truth(tmp_path, watched, seed=1, program="promtool", places=places)


@pytest.mark.parametrize(
    ("watched", "program", "tolerance"),
    # The host's own instructions are a difference, as overhead is. A container is counted from the scrape that finds
    # it; what it executed before is attributed to the host: 5.1 % too much was measured at 5 s, and up to 15 % at
    # 15 s, where most containers live for a minute.
    [
        pytest.param(AS_SHIPPED, "promtool", 0.08, marks=pytest.mark.system),
        (SELDOM, "promtool", 0.2),
        pytest.param(SELDOM, "promtool3", 0.2, marks=pytest.mark.system),
    ],
    ids=str,
)
@pytest.mark.timeout(600)
def test_instructions_of_containers_that_come_and_go_are_not_the_hosts_own(
    tmp_path: Path, watched: Watched, program: str, tolerance: float
) -> None:
    host = churn.host(churn.SLICES, 1, watched.watching.seconds)
    truths = list(churn.truths_of_instructions(host))
    within = {"host:instructions:rate": TOLERANCE, "vserver:instructions:rate": tolerance}
    untrue = [*map(always, within), *(f"{off(record)} > {bound}" for record, bound in within.items())]
    rules, targets = [ROOT / "prometheus/rules/events.yml"], [churn.counted(host, watched.watching)]
    compare(tmp_path, rules, watched, targets=targets, truths=truths, untrue=untrue, program=program)


@pytest.mark.parametrize(
    ("watched", "program", "tolerance"),
    # What was waited for a container after its last scrape isn't known, nor in its first minute that since the latest.
    [
        pytest.param(AS_SHIPPED, "promtool", 0.05, marks=pytest.mark.system),
        (SELDOM, "promtool", 0.15),
        pytest.param(SELDOM, "promtool3", 0.15, marks=pytest.mark.system),
    ],
    ids=str,
)
@pytest.mark.timeout(600)
def test_containers_that_come_and_go_are_waited_for_by_their_names(
    tmp_path: Path, watched: Watched, program: str, tolerance: float
) -> None:
    host = churn.host(churn.SLICES, 1, watched.watching.seconds)
    labels = {"host": host.name, "platform": host.platform}
    truth = churn.Truth("waited:for_neighbours:rate", labels, lambda at: churn.WAITED * host.guests(at))
    total = {
        "record": truth.record,
        "expr": 'sum by (host, platform) (vserver:cpu_wait_caused:rate{vserver="victim", reason="neighbour"})',
    }
    summed = tmp_path / "summed.yml"
    summed.write_text(yaml.safe_dump({"groups": [{"name": "summed", "rules": [total]}]}))
    untrue = [
        always(truth.record),
        f"{off(truth.record)} > {tolerance}",
        # Nobody is taken for the host.
        'count_over_time(vserver:cpu_wait_caused:rate{reason=~"host|unknown"}[20m])',
    ]
    rules = [ROOT / "prometheus/rules/cgroup.yml", ROOT / "prometheus/rules/waits.yml", summed]
    targets = churn.waited(host)
    compare(tmp_path, rules, watched, targets=targets, truths=[truth], untrue=untrue, program=program)
