"""A quarter of an hour of simulated hosts with known numbers, as input of promtool's unit tests.

values.yml has the expected values of the panels.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from tests.dashboards import experiments
from tests.support.hosts import Target, Watching, every_metric, exposed
from tests.support.hosts.feeds import Server, cadvisor, node, perf, sched, sensor, total, xentop

MINUTES, STEP_SECONDS = 12, 15
GIGA = 1e9
MEASURED = {"cache": 0.75, "tlb": 0.4}  # share of the time that the group was scheduled; the other groups never are

# A Xen host whose busy Dom0 uses 6 of 18 CPUs. Each domain waits for two others, equally long.
_CPUS, _CAPS = {"Domain-0": 6.0, "web 1": 7.0, "db": 4.0, r"ö \"q\"": 1.0}, {"web 1": 12.0, "db": 4.2}
WAITS = 0.1  # CPUs
BUSIEST = {1: "web 1", 2: "db"}
_SHARED = {"wait": WAITS, "weight": 256, "changes": 1 / 30, "read": 2e5, "write": 3e5}
DOMAINS = {
    name: Server(cpus, memory=domid * 5e8, cap=_CAPS.get(name, 0), receive=1e6 * cpus, transmit=9e6 * cpus, **_SHARED)
    for domid, (name, cpus) in enumerate(_CPUS.items(), start=1)
}
BASE = Server(cpu=0.5, memory=1e9, receive=2e6, transmit=8e6, read=1e5, write=4e5)
# Events counted by Dom0, a guest and bare metal, and tenths of cache misses by symbol: Dom0's kernel symbols as in
# Padala's report of 2007.
COUNTED = Server(instructions=1.2 * GIGA, cycles=1.5 * GIGA, llc_misses=6e6, dtlb_misses=2e6, itlb_misses=5e5)
SAMPLES = [
    *(("vmlinux", "hypervisor_callback", "kernel", 3035), ("vmlinux", "get_page_from_freelist", "kernel", 1980)),
    *(("vmlinux", "net_tx_action", "kernel", 955), ("xenstored", "do_read", "user", 161)),
    ("(other)", "(other)", "", 3869),
]


def xen1() -> Iterator[str]:
    """A host that has been up since the beginning, watched by one process."""
    yield "process_cpu_seconds_total ~0.004"
    yield from xentop(DOMAINS, cpus=24, vcpus=30)
    for domid, name in enumerate(DOMAINS):
        for other, running in BUSIEST.items():
            pair = f'domid="{domid}",domain="{name}",running_domid="{other}",running="{running}"'
            yield f"xen_domain_wait_estimated_seconds_total{{{pair}}} ~{WAITS / len(BUSIEST)}"


def counted() -> Iterator[str]:
    """perf-exporter that can't count two thirds of its events."""
    yield "process_cpu_seconds_total ~0.003"
    yield from perf(COUNTED, MEASURED)
    for group, events in {"cache": 3, "tlb": 3, "llc": 4, "branches": 4, "software": 4}.items():
        for event in range(events):
            of = f'group="{group}",event="{event}",pmu="",reason=""'
            yield f"perf_event_supported{{{of}}} {int(group in MEASURED)}"
    for image, symbol, space, count in SAMPLES:
        place = f'domain="",event="cache-misses",image="{image}",symbol="{symbol}",space="{space}"'
        yield f"perf_profile_samples_total{{{place}}} ~{count / 10}"


# The lab: the number of its four sites that are visited, by 800 clients each. Each site uses CPU in both tiers.
SITES = range(1, 5)
CLIENTS = 800
CPU_OF_CLIENT = {"web": 3e-4, "db": 4e-5}
CPU_OF_HOST = 2e-4  # per client of a site, times the number of visited sites
CAP = 0.3  # of the first site's web tier
STEAL = 0.01
FAST, SLOW = 0.04, 0.4  # response time in seconds
EDGES = (0.025, 0.05, 0.1, 0.3, 0.5, 1, 10)
# Wait of each tier in seconds per second, without waits for other tiers, by what ran meanwhile.
OTHER_WAITS = {"/system.slice/backup.service": 0.01, "(host)": 0.01, "(idle)": 0.005, "(stolen)": 0.005, "(rest)": 0.01}
WAITS_FOR_TIER = 0.2  # wait for one other tier


