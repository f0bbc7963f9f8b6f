"""Guests that come and go: what the rules make of them agrees with what was used, summed up here second by second."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from demo import history, jobs, model, past, story, xen
from demo.targets import Ports, stage, targets
from tests.demo.playing import Demo, playing
from tests.support.program import program_path

HISTORY = 2 * 3600 + 600  # seconds
WINDOW = 300  # seconds
VIRTUALISED = ["demo-xen", "demo-openvz"]
STARTED = 480000 * story.CYCLE  # a full hour, in Unix time
RULES = [
    *("prometheus/rules/xen.yml", "prometheus/rules/openvz.yml"),
    *("prometheus/rules/derived.yml", "alerts/generated/rubis.yml"),
]
LIVE = (2700, 3960)  # seconds of it


def mean(record: str) -> str:
    """Over the window: a record is of the minute before it, so five of them, one for each minute, are all of it."""
    return f"sum_over_time(({record} and timestamp({record}) == time())[{WINDOW - 1}s:1m]) / {WINDOW // 60}"


class Used(NamedTuple):
    """Mean CPUs over a window: of the host with all guests, of itself, and of each application."""

    host: float
    overhead: float
    apps: dict[str, float]


def used(host: str, until: int) -> Used:
    """The truth of the `WINDOW` that ends at this Unix time."""
    platform = story.PLATFORMS[host]
    total, itself, apps = 0.0, 0.0, dict[str, float]()
    for second in range(until - WINDOW, until):
        for vserver, cpus in _used_in_second(platform, second % story.CYCLE).items():
            total += cpus
            if vserver == model.HOST:
                itself += cpus
            elif vserver.startswith("rubis-"):
                app = vserver.rpartition("-")[0]
                apps[app] = apps.get(app, 0) + cpus
    return Used(total / WINDOW, itself / WINDOW, {app: cpus / WINDOW for app, cpus in apps.items()})


def near(host: str, truth: Used) -> float:
    """How far the overhead may be off: on OpenVZ it is a hundredth of a CPU, what is left when the containers' CPU is
    taken from the machine's, so five per cent are of all that was used."""
    return 0.05 * (truth.host if host == "demo-openvz" else truth.overhead)


@functools.cache
def _used_in_second(platform: str, phase: int) -> dict[str, float]:
    study = model.rates(platform, story.step_at(phase)).work
    cpus = {vserver: work.cpu for vserver, work in study.items()}
    if platform != "base":
        cpus |= {job.name: job.cpus for job in jobs.JOBS if job.begin <= phase < job.end}
        cpus |= {job.name: job.cpus for job in jobs.JOBS if job.begin > job.end and not job.end <= phase < job.begin}
    return cpus


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with playing(tmp_path_factory.mktemp("demo"), HISTORY) as played:
        yield played


def minutes(demo: Demo) -> range:
    """Every full minute of the history's last hour."""
    end = demo.end // 60 * 60
    return range(end - story.CYCLE + 60, end + 1, 60)


@pytest.mark.parametrize("host", [*VIRTUALISED, "demo-base"])
def test_a_host_used_in_any_five_minutes_what_it_used(demo: Demo, host: str) -> None:
    found = demo.values(mean(f'host:cpu_usage:rate{{host="{host}"}}'), minutes(demo))
    assert found == pytest.approx({at: used(host, at).host for at in minutes(demo)}, rel=0.05)


@pytest.mark.parametrize("host", VIRTUALISED)
def test_what_guests_used_until_they_ended_is_no_overhead(demo: Demo, host: str) -> None:
    found = demo.values(mean(f'host:overhead_cpu:rate{{host="{host}"}}'), minutes(demo))
    assert found.keys() == set(minutes(demo))
    for at, cpus in found.items():
        truth = used(host, at)
        assert cpus == pytest.approx(truth.overhead, abs=near(host, truth)), at


