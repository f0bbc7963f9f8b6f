"""Costs and miss rates, made of exporters' counters: on the inputs of Menon et al. 2005, and while guests change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lab.report.network.study import load
from tests.rules.promtool import evaluate
from tests.rules.test_rules import ROOT

STUDY = load()
STEPS = 80
SECONDS = 15  # a step: between two scrapes and evaluations
RULES = [
    ROOT / f"prometheus/rules/{name}.yml" for name in ("xen", "cgroup", "base", "events", "derived", "costs", "tiers")
]
LLC_MISSES, DTLB_MISSES, ITLB_MISSES = 1e6, 1e6, 1e5  # a second, of the configuration that others are compared with
INSTRUCTIONS, BYTES = 4e9, 1e8

Series = Iterator[tuple[str, str]]


def counter(name: str, labels: str, rate: float) -> tuple[str, str]:
    return f"{name}{{{labels}}}", f"0+{rate * SECONDS:.6f}x{STEPS}"


def perf(of: str, instructions: float, misses: Mapping[str, float]) -> Series:
    """What perf-exporter counts of one machine or guest: instructions and misses a second."""
    groups = {"cache": ["cache-misses"], "tlb": ["dTLB-load-misses", "iTLB-load-misses"]}
    for group, events in groups.items():
        for event, rate in {"instructions": instructions, **{event: misses.get(event, 0) for event in events}}.items():
            yield counter("perf_events_total", f'{of},cpu="0",group="{group}",pmu="",event="{event}"', rate)


def machine(host: str, instructions: float, throughput: float, dtlb: float, itlb: float) -> Series:
    """A machine without guests."""
    of = f'host="{host}",platform="base",instance="{host}"'
    misses = {"cache-misses": LLC_MISSES, "dTLB-load-misses": dtlb, "iTLB-load-misses": itlb}
    yield from perf(f'{of},job="perf"', instructions, misses)
    yield counter("node_network_receive_bytes_total", f'{of},job="node",device="eth0"', throughput)
    yield counter("node_cpu_seconds_total", f'{of},job="node",cpu="0",mode="system"', 0.9)
    yield counter("node_cpu_seconds_total", f'{of},job="node",cpu="0",mode="idle"', 0.1)


def xen(host: str, samples: Mapping[str, int], l2_miss_rate: float) -> Series:
    """A Dom0, with what Xen itself does, and a guest if the study has one there; a sample is a million instructions."""
    of = f'host="{host}",platform="xen"'
    guest = samples.get("guest domain", 0)
    dom0 = sum(samples.values()) - guest
    yield f'xen_host_cpus{{{of},job="xentop",instance="{host}"}}', f"2x{STEPS}"
    for domid, name in [(0, "Domain-0"), (1, "guest")][: 2 if guest else 1]:
        domain = f'{of},job="xentop",instance="{host}",domid="{domid}",domain="{name}"'
        yield counter("xen_domain_cpu_seconds_total", domain, 0.5)
    yield from perf(f'{of},job="perf",instance="{host}"', dom0 * 1e6, {"cache-misses": dom0 * l2_miss_rate})
    if guest:
        inside = f'{of},vserver="guest",job="guest",instance="{host}-guest"'
        yield from perf(inside, guest * 1e6, {"cache-misses": guest * l2_miss_rate})


def ratio(record: str, of: str, to: str) -> str:
    return f'scalar({record}{{host="{of}"}}) / scalar({record}{{host="{to}"}})'


def is_about(expr: str, value: float, within: float) -> dict[str, object]:
    """A query that returns nothing if the expression has this value, and something if it has another or none."""
    return {"expr": f"vector({expr}) unless abs(vector({expr}) - {value}) <= {within}", "eval_time": "4m"}


def test_a_byte_costs_1_107_times_as_much_in_the_driver_domain_and_misses_the_tlbs_19_and_25_times_as_often(
    tmp_path: Path,
) -> None:
    published = STUDY.receiver["xen-domain0", "linux"]
    assert published.instructions
    assert published.throughput
    evaluate(
        tmp_path / "costs.yml",
        RULES,
        interval=SECONDS,
        evaluation=SECONDS,
        given=[
            *machine("linux", INSTRUCTIONS, BYTES, DTLB_MISSES, ITLB_MISSES),
            *machine(
                "domain0",
                INSTRUCTIONS * published.instructions,
                BYTES * published.throughput,
                DTLB_MISSES * published.misses["data_tlb"],
                ITLB_MISSES * published.misses["instruction_tlb"],
            ),
        ],
        expected=[
            is_about(ratio(f"{level}:{record}:ratio", "domain0", "linux"), value, within)
            for level in ("host", "vserver")
            for record, value, within in [
                ("instructions_per_byte", 1.107, 0.0005),
                ("dtlb_misses_per_instruction", 18.8, 0.05),
                ("itlb_misses_per_instruction", 24.6, 0.05),
            ]
        ],
    )


@pytest.mark.parametrize(("guest", "instructions", "l2"), [("xen-guest0", 2.068, 4.07), ("xen-guest1", 2.565, 3.90)])
def test_a_host_with_a_guest_has_twice_the_instructions_and_four_times_the_misses(
    tmp_path: Path, guest: str, instructions: float, l2: float
) -> None:
    rates = STUDY.receiver[guest, "xen-domain0"].miss_rates
    evaluate(
        tmp_path / "costs.yml",
        RULES,
        interval=SECONDS,
        evaluation=SECONDS,
        given=[
            *xen("domain0", STUDY.samples["xen-domain0"], 1000),
            *xen("guest", STUDY.samples[guest], 1000 * rates["l2"]),
        ],
        expected=[
            is_about(ratio("host:instructions:rate", "guest", "domain0"), instructions, 0.0005),
            is_about(ratio("host:llc_misses_per_instruction:ratio", "guest", "domain0"), rates["l2"], 0.0005),
            is_about(ratio("host:llc_misses:rate", "guest", "domain0"), l2, 0.005),
        ],
    )


# Of each byte, in a container's life and at any moment of it.
CPU_PER_BYTE, INSTRUCTIONS_PER_BYTE = 5e-8, 100.0


def container(name: str, rate: float, begins: int, ends: int) -> Series:
    """A container that moves `rate` bytes a second from one step to another; its sensors find it at different times."""
    of = f'host="c1",platform="cgroup",job="cadvisor",instance="c1",id="/virtscope/{name}"'
    for metric, per_byte, found in [
        ("container_network_receive_bytes_total", 1.0, 1),
        ("container_cpu_usage_seconds_total", CPU_PER_BYTE, 0),
    ]:
        label = ',interface="eth0"' if "network" in metric else ',cpu="total"'
        step = rate * per_byte * SECONDS
        yield (
            f"{metric}{{{of}{label}}}",
            f"_x{begins + found} {step * (found + 0.5):.6f}+{step:.6f}x{ends - begins - found - 1} stale",
        )
    yield f"container_start_time_seconds{{{of}}}", f"_x{begins} 1e9x{ends - begins - 1} stale"
    counted = f'host="c1",platform="base",job="perf",instance="p1",cgroup="/virtscope/{name}",group="cache",pmu=""'
    step = rate * INSTRUCTIONS_PER_BYTE * SECONDS
    yield (
        f'perf_cgroup_events_total{{{counted},event="instructions"}}',
        f"_x{begins + 1} {step:.1f}+{step:.1f}x{ends - begins - 2} stale",
    )
    yield f"perf_cgroup_group_running_seconds_total{{{counted}}}", f"_x{begins} 0+1x{ends - begins - 1} stale"


def test_costs_stay_right_while_containers_start_and_end(tmp_path: Path) -> None:
    lives = [("stays", 4e6, 0, 80), ("ends", 9e6, 0, 33), ("starts", 2e6, 37, 80), ("short", 7e6, 45, 57)]
    machine_root = 'host="c1",platform="cgroup",job="cadvisor",instance="c1",id="/"'
    on_machine = 'host="c1",platform="base",job="perf",instance="p1",cpu="0",group="cache",pmu=""'
    right = {"cpu_per_byte:seconds": CPU_PER_BYTE, "instructions_per_byte:ratio": INSTRUCTIONS_PER_BYTE}
    evaluate(
        tmp_path / "costs.yml",
        RULES,
        interval=SECONDS,
        evaluation=SECONDS,
        given=[
            *(series for life in lives for series in container(*life)),
            (f"container_start_time_seconds{{{machine_root}}}", f"1e9x{STEPS}"),
            ('machine_cpu_cores{host="c1",platform="cgroup",job="cadvisor",instance="c1"}', f"4x{STEPS}"),
            counter("perf_events_total", f'{on_machine},event="instructions"', 4e9),
        ],
        expected=[
            # From its second minute to its end, of each.
            *(
                {
                    "expr": f"max_over_time(abs(vserver:{record} / {value} - 1)[19m:15s]) > 0.02",
                    "eval_time": "19m",
                }
                for record, value in right.items()
            ),
            *(
                {
                    "expr": f'count_over_time(vserver:{record}{{vserver="virtscope/{name}"}}[20m:15s])',
                    "eval_time": "19m",
                    "exp_samples": [
                        {
                            "labels": f'{{host="c1",platform="cgroup",vserver="virtscope/{name}",role="guest"}}',
                            "value": shown,
                        }
                    ],
                }
                for record in right
                for name, shown in {"ends": 27, "starts": 34, "short": 6}.items()
            ),
        ],
    )
