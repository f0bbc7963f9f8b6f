"""A consolidation's values, by queries to a real Prometheus with known true values, and its page."""

import doctest
import importlib
import itertools
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import lab.report
from lab.measuring import Span, measured, queries, span, summary
from lab.metrics import Measurement
from lab.prometheus import Prometheus, Sample
from lab.report.comparison import by_step
from lab.report.consolidation import Judged, loads, verdict, write_up
from lab.report.page import Page
from lab.scenario import Step
from tests.dashboards.promtool import assert_answers
from tests.report.recordings import assert_whole, backfilled, hours_ago, of_consolidation, recorded

# Seconds of a warm-up, the step's first two minutes, of which no rate over two minutes counts, its rest, and a pause.
PHASES = (60, 120, 100, 40)
SCRAPE_SECONDS = 5
OFFSETS = {"app_": 3.1, "lab_": 0.7, "process_": 0.7}  # of scrapes within the interval, by metric; of records 1.9
BEGIN = hours_ago(3)


Series = dict[str, Sequence[float]]


def counter(while_measured: float, warming: float = 1000.0) -> Sequence[float]:
    """A counter's rate in each phase."""
    return [warming, while_measured, while_measured, 7.0]


def gauge(while_measured: float, else_: float = 1000.0) -> Sequence[float]:
    """A record's value in each phase; the samples of a phase with a negative one are missing."""
    return [else_, else_, while_measured, else_]


def histogram(name: str, labels: str, rate: float, mean: float, **within: float) -> Series:
    """`within`: the share of the requests by the bucket's edge, such as `le0_3`; those of the warm-up are slower."""
    buckets: Series = {
        f'{name}_bucket{{{labels},le="{edge[2:].replace("_", ".")}"}}': counter(rate * share, 0)
        for edge, share in within.items()
    }
    whole: Series = {f'{name}_bucket{{{labels},le="+Inf"}}': counter(rate), f"{name}_count{{{labels}}}": counter(rate)}
    return buckets | whole | {f"{name}_sum{{{labels}}}": counter(rate * mean)}


def of_app(host: str, app: str) -> Series:
    """50 requests per second: 1 % fail, 8 % of the others take 2.5 s; the mean is 0.92 * 0.06 + 0.08 * 2.5 s."""
    there = f'host="{host}",platform="cgroup",app="{app}"'
    sensor, client = "app_request_duration_seconds", "lab_client_request_duration_seconds"
    web = f'{there},tier="web",method="GET"'
    series: Series = {
        **histogram(sensor, f'{web},status="2xx"', 49.5, 0.2552, le0_075=0.92, le0_3=0.92, le2=0.92, le3=1),
        f'{sensor}_count{{{web},status="5xx"}}': [-1.0, 0.5, 0.5, 7],  # the first failure is within the step
        **histogram(client, f'{there},page="item",status="2xx"', 49.5, 0.2622),
        f'{client}_count{{{there},page="item",status="5xx"}}': counter(0.5),
        f"app:cpu_usage:rate{{{there}}}": gauge(0.35),
        f'app:requests:rate{{{there},tier="web"}}': gauge(50),
        f"app:cpu_per_request:seconds{{{there}}}": gauge(0.0077),
        f'app:breach_cause:info{{{there},cause="neighbour"}}': [-1, 1, 1, -1],
        f'app:slo_objective:ratio{{{there},objective="latency"}}': gauge(0.95),
        f'app:slo_objective:ratio{{{there},objective="availability"}}': gauge(0.999),
        f'app:slo_threshold:seconds{{{there},objective="latency"}}': gauge(0.3),
        f'app:slo_threshold:seconds{{{there},objective="mean"}}': gauge(0.1),
    }
    for tier, cpu in (("web", 0.3), ("db", 0.05)):
        vserver = f'host="{host}",vserver="virtscope/{app}-{tier}",role="guest"'
        events = f'vserver:events:rate{{{vserver},group="cache",event='
        series |= {
            f'vserver:app:info{{{vserver},app="{app}",tier="{tier}"}}': [1.0, 1, 1, 1],
            f"vserver:cpu_usage:rate{{{vserver}}}": gauge(cpu),
            f"vserver:cpu_wait:rate{{{vserver}}}": gauge(0.9),
            f'{events}"instructions"}}': gauge(1e9 * cpu),
            f'{events}"cache-misses"}}': gauge(6e6 * cpu),
        }
    return series