def tiers(visited: int) -> dict[str, Server]:
    """Each tier by its cgroup: the more sites are visited, the more it waits and the more cache misses it has."""
    found = {}
    for site in SITES:
        for tier, cpu_of_client in CPU_OF_CLIENT.items():
            clients = CLIENTS if site <= visited else 0
            cpu = cpu_of_client * clients
            waited = cpu / 2 * visited
            traffic = {"receive": 100 * clients, "transmit": 900 * clients}
            cap = {"cap": CAP, "throttled": waited / 5} if (site, tier) == (1, "web") else {}
            shown = replace(events(cpu, 2 + visited), wait=waited, memory=5e7, weight=1024, **traffic, **cap)
            found[f"/virtscope/auction-{site}-{tier}"] = shown
    return found


def events(cpu: float, misses: float) -> Server:
    """Counts for this CPU time, with this many cache misses per 1,000 instructions."""
    instructions, cycles = 1.2 * GIGA * cpu, 1.5 * GIGA * cpu
    missed = instructions * misses / 1000
    of_caches = {"llc_misses": missed, "dtlb_misses": missed / 3, "itlb_misses": missed / 12}
    return Server(cpu=cpu, instructions=instructions, cycles=cycles, **of_caches)


def machine(visited: int) -> Server:
    """The host, with twice the cache misses per instruction that it has without sites, and all tiers on it."""
    of_all = total([events(CPU_OF_HOST * CLIENTS * visited, 4), *tiers(visited).values()])
    return replace(of_all, memory=0, receive=0, transmit=0)


def access_logs(visited: int) -> Iterator[str]:
    """The sites: two of five responses are slow if all sites are visited, and the first log has unparsed lines."""
    for site in SITES:
        requests = 0.05 * CLIENTS if site <= visited else 0
        slow = 0.4 if visited == len(SITES) else 0
        below = [requests if edge >= SLOW else requests * (1 - slow) if edge >= FAST else 0 for edge in EDGES]
        yield from sensor(f"auction-{site}", requests, FAST + slow * (SLOW - FAST), EDGES, below)
        yield f'app_log_lines_unparsed_total{{app="auction-{site}",tier="web"}} ~{int(site == 1)}'


def waits() -> Iterator[str]:
    """The wait of each tier of the lab by what ran: the last site's web tier, or the first one for the last one."""
    yield "process_cpu_seconds_total ~0.001"
    yield "sched_wait_charged_seconds_total ~1.98"
    yield "sched_wait_kernel_seconds_total ~2"
    yield "sched_wait_lost_seconds_total ~0.001"
    first, last = "/virtscope/auction-1-web", "/virtscope/auction-4-web"
    yield from sched(
        {
            cgroup: {**OTHER_WAITS, cgroup: 0.01, (first if cgroup.startswith(last[:-3]) else last): WAITS_FOR_TIER}
            | ({"(cap)": 0.05} if cgroup == first else {})
            for cgroup in tiers(4)
        }
    )


STEP_OF_LAB = (
    'run="20261121T090512-scale",scenario="scale",step="4x800-1",instances="4",clients="800",placement="one node",'
    'repetition="1"'
)


