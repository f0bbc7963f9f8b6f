"""What is recorded of hosts whose guests come and go is what was used, over any five minutes.

The hosts of churn.py as series for promtool, the truth of the five minutes before each scrape as series beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.rules import churn
from tests.rules.test_rules import ROOT, run

MINUTES = 21
FIRST = 7  # five minutes, the minute of the first rate, and one to begin
TOLERANCE = 0.05
PLATFORMS = ["xen", "openvz", "cgroup", "base"]
ABOUT_CPU = ("cpu_usage:", "overhead", "info", "guests:count", "xen_domain:group", "ended", "rest")


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


def off(record: str, lag: str) -> str:
    """How far the mean of five minutes is off, at the worst of the minutes."""
    return f"max_over_time(abs(avg_over_time({record}[5m]) / true:{record}{lag} - 1)[{MINUTES - FIRST}m:1m])"


def ratio_off(lag: str) -> str:
    """Over time, a ratio is a sum divided by a sum."""
    told = "sum_over_time(host:overhead_cpu:rate[5m]) / sum_over_time(host:cpu_usage:rate[5m])"
    true = f"true:host:overhead_cpu:rate{lag} / true:host:cpu_usage:rate{lag}"
    return f"max_over_time(abs({told} / ({true}) - 1)[{MINUTES - FIRST}m:1m])"


@dataclass(frozen=True)
class Held:
    """How closely a way of watching holds to the truth.

    scrape, evaluation: seconds. lag: of the truth that the record is compared with; a rate is of the minute before it,
    so that five minutes of them are rather those that ended half a minute ago, which shows where guests are few.

    What a guest used after its last scrape is in no file. It is estimated without bias, but one end is uncertain by
    half an interval. That is more than 5 % of an application of four short jobs at 15 s, and of the overhead where that
    is a difference from which the guests are taken away, ten times as much as is left.
    """

    scrape: int
    evaluation: int
    lag: str = ""
    of_short_jobs: float = TOLERANCE
    of_a_difference: float = TOLERANCE

    def untrue(self) -> Iterator[str]:
        """Queries that find nothing."""
        for record in churn.TRUTHS:
            if record != "host:overhead_cpu:rate":
                yield f"{off(record, self.lag)} > {TOLERANCE}"
        difference = 'group by (host) (up{host=~"openvz|containers"})'
        for worst in (off("host:overhead_cpu:rate", self.lag), ratio_off(self.lag)):
            yield f"{worst} > {self.of_a_difference}"
            yield f"({worst} unless on (host) {difference}) > {TOLERANCE}"
        worst = off("app:cpu_usage:rate", self.lag)
        yield f"{worst} > {self.of_short_jobs}"
        yield f'({worst} unless on (app) label_replace(vector(1), "app", "runners", "", "")) > {TOLERANCE}'


OFTEN = Held(5, 5)
# Not with an evaluation a minute: of a guest that lives between two, nobody records what it is called.
SELDOM = Held(15, 15, lag=" offset 30s", of_short_jobs=0.1, of_a_difference=0.15)


@pytest.mark.parametrize(
    ("held", "program"),
    [(OFTEN, "promtool"), (SELDOM, "promtool"), (SELDOM, "promtool3")],
    ids=lambda value: value if isinstance(value, str) else f"{value.scrape} s, {value.evaluation} s",
)
@pytest.mark.timeout(600)
def test_cpu_is_what_was_used_in_any_five_minutes(tmp_path: Path, held: Held, program: str) -> None:
    watching = churn.Watching(held.scrape, MINUTES * 60)
    hosts = [churn.host(name, seed=1, seconds=watching.seconds) for name in churn.HOSTS]
    files = rules_about_cpu(tmp_path)
    # Each is compared for every host that has a truth, at every minute.
    minutes = MINUTES - FIRST
    compared = [
        f"(count_over_time(({record} and true:{record})[{minutes}m:1m]) or 0 * true:{record}) < {minutes}"
        for record in [*churn.TRUTHS, "app:cpu_usage:rate"]
    ]
    given = [series for host in hosts for told in (churn.exposed, churn.truths) for series in told(host, watching)]
    finds_nothing(program, files, held, given, [*compared, *held.untrue()], folder=tmp_path)


@pytest.mark.parametrize(
    ("held", "program", "tolerance"),
    # The host's own is a difference, as overhead is. A container is counted from the scrape that finds it, and told of
    # at the next one: at 15 s, a tenth too much is the host's own where most live for a minute.
    [(OFTEN, "promtool", TOLERANCE), (SELDOM, "promtool", 0.2), (SELDOM, "promtool3", 0.2)],
    ids=lambda value: f"{value.scrape} s, {value.evaluation} s" if isinstance(value, Held) else str(value),
)
@pytest.mark.timeout(600)
def test_instructions_of_containers_that_come_and_go_are_not_the_hosts_own(
    tmp_path: Path, held: Held, program: str, tolerance: float
) -> None:
    watching = churn.Watching(held.scrape, MINUTES * 60)
    host = churn.host(churn.SLICES, seed=1, seconds=watching.seconds)
    minutes = MINUTES - FIRST
    queries = []
    for record, within in (
        ("host:instructions:rate", TOLERANCE),
        ('vserver:instructions:rate{role="host"}', tolerance),
    ):
        told = f"count_over_time(({record} and true:{record})[{minutes}m:1m])"
        queries += [f"({told} or 0 * true:{record}) < {minutes}", f"{off(record, held.lag)} > {within}"]
    given = [*churn.counted(host, watching), *churn.true_instructions(host, watching)]
    finds_nothing(program, [ROOT / "prometheus/rules/events.yml"], held, given, queries, folder=tmp_path)


def finds_nothing(
    program: str,
    files: Sequence[Path],
    held: Held,
    given: Iterable[churn.Series],
    queries: Iterable[str],
    *,
    folder: Path,
) -> None:
    """Hold that the queries find nothing at the end, of the rules in these files over these series."""
    test = {
        "interval": f"{held.scrape}s",
        "input_series": [{"series": series, "values": values} for series, values in given],
        "promql_expr_test": [{"expr": query, "eval_time": f"{MINUTES}m"} for query in queries],
    }
    file = folder / "churn.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(file) for file in files],
                "evaluation_interval": f"{held.evaluation}s",
                "group_eval_order": [
                    group["name"] for file in files for group in yaml.safe_load(file.read_text())["groups"]
                ],
                "tests": [test],
            }
        )
    )
    run(program, "test", "rules", file)