def of_host(host: str, late: float) -> Series:
    there = f'host="{host}",platform="cgroup"'
    return {
        f'lab_step_info{{{there},run="{host}"}}': [-1, 1, 1, -1],
        f'process_cpu_seconds_total{{{there},job="lab"}}': counter(0.2),
        f"host:overhead_cpu:rate{{{there}}}": gauge(0.24),
        f"host:cpu_usage:rate{{{there}}}": gauge(1.2),  # also of virtual servers that have ended
        **histogram("lab_client_start_lateness_seconds", there, 100, 0.0008, le0_005=1 - late, le0_05=1 - late),
    }


APP = 'host="whole",platform="cgroup",app="auction-1"'
WHOLE: Series = {
    **of_app("whole", "auction-1"),
    **of_app("whole", "auction-2"),
    **of_host("whole", late=0),
    # Only the first of both instances waited for somebody.
    f'app:delay:rate{{{APP},resource="cpu",reason="neighbour",by="batch"}}': gauge(0.5),
    f'app:delay:rate{{{APP},resource="cpu",reason="neighbour",by="blog"}}': gauge(0.1),
    f'app:delay:rate{{{APP},resource="cpu",reason="self",by="auction-1-web"}}': gauge(0.2),
    f'app:delay:rate{{{APP},resource="disk",reason="neighbour",by="blog"}}': gauge(0.5),
    f'app:neighbour:ratio{{{APP},resource="cpu",by="batch"}}': gauge(0.8, -1),
    f'ALERTS{{{APP},alertname="ObjectiveBurnsFast",alertstate="firing",severity="page"}}': gauge(1, -1),
    f'ALERTS{{{APP},alertname="Quiet",alertstate="firing",severity="none"}}': gauge(1, -1),
}
# The sensor of the first application is reset in the step, the second has none; the clients are late.
HARMED: Series = {
    name: [1000, 500, -200, 7] if name.startswith("app_request") and "auction-1" in name else values
    for name, values in (of_app("harmed", "auction-1") | of_app("harmed", "auction-2") | of_host("harmed", 0.5)).items()
    if not (name.startswith("app_request") and "auction-2" in name)
}


def openmetrics(series: Mapping[str, Sequence[float]]) -> Iterator[str]:
    ends = list(itertools.accumulate(PHASES))
    for name, of in series.items():
        is_counter = name.partition("{")[0].endswith(("_count", "_sum", "_bucket", "_total"))
        at, total = next((offset for of, offset in OFFSETS.items() if name.startswith(of)), 1.9), 0.0
        while at < ends[-1]:
            value = of[next(phase for phase, end in enumerate(ends) if at < end)]
            total += value * SCRAPE_SECONDS if is_counter and (value >= 0 or total) else 0.0
            if value >= 0 or (is_counter and total):
                yield f"{name} {total if is_counter else value!r} {BEGIN + at:.3f}\n"
            at += SCRAPE_SECONDS


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    text = "".join(openmetrics(WHOLE | HARMED))
    with backfilled(tmp_path_factory.mktemp("report"), text) as server:
        yield Prometheus(server.url)


def values(prometheus: Prometheus, run: str) -> dict[str, Measurement]:
    [series] = prometheus.recorded(f'lab_step_info{{run="{run}"}}[30d]')
    found = measured(prometheus, Step(2, 800, "one node", 1), span(series), {"step_cpus": 1.0})
    return {one.test: one for one in found}


