"""Costs and miss rates, made of exporters' counters: on the inputs of Menon et al. 2005, and while guests change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.report.page import Study
from tests.rules.promtool import evaluate
from tests.rules.test_rules import ROOT
from tests.support.hosts import Target, Watching, exposed
from tests.support.hosts.feeds import Server, node, perf, xentop

STUDY = Study.load("network").content
RULES = [
    ROOT / f"prometheus/rules/{name}.yml" for name in ("xen", "cgroup", "base", "events", "derived", "costs", "tiers")
]
SECONDS = 15  # between two scrapes and evaluations
MEASURED = {"cache": 1.0, "tlb": 1.0}


def assert_evaluates(folder: Path, given: Iterable[tuple[str, str]], expected: list[dict[str, Any]]) -> None:
    evaluate(folder / "costs.yml", RULES, interval=SECONDS, evaluation=SECONDS, given=given, expected=expected)


def machine(host: str, true: Server) -> Iterator[Target]:
    """A machine without guests."""
    yield Target("perf", host, "base", [*perf(true, MEASURED)])
    yield Target("node", host, "base", [*node(true, cpus=1)])


def xen(host: str, samples: Mapping[str, int], l2_miss_rate: float) -> Iterator[Target]:
    """A Dom0, with what Xen itself does, and a guest if the study has one there; a sample is a million instructions."""
    guest = samples.get("guest domain", 0)
    counts = {"Domain-0": sum(samples.values()) - guest, **({"guest": guest} if guest else {})}
    servers = {
        name: Server(cpu=0.5, instructions=count * 1e6, llc_misses=count * l2_miss_rate)
        for name, count in counts.items()
    }
    yield Target("xentop", host, "xen", [*xentop(servers, cpus=2, vcpus=2)])
    for name, true in servers.items():
        of_guest = name if name == "guest" else ""
        yield Target("guest" if of_guest else "perf", host, "xen", [*perf(true, MEASURED)], vserver=of_guest)


def ratio(record: str, of: str, to: str, value: float, within: float) -> dict[str, Any]:
    """A query that returns nothing if a host's record is so many times another's, and something if not or of none."""
    expr = f'scalar({record}{{host="{of}"}}) / scalar({record}{{host="{to}"}})'
    return {"expr": f"vector({expr}) unless abs(vector({expr}) - {value}) <= {within}", "eval_time": "4m"}


def test_a_byte_costs_1_107_times_as_much_in_the_driver_domain_and_misses_the_tlbs_19_and_25_times_as_often(
    tmp_path: Path,
) -> None:
    published = STUDY["receiver"]["xen-domain0 / linux"]
    assert published["instructions"]
    assert published["throughput"]
    linux = Server(cpu=0.9, receive=1e8, instructions=4e9, llc_misses=1e6, dtlb_misses=1e6, itlb_misses=1e5)
    domain0 = Server(
        cpu=0.9,
        receive=linux.receive * published["throughput"],
        instructions=linux.instructions * published["instructions"],
        llc_misses=linux.llc_misses,
        dtlb_misses=linux.dtlb_misses * published["misses"]["data_tlb"],
        itlb_misses=linux.itlb_misses * published["misses"]["instruction_tlb"],
    )
    targets = [*machine("linux", linux), *machine("domain0", domain0)]
    expected = [
        ratio(f"{level}:{record}:ratio", "domain0", "linux", value, within)
        for level in ("host", "vserver")
        for record, value, within in [
            ("instructions_per_byte", 1.107, 0.0005),
            ("dtlb_misses_per_instruction", 18.8, 0.05),
            ("itlb_misses_per_instruction", 24.6, 0.05),
        ]
    ]
    assert_evaluates(tmp_path, exposed(targets, Watching(SECONDS, 300)), expected)


@pytest.mark.parametrize(("guest", "instructions", "l2"), [("xen-guest0", 2.068, 4.07), ("xen-guest1", 2.565, 3.90)])
def test_a_host_with_a_guest_has_twice_the_instructions_and_four_times_the_misses(
    tmp_path: Path, guest: str, instructions: float, l2: float
) -> None:
    rate = STUDY["receiver"][f"{guest} / xen-domain0"]["miss_rates"]["l2"]
    targets = [
        *xen("domain0", STUDY["samples"]["xen-domain0"], 1000),
        *xen("guest", STUDY["samples"][guest], 1000 * rate),
    ]
    expected = [
        ratio("host:instructions:rate", "guest", "domain0", instructions, 0.0005),
        ratio("host:llc_misses_per_instruction:ratio", "guest", "domain0", rate, 0.0005),
        ratio("host:llc_misses:rate", "guest", "domain0", l2, 0.005),
    ]
    assert_evaluates(tmp_path, exposed(targets, Watching(SECONDS, 300)), expected)


# Of each byte, in a container's life and at any moment of it.
CPU_PER_BYTE, INSTRUCTIONS_PER_BYTE = 5e-8, 100.0
STEPS = 80


def container(name: str, rate: float, begins: int, ends: int) -> Iterator[tuple[str, str]]:
    """A container that moves `rate` bytes a second from one step to another; its sensors find it at different times."""
    of = f'host="c1",platform="cgroup",job="cadvisor",instance="c1",id="/virtscope/{name}"'
    for metric, label, per_byte, found in [
        ("container_network_receive_bytes_total", 'interface="eth0"', 1.0, 1),
        ("container_cpu_usage_seconds_total", 'cpu="total"', CPU_PER_BYTE, 0),
    ]:
        step = rate * per_byte * SECONDS
        counted = f"{step * (found + 0.5):.6f}+{step:.6f}x{ends - begins - found - 1}"
        yield f"{metric}{{{of},{label}}}", f"_x{begins + found} {counted} stale"
    yield f"container_start_time_seconds{{{of}}}", f"_x{begins} 1e9x{ends - begins - 1} stale"
    group = f'host="c1",platform="base",job="perf",instance="c1:perf",cgroup="/virtscope/{name}",group="cache",pmu=""'
    step = rate * INSTRUCTIONS_PER_BYTE * SECONDS
    counted = f"_x{begins + 1} {step:.1f}+{step:.1f}x{ends - begins - 2} stale"
    yield f'perf_cgroup_events_total{{{group},event="instructions"}}', counted
    yield f"perf_cgroup_group_running_seconds_total{{{group}}}", f"_x{begins} 0+1x{ends - begins - 1} stale"


def test_costs_stay_right_while_containers_start_and_end(tmp_path: Path) -> None:
    lives = [("stays", 4e6, 0, 80), ("ends", 9e6, 0, 33), ("starts", 2e6, 37, 80), ("short", 7e6, 45, 57)]
    right = {"cpu_per_byte:seconds": CPU_PER_BYTE, "instructions_per_byte:ratio": INSTRUCTIONS_PER_BYTE}
    whole = [
        Target("cadvisor", "c1", "cgroup", ["machine_cpu_cores 4", 'container_start_time_seconds{id="/"} 1e9']),
        Target("perf", "c1", "base", [*perf(Server(instructions=4e9), MEASURED)]),
    ]
    expected: list[dict[str, Any]] = []
    for record, value in right.items():
        # From its second minute to its end, of each.
        off = f"max_over_time(abs(vserver:{record} / {value} - 1)[19m:15s]) > 0.02"
        expected.append({"expr": off, "eval_time": "19m"})
        for name, shown in {"ends": 27, "starts": 34, "short": 6}.items():
            labels = f'{{host="c1",platform="cgroup",vserver="virtscope/{name}",role="guest"}}'
            expr = f'count_over_time(vserver:{record}{{vserver="virtscope/{name}"}}[20m:15s])'
            expected.append({"expr": expr, "eval_time": "19m", "exp_samples": [{"labels": labels, "value": shown}]})
    given = [
        *exposed(whole, Watching(SECONDS, STEPS * SECONDS)),
        *(each for life in lives for each in container(*life)),
    ]
    assert_evaluates(tmp_path, given, expected)