@pytest.mark.parametrize("host", VIRTUALISED)
@pytest.mark.parametrize("app", [f"rubis-{number}" for number in range(1, 5)])
def test_an_application_used_in_any_five_minutes_what_it_used(demo: Demo, host: str, app: str) -> None:
    found = demo.values(mean(f'app:cpu_usage:rate{{host="{host}", app="{app}"}}'), minutes(demo))
    truth = {at: used(host, at).apps.get(app, 0) for at in minutes(demo)}
    assert found.keys() >= {at for at, cpus in truth.items() if cpus}
    assert found == pytest.approx({at: truth[at] for at in found}, rel=0.05)


@pytest.mark.parametrize("job", jobs.JOBS, ids=str)
def test_the_last_sample_of_a_guest_no_longer_stands_at_the_next_evaluation(job: jobs.Job) -> None:
    """However close samples are at its end, which depends on when the demo is started."""
    for step in (history.STEP, history.LIVE_STEP):
        last = (job.end - 1) // step * step
        assert (last // past.STEP + 1) * past.STEP - last >= history.STEP


def test_guests_are_there_in_the_history_as_long_as_they_live(demo: Demo) -> None:
    names = "|".join(jobs.NAMES)
    for host in VIRTUALISED:
        for at in minutes(demo):
            record = f'vserver:cpu_usage:rate{{host="{host}", vserver=~"{names}"}}'
            there = demo.query(f"{record} and timestamp({record}) > {at - past.STEP}", at)
            assert sorted(series["metric"]["vserver"] for series in there) == sorted(
                job.name for job in jobs.jobs_at(at % story.CYCLE)
            )


@pytest.mark.parametrize("host", VIRTUALISED)
def test_what_a_guest_used_is_shown_as_its_own_or_as_an_ended_guests_never_as_both(demo: Demo, host: str) -> None:
    """As graphs stack the two, at points 20 s, 30 s or a minute apart."""
    both = (
        f'vserver:ended_cpu_usage:rate{{host="{host}"}} and on (host, vserver) vserver:cpu_usage:rate{{host="{host}"}}'
    )
    restarted = {
        job.name
        for job in jobs.JOBS
        for later in jobs.JOBS
        if later.name == job.name and 0 <= later.begin - job.end < past.STEP
    }
    end = demo.end // 60 * 60
    for at in sorted({*range(end - story.CYCLE + 60, end, 20), *range(end - story.CYCLE + 60, end, 30)}):
        shown_twice = {series["metric"]["vserver"] for series in demo.query(both, at)}
        assert shown_twice <= restarted, at % story.CYCLE


def test_no_alert_fires_but_the_story_s(demo: Demo) -> None:
    fired = demo.query(
        f'group by (alertname, host) (max_over_time(ALERTS{{alertstate="firing"}}[{HISTORY}s]))', demo.end
    )
    assert {(series["metric"]["alertname"], series["metric"].get("host", "")) for series in fired} == {
        ("Watchdog", ""),
        ("MeanResponseOverCeiling", "demo-xen"),
        ("ObjectiveBurnsFast", "demo-xen"),
        ("ObjectiveBurnsSlowly", "demo-xen"),
        ("VirtualServerStarved", "demo-xen"),  # four applications: each waits for a CPU while the others run
        ("MeanResponseOverCeiling", "demo-kvm"),
        ("ObjectiveBurnsSlowly", "demo-kvm"),
        ("VirtualServerStarved", "demo-kvm"),  # the shop waits for the batch job
    }
    firing = 'ALERTS{vserver=~".+", alertstate="firing"}'
    starved = demo.query(f"count by (vserver) (count_over_time({firing}[{HISTORY}s]))", demo.end)
    names = {series["metric"]["vserver"] for series in starved}
    assert names == {"Domain-0", "shop-web", "shop-db", *(f"rubis-{number}-web" for number in range(1, 5))}


def test_live_too_what_ended_guests_used_is_theirs(tmp_path: Path) -> None:
    """As scraped and evaluated every five seconds, with marks where a series ends: over twenty minutes in which three
    applications end, a guest is rebooted, one migrates, and others come and go."""
    moments = range(STARTED + LIVE[0], STARTED + LIVE[1] + 1, history.LIVE_STEP)
    wanted = targets(Ports(1, 2, 3, 4, 5))
    stage(tmp_path, wanted)
    shown = history.latest(wanted, moments[0] - history.LIVE_STEP, moments[-1], STARTED - 2 * story.CYCLE)
    checks = list(_live_checks(moments))
    test = {
        "rule_files": [str(tmp_path / file) for file in RULES],
        "evaluation_interval": f"{history.LIVE_STEP}s",
        "tests": [
            {
                "interval": f"{history.LIVE_STEP}s",
                "input_series": [
                    {"series": name, "values": _with_marks(dict(values), moments)}
                    for name, values in shown
                    if not name.startswith("perf_")
                ],
                "promql_expr_test": [
                    {"expr": f"count({expr})", "eval_time": f"{at}s", "exp_samples": [{"labels": "{}", "value": 1}]}
                    for at, expr in checks
                ],
            }
        ],
    }
    file = tmp_path / "test.json"
    file.write_text(json.dumps(test))
    done = subprocess.run(
        [program_path("promtool"), "test", "rules", file], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, checks != []) == (0, True), (done.stdout + done.stderr)[:4000]


def _with_marks(values: dict[int, object], moments: range) -> str:
    """A series as promtool's tests have it: a mark where it ends, as Prometheus sets it at the next scrape."""
    words = []
    before = None
    for at in moments:
        value = values.get(at)
        words.append(repr(value) if value is not None else "_" if before is None else "stale")
        before = value
    return " ".join(words)


def _live_checks(moments: range) -> Iterator[tuple[int, str]]:
    """Times since the first of these moments, and expressions that give one series each where the truth is recorded."""
    for at in range(moments[0] + WINDOW + 60, moments[-1] + 1, 60):
        for host in VIRTUALISED:
            truth = used(host, at)
            records = {
                f'host:overhead_cpu:rate{{host="{host}"}}': (truth.overhead, near(host, truth)),
                f'host:cpu_usage:rate{{host="{host}"}}': (truth.host, 0.05 * truth.host),
            }
            for app, cpus in truth.apps.items():
                records[f'app:cpu_usage:rate{{host="{host}", app="{app}"}}'] = (cpus, 0.05 * cpus)
            for record, (cpus, off) in records.items():
                yield at - moments[0], f"abs({mean(record)} - {cpus}) < {off}"


def test_a_name_that_is_used_again_is_another_domain() -> None:
    counters = model.Counters("demo-xen", 0)
    ids: dict[str, set[int]] = {}
    for second in range(5 * story.CYCLE, 6 * story.CYCLE):
        for domain in xen.snapshot(counters, second).node.domains:
            assert domain.name
            ids.setdefault(domain.name.decode(), set()).add(domain.id)
    assert {name: len(ids[name]) for name in jobs.NAMES} == {
        name: len([job for job in jobs.JOBS if job.name == name]) for name in jobs.NAMES
    }
    assert sum(map(len, ids.values())) == len(set().union(*ids.values())), "no id is two guests'"


@pytest.mark.parametrize("host", VIRTUALISED)
def test_counters_begin_at_0_with_their_guest_and_go_with_it(host: str) -> None:
    counters = model.Counters(host, 0)
    for job in jobs.JOBS:
        begin = 7 * story.CYCLE + job.begin
        end = begin + (job.end - job.begin) % story.CYCLE
        assert job.name not in counters.at(begin - 1).work
        began, ended = counters.at(begin).work[job.name].cpu, counters.at(end - 1).work[job.name].cpu
        assert ended - began == pytest.approx(job.cpus * (end - 1 - begin))
        # A guest that comes from another host has a new domain there, and on OpenVZ brings what it used here before.
        assert (began == pytest.approx(0, abs=1e-6)) == (host == "demo-xen" or not job.migrates)
        assert job.name not in counters.at(end).work


@pytest.mark.parametrize("host", [*VIRTUALISED, "demo-base"])
def test_the_machine_s_counter_has_what_ended_guests_used(host: str) -> None:
    counters = model.Counters(host, 1000)
    begin = 3 * story.CYCLE
    truth = sum(sum(_used_in_second(story.PLATFORMS[host], second).values()) for second in range(story.CYCLE))
    grown = counters.machine_at(begin + story.CYCLE).cpu - counters.machine_at(begin).cpu
    assert grown == pytest.approx(truth)