def test_values_are_those_of_the_step_alone(prometheus: Prometheus) -> None:
    truth = {
        "requests": 50, "errors": 0.01, "mean": 0.2552, "within": 0.92, "client_requests": 50, "client_answers": 49.5,
        "client_failures": 0.01, "network": 0.007, "unseen_failures": 0, "causes neighbour": 1.0,
        # 92 % are below 2 s, the other 8 % between 2 and 3 s: the 95th percentile is at 3/8 of that bucket.
        "p95": 2 + 3 / 8,
        "tier_cpu web": 0.3, "tier_cpu db": 0.05, "tiers_cpu": 0.7, "cpu_per_request": 0.35 / 50,
        "cpu_per_request_with_host": 0.35 * 1.1 / 50, "overhead": 0.1 + 0.7 / 5, "overhead_ratio": 0.24 / 1.2,
        "clients_cpu": 0.2, "lateness_mean": 0.0008, "lateness_p95": 0.95 * 0.005, "late_starts": 0,
        "waiting web": 0.9, "waiting db": 0.9, "misses web": 0.006, "misses db": 0.006, "step_cpus": 1,
        "mean promised": 0.1, "mean measured": 0.2552, "mean missed": 2, "mean judged": 2,
        "latency promised": 0.95, "latency measured": 0.92, "latency missed": 2, "latency seconds": 0.3,
        "availability promised": 0.999, "availability measured": 0.99, "availability missed": 2,
        "sensors": 2, "clients_seen": 2, "caused neighbour cpu": 0.6, "caused self cpu": 0.2,
        "neighbours batch cpu": 0.8, "named cpu": 0.8, "caused neighbour disk": 0.5, "named disk": 0,
        "delayed cpu": 0.6 / 50, "delayed disk": 0.5 / 50, "held": (0.35 + 1.3) / 50,
        "firing ObjectiveBurnsFast": 1,
    }  # fmt: skip
    found = values(prometheus, "whole")
    assert {name: found[name].value for name in truth} == pytest.approx(truth)
    assert "firing Quiet" not in found
    start, end = BEGIN + PHASES[0], BEGIN + sum(PHASES[:3])
    # Up to a scrape interval may be lost at each end.
    assert start <= found["end"].value - found["seconds"].value <= start + 11
    assert end - 6 <= found["end"].value <= end
    kinds = {test: (found[test].unit, found[test].better) for test in ("mean", "tier_cpu web", "client_answers")}
    assert kinds == {
        "mean": ("s", "lower"),
        "tier_cpu web": ("CPUs", "lower"),
        "client_answers": ("per second", "higher"),
    }


def test_a_sensor_that_was_reset_or_is_missing_has_no_values(prometheus: Prometheus) -> None:
    found = values(prometheus, "harmed")
    assert not {"requests", "errors", "mean", "p95", "within", "network"} & found.keys()
    assert (found["sensors"].value, found["clients_seen"].value) == (0, 2)
    assert found["client_requests"].value == pytest.approx(50)
    assert found["late_starts"].value == pytest.approx(0.5)
    assert (found["latency judged"].value, found["latency promised"].value) == (0, 0.95)
    assert not {"caused neighbour cpu", "neighbours batch cpu", "firing ObjectiveBurnsFast"} & found.keys()


def test_a_quiet_half_of_a_step_weighs_by_its_requests(tmp_path: Path) -> None:
    app = 'host="lab",platform="cgroup",app="auction-1"'
    history = {
        f"app:cpu_per_request:seconds{{{app}}}": "0.01x16 0.1x15",
        f'app:requests:rate{{{app},tier="web"}}': "90x16 0.9x15",
    }
    query = queries(Span("lab", "cgroup", 0, 1920), ["auction-1"])["cpu_per_request_with_host"]
    wanted = {'{app="auction-1"}': 0.0109}  # (0.9 + 0.09) / (90 + 0.9)
    assert_answers(tmp_path, f"round({query}, 0.0001)", 32, wanted, history)


def test_nothing_is_said_of_clients_that_restarted() -> None:
    given = {name: [Sample({"app": "auction-1"}, 1.0)] for name in ("client_requests", "client_mean", "mean")}
    given["clients_cpu"] = [Sample({}, 0.2)]
    whole = summary(["auction-1"], given)
    assert (whole["clients_cpu"], whole["client_requests"], whole["clients_seen"]) == (0.2, 1.0, 1)
    broken = summary(["auction-1"], given | {"client_broken": [Sample({"app": "auction-1"}, 1.0)]})
    assert not {"clients_cpu", "client_requests", "client_mean"} & broken.keys()
    assert (broken["mean"], broken["clients_seen"]) == (1.0, 0)


def test_who_is_delayed_by_nobody_counts_as_well() -> None:
    of_two = {"requests": [Sample({"app": app}, 10.0) for app in ("a", "b")]}
    of_two["caused"] = [Sample({"app": "a", "reason": "neighbour", "resource": "disk"}, 1.0)]
    of_two["caused"] += [Sample({"app": "b", "reason": "self", "resource": "cpu"}, 1.0)]
    assert summary(["a", "b"], of_two)["delayed disk"] == pytest.approx(0.05)