TARGETS = [
    Target("xentop", "xen1", "xen", [*xen1()]),
    Target("guest", "xen1", "xen", [*counted()], vserver="web 1"),
    Target("perf", "xen1", "xen", [*counted()]),
    Target("telegraf", "xen1", "xen", [*access_logs(4)]),
    Target("node", "base1", "base", ["process_cpu_seconds_total ~0.01", *node(BASE, cpus=2)]),
    Target("perf", "base1", "base", [*counted()]),
    Target("stack", "stack1", "base", every_metric("stack")),
    Target("prometheus", "stack1", "base", every_metric("prometheus")),
    Target("cadvisor", "lab1", "cgroup", [*cadvisor(tiers(4), cpus=2)]),
    Target("telegraf", "lab1", "cgroup", [*access_logs(4)]),
    Target("lab", "lab1", "cgroup", [f"lab_step_info{{{STEP_OF_LAB}}} 1"]),
    Target("node", "lab1", "base", ["process_cpu_seconds_total ~0.01", *node(machine(4), cpus=2, steal=STEAL)]),
    Target("perf", "lab1", "base", ["process_cpu_seconds_total ~0.003", *perf(machine(4), MEASURED, tiers(4))]),
    Target("sched", "lab1", "base", [*waits()]),
    Target("cadvisor", "lab2", "cgroup", [*cadvisor(tiers(1), cpus=2)]),
    Target("telegraf", "lab2", "cgroup", [*access_logs(1)]),
    Target("node", "lab2", "base", ["process_cpu_seconds_total ~0.01", *node(machine(1), cpus=2, steal=STEAL)]),
    Target("experiments", "lab1", "cgroup", experiments.page().splitlines()),
    Target("xentop", "mute1", "xen", every_metric("mute")),
    # One of its targets and one other host are down.
    Target("xentop", "xen2", "xen", every_metric("xen", "domain")),
    Target("node", "xen2", "xen", [], up=False),
    Target("perf", "xen2", "xen", every_metric("perf", "group")),
    Target("kvm", "kvm1", "kvm", every_metric("kvm", "guest")),
    Target("vestat", "vz1", "openvz", every_metric("openvz", "ctid")),
    Target("xentop", "down1", "xen", [], up=False),
    Target("node", "down1", "xen", [], up=False),
    Target("ssh", "stack1", "base", every_metric("ssh")),
    Target("advise", "stack1", "base", every_metric("advise")),
]

_OF_XEN1, _OF_LAB1 = ('host="xen1",platform="xen"', 'host="lab1",platform="cgroup"')
# A different number for each state and severity: 2 critical, 4 warning, one internal, 1 + 2 pending.
ALERTS = [
    (f'{_OF_XEN1},alertname="GuestCrashed",severity="critical",vserver="db"', "firing", 0),
    (f'{_OF_XEN1},alertname="HostOverheadHigh",severity="warning"', "firing", 5),
    (f'{_OF_XEN1},alertname="CapBindsLong",severity="warning",vserver="db"', "pending", 6),
    ('host="down1",platform="xen",alertname="HostDown",severity="critical"', "firing", 7),
    ('host="mute1",platform="xen",alertname="SourceFailing",severity="warning"', "firing", 8),
    ('host="mute1",platform="xen",alertname="ClockSkewed",severity="critical"', "pending", 8),
    (f'{_OF_LAB1},alertname="ObjectiveBurnsSlow",severity="warning",app="auction-1",objective="latency"', "firing", 4),
    (f'{_OF_LAB1},alertname="ObjectiveMean",severity="warning",app="auction-2",objective="mean"', "firing", 9),
    (f'{_OF_LAB1},alertname="CpuWaitHigh",severity="critical",app="auction-2"', "pending", 9),
    ('host="base1",platform="base",alertname="Watchdog",severity="none"', "firing", 1),
]

WATCHING = Watching(scrape=STEP_SECONDS, seconds=MINUTES * 60)


def series() -> dict[str, str]:
    """Each series of the hosts with a sample per STEP_SECONDS, in promtool's notation."""
    samples = len(WATCHING.times)
    records = yaml.safe_load(Path(__file__).with_name("records.yml").read_text())
    found = dict(exposed(TARGETS, WATCHING))
    found |= {name: value if isinstance(value, str) else f"{value}x{samples}" for name, value in records.items()}
    of_many = 'host="old1",platform="cgroup",event="many"'
    for number in range(1, 46):
        found[f'perf_profile_samples_total{{{of_many},symbol="symbol {number}"}}'] = f"0+{15 * number}x{samples}"
    for labels, state, minute in ALERTS:
        before = minute * 60 // STEP_SECONDS
        missing = f"_x{before} " if before else ""
        found[f'ALERTS{{{labels},alertstate="{state}"}}'] = f"{missing}1x{samples - before}"
        found[f"ALERTS_FOR_STATE{{{labels}}}"] = f"{missing}{minute * 60}x{samples - before}"
    return found