def test_each_objective_is_judged_apart_and_met_just_at_its_promise() -> None:
    promises = {("objectives", "latency"): 0.95, ("objectives", "availability"): 0.999}
    promises |= {("thresholds", "mean"): 0.1, ("thresholds", "latency"): 0.3}
    for within, errors, missed in ((0.95, 0.001, [0, 0, 0]), (0.94, 0.0, [0, 1, 0])):
        given = {name: [Sample({"app": "a"}, value)] for name, value in (("mean", 0.1), ("within", within))}
        given["errors"] = [Sample({"app": "a"}, errors)]
        for (name, objective), value in promises.items():
            given.setdefault(name, []).append(Sample({"app": "a", "objective": objective}, value))
        values = summary(["a"], given)
        assert [values[f"{objective} missed"] for objective in ("mean", "latency", "availability")] == missed
    alone = {"measured": 0.1, "promised": 0.1, "missed": 0, "judged": 1}
    assert Judged("mean", alone, apps=2).met is None, "the other could have missed it"


# --- Page -------------------------------------------------------------------------------------------------------------

OF_A_STEP = {"end": 1_795_425_000, "client_answers": 20, "tiers_cpu": 0.7, "step_cpus": 1}
ALONE: Mapping[str, float] = {}


def step(
    clients: int, mean: float | None, instances: int = 1, repetition: int = 1, more: Mapping[str, float] = ALONE
) -> list[Measurement]:
    """A step's measurements, and `more` by test; without a mean no objective is judged."""
    found = {**OF_A_STEP, "step_clients": clients / 20, "mean promised": 0.1, "mean missed": 0, "mean judged": 0}
    if mean is not None:
        found |= {"mean": mean, "mean measured": mean, "mean excess": mean / 0.1, "mean judged": instances}
        found["mean missed"] = instances * (mean > 0.1)
    return of_consolidation(Step(instances, clients, "one node", repetition), {**found, **more})


def page(*steps: list[Measurement], planned: int = 0) -> Page:
    recording = recorded("consolidation", itertools.chain(*steps), planned or len(steps), len(steps))
    written = write_up(recording)
    assert_whole(written, recording)
    return written


def test_the_page_has_repetitions_the_knee_what_broke_first_and_why() -> None:
    missed = {"availability promised": 0.999, "availability measured": 0.99, "availability excess": 10.0}
    missed |= {"availability missed": 2, "availability judged": 2, "causes neighbour": 1, "neighbours backup disk": 0.8}
    missed |= {"neighbours blog cpu": 0.1, "caused neighbour cpu": 0.6, "named cpu": 0.1}
    missed |= {"firing ObjectiveBurnsFast": 1}
    of = page(step(500, 0.04, 2), step(500, 0.046, 2, 2), step(800, 0.2552, 2, 1, missed))
    tables = {part.key: part.table.rows for part in of.sections if part.table}
    assert tables["response"][0][:4] == ("2", "500 (25 run)", "2", "43 (40 to 46)")
    assert tables["objectives"][0][-2:] == ("", "")
    named = "backup at the disk 80 %, blog at the CPU 10 %"
    assert tables["objectives"][2][-3:] == ("neighbour 100 %", named, "ObjectiveBurnsFast")
    there = "2 instances with 800 clients each"
    assert of.verdict == [
        f"The knee is between 2 instances with 500 clients each (met) and {there} (missed).",
        f"First to break, at {there}: 99 %, objective: without error at least 99.9 %.",  # the largest miss
        (
            "Most likely cause: neighbours on the same host were in its way (cause neighbour, for 100 % of the time). "
            "It waited for its neighbours: 80 % of that for backup at the disk, 10 % of that for blog at the CPU. All "
            "tiers together used 0.7 CPU of the 1 they share."
        ),
    ]
    assert list(of.remarks) == []
    [asked] = [part.asked for part in of.sections if part.key == "queries"]
    assert len(asked) == 3
    assert all("@ " in query for each in asked for query in each.queries)


def test_what_was_met_or_missed_everywhere() -> None:
    unreached = "No objective was missed: this run did not reach the knee."
    for steps, first, last in (
        ([step(500, 0.02), step(800, 0.09)], unreached, unreached),
        ([step(500, 0.02), step(800, None)], "No objective was missed where one could be judged", "No objective was"),
        ([step(500, 0.3), step(800, 0.9)], "The knee is at or below 1 instance with 500 clients, ", "Cause unknown"),
        ([step(800, 0.02), step(800, 0.2, repetition=2)], "The knee is at or below 1 instance with 800", "Cause unkn"),
        ([step(500, 0.02), step(800, 0.3, 2)], "The knee is between 1 instance with 500 clients (met) and 2", "Cause"),
    ):
        said = verdict(loads(by_step(itertools.chain(*steps), Step.parse)))
        assert said[0].startswith(first)
        assert said[-1].startswith(last)
    for more, why in (
        ({"causes unknown": 1.0}, "Cause unknown: no evidence (for 100 % of the time)."),
        ({"causes self": 1.0, "neighbours batch cpu": 0.9}, "Most likely cause: it reached its own CPU limit"),
        ({"causes load": 0.75, "causes self": 0.25}, "Most likely cause: it had more requests than ever before"),
    ):
        said = verdict(loads(by_step(step(500, 0.3, more=more), Step.parse)))
        assert said[-1].startswith(why)
        assert "batch" not in said[-1]


def test_what_the_batch_job_added_to_each_request_is_compared_with_the_waits_for_neighbours() -> None:
    def of(batch: str, mean: float, **more: float) -> list[Measurement]:
        judged = {"mean promised": 0.1, "mean missed": int(mean > 0.1), "mean judged": 1, "mean measured": mean}
        found = {"mean": mean, **judged, "mean excess": mean / 0.1}
        found |= {"held" if name == "held" else f"delayed {name}": more[name] for name in more}
        return of_consolidation(Step(1, 30, "one node", 1, batch), {**OF_A_STEP, **found})

    steps = (of("none", 0.04, cpu=0.01), of("running", 0.24, disk=0.16, cpu=0.02), of("throttled", 0.05, disk=0.01))
    assert verdict(loads(by_step(itertools.chain(*steps), Step.parse)))[-1] == (
        "The batch job added 200 ms to each request of 1 instance with 30 clients. Waiting for neighbours explains 85 %"
        " of that: 160 ms at the disk, 10 ms at the CPU."
    )
    # 1.1 s beyond the 0.2 s for which requests hold a process, three quarters of that because they wait for neighbours.
    queued = (of("none", 0.02), of("running", 1.3, cpu=0.15, held=0.2))
    assert verdict(loads(by_step(itertools.chain(*queued), Step.parse)))[-1] == (
        "The batch job added 1.28 s to each request of 1 instance with 30 clients. Waiting for neighbours explains "
        "11.7 % of that: 150 ms at the CPU. With the requests that queued for the site's processes meanwhile, it is "
        "76.2 % (estimated)."
    )
    unmeasured = (of("none", 0.04), of("running", 0.09))
    assert verdict(loads(by_step(itertools.chain(*unmeasured), Step.parse))) == [
        "No objective was missed: this run did not reach the knee.",
        "The batch job added 50 ms to each request of 1 instance with 30 clients.",
    ]
    alone = verdict(loads(by_step(itertools.chain(*steps[1:]), Step.parse)))
    assert not any("added" in said for said in alone), "it isn't known how long they took without it"


def test_what_is_missing_or_not_to_be_trusted_is_said() -> None:
    expected: list[tuple[Mapping[str, float], str]] = [
        ({"sensors": 1}, "no sensor values of 1 of 2 instances"),
        ({"clients_seen": 0}, "no client values of 2 of 2 instances"),
        ({"seconds": 45}, "reach back to 75 s before"),
        ({"late_starts": 0.5}, "the clients lacked CPU"),
        ({"unseen_failures": 0.01}, "1 % of an instance's requests failed for the clients"),
    ]
    steps = [step(number, 0.02, 2, 1, more) for number, (more, _) in enumerate(expected)]
    remarks = page(*steps, step(9, 0.02)).remarks
    assert [of for of, _ in remarks] == [f"2x{number}-1" for number in range(len(expected))]
    assert all(words in said for (_, said), (_, words) in zip(remarks, expected, strict=True))
    unknown = [one for one in step(500, None) if not one.test.startswith("mean")]
    bare = page(unknown, planned=2)
    parts = {part.key: part for part in bare.sections}
    assert parts["throughput"].figure
    assert parts["misses"].figure is parts["overhead"].figure is None
    for key, words in (
        ("misses", "perf-exporter"),
        ("overhead", "host:overhead_cpu:rate"),
        ("objectives", "no object"),
    ):
        assert words in parts[key].absent
    assert bare.verdict == [
        "Prometheus has no objectives for these applications, so none is met or missed.",
        "The run is not complete: 1 of its 2 steps are recorded.",
    ]


def test_examples_in_the_documentation_are_true() -> None:
    for module in pkgutil.walk_packages(lab.report.__path__, "lab.report."):
        assert doctest.testmod(importlib.import_module(module.name)).failed == 0, module.name
