"""A machine of the lab as its exporters show it: four sites of which one, two, then four are visited, over and over.

    lab = Lab(step_seconds=8)
    Ticking(lab.cadvisor), Ticking(lab.telegraf), ...

Values are made up to show what more applications do: slow answers, cache misses, a busy host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.dashboards import counted

SITES = 4
CPUS = 2
CPU = {"web": 3e-4, "db": 4e-5}  # of a site's tier, for each of its clients
CAP = 0.3  # of the first site's web tier
REQUESTS = 0.05  # per second, of each client
# What each tier waits for beside other tiers, in seconds per second, by what ran meanwhile.
OTHER_WAITS = {
    "/system.slice/backup.service": 0.01,
    "(host)": 0.01,
    "(idle)": 0.005,
    "(stolen)": 0.005,
    "(rest)": 0.01,
}
WAITS_FOR_TIER = 0.2  # of the one tier that each waits for

FAST, SLOW = 0.04, 0.4  # seconds that an answer takes
EDGES = (0.025, 0.05, 0.1, 0.3, 0.5, 1, 10)
INSTRUCTIONS = 1.2e9  # of a CPU second
CYCLES = 1.5e9


class Step(NamedTuple):
    """How many sites are visited, each by so many clients."""

    instances: int
    clients: int


STEPS = [Step(instances, clients) for instances in (1, 2, 4) for clients in (500, 800)]


def neighbours(step: Step) -> float:
    """How much a site disturbs the others, and how much it costs the host itself."""
    return step.instances


def slow_share(step: Step) -> float:
    """The share of slow answers."""
    return {1: 0.0, 2: 0.05, 4: 0.4}[step.instances] * step.clients / 800


def every(_step: Step) -> float:
    """1: all that was done."""
    return 1


@dataclass(frozen=True)
class Lab:
    """What each exporter says after so many seconds: a page per method."""

    step_seconds: float

    def cadvisor(self, seconds: float) -> str:
        """Of each tier's cgroup."""
        lines = [f"machine_cpu_cores {CPUS}", 'container_start_time_seconds{id="/"} 1e9']
        for site, tier in TIERS:
            of = f'id="{_cgroup(site, tier)}"'
            waited = CPU[tier] / 2 * self._visits(seconds, site, neighbours)
            lines += [
                f"container_start_time_seconds{{{of}}} 1e9",
                f'container_cpu_usage_seconds_total{{{of},cpu="total"}} {CPU[tier] * self._visits(seconds, site)}',
                f"container_pressure_cpu_waiting_seconds_total{{{of}}} {1 + waited}",
                f"container_memory_working_set_bytes{{{of}}} {50 * 2**20}",
                f"container_spec_cpu_shares{{{of}}} 1024",
                f'container_network_receive_bytes_total{{{of},interface="eth0"}} {100 * self._visits(seconds, site)}',
                f'container_network_transmit_bytes_total{{{of},interface="eth0"}} {900 * self._visits(seconds, site)}',
            ]
            if (site, tier) == (1, "web"):
                lines += [
                    f"container_spec_cpu_quota{{{of}}} {CAP * 100_000}",
                    f"container_spec_cpu_period{{{of}}} 100000",
                    f"container_cpu_cfs_throttled_seconds_total{{{of}}} {waited / 5}",
                ]
        return "\n".join(lines) + "\n"

    def node(self, seconds: float) -> str:
        """Of the whole machine: the tiers' CPU, and the host's own."""
        used = self._own(seconds) + sum(CPU[tier] * self._visits(seconds, site) for site, tier in TIERS)
        steal = 0.01 * seconds
        modes = {"user": used, "idle": CPUS * seconds - used - steal, "steal": steal}
        lines = [f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {value}' for mode, value in modes.items()]
        lines += [f'node_cpu_seconds_total{{cpu="1",mode="{mode}"}} 0' for mode in modes]
        return "\n".join([*lines, f"process_cpu_seconds_total {seconds * 0.01}"]) + "\n"

    def telegraf(self, seconds: float) -> str:
        """Of the sites' access logs."""
        lines = []
        for site in range(1, SITES + 1):
            asked = REQUESTS * self._visits(seconds, site)
            slow = REQUESTS * self._visits(seconds, site, slow_share)
            of = f'app="auction-{site}",tier="web",method="GET",status="2xx"'
            for edge in EDGES:
                below = asked if edge >= SLOW else asked - slow if edge >= FAST else 0
                lines.append(f'app_request_duration_seconds_bucket{{{of},le="{edge}"}} {below}')
            lines += [
                f'app_request_duration_seconds_bucket{{{of},le="+Inf"}} {asked}',
                f"app_request_duration_seconds_sum{{{of}}} {asked * FAST + slow * (SLOW - FAST)}",
                f"app_request_duration_seconds_count{{{of}}} {asked}",
                f'app_log_lines_unparsed_total{{app="auction-{site}",tier="web"}} {seconds if site == 1 else 0}',
            ]
        return "\n".join(lines) + "\n"

    def runner(self, seconds: float) -> str:
        """Of the step that is being measured."""
        instances, clients = STEPS[int(seconds / self.step_seconds) % len(STEPS)]
        of = (
            f'run="20261121T090512-scale",scenario="scale",step="{instances}x{clients}-1",instances="{instances}",'
            f'clients="{clients}",placement="one node",repetition="1"'
        )
        return f"lab_step_info{{{of}}} 1\nlab_step_clients{{{of}}} {clients / 5}\n"

    def perf(self, seconds: float) -> str:
        """Of the machine and each tier: misses per instruction rise with the number of sites."""
        tiers = {
            _cgroup(site, tier): _events(
                CPU[tier] * self._visits(seconds, site), CPU[tier] * self._visits(seconds, site, neighbours)
            )
            for site, tier in TIERS
        }
        own = _events(self._own(seconds), 2 * self._own(seconds))
        machine = {event: own[event] + sum(tier[event] for tier in tiers.values()) for event in own}
        return counted.page(seconds, machine, tiers)

    def sched(self, seconds: float) -> str:
        """Of each tier, what it waited for: the last site's web tier, this for the first one's."""
        lines = [
            "sched_up 1",
            f"process_cpu_seconds_total {seconds * 0.001}",
            f"sched_switches_total {5000 * seconds}",
            f"sched_wait_charged_seconds_total {0.99 * seconds}",
            f"sched_wait_kernel_seconds_total {seconds}",
            f"sched_wait_lost_seconds_total {0.001 * seconds}",
        ]
        for site, tier in TIERS:
            path = _cgroup(site, tier)
            waits = {**OTHER_WAITS, path: 0.01, _cgroup(1 if site == SITES else SITES, "web"): WAITS_FOR_TIER}
            if (site, tier) == (1, "web"):
                waits["(cap)"] = 0.05
            lines.append(f'sched_waits_total{{cgroup="{path}"}} {100 * seconds}')
            lines += [
                f'sched_wait_seconds_total{{cgroup="{path}",running="{running}"}} {share * seconds}'
                for running, share in waits.items()
            ]
        return "\n".join(lines) + "\n"

    def _own(self, seconds: float) -> float:
        """CPU seconds that the host itself has used; the first site is always visited."""
        return 2e-4 * self._visits(seconds, 1, neighbours)

    def _visits(self, seconds: float, site: int, weight: Callable[[Step], float] = every) -> float:
        """Seconds that clients have spent on a site, those of each step by its weight."""
        rounds, rest = divmod(seconds, self.step_seconds * len(STEPS))
        total = 0.0
        for number, step in enumerate(STEPS):
            begun = min(max(rest - number * self.step_seconds, 0), self.step_seconds)
            if site <= step.instances:
                total += (rounds * self.step_seconds + begun) * step.clients * weight(step)
        return total


TIERS = [(site, tier) for site in range(1, SITES + 1) for tier in CPU]


def _cgroup(site: int, tier: str) -> str:
    return f"/virtscope/auction-{site}-{tier}"


def _events(used: float, disturbed: float) -> Mapping[str, float]:
    """What is counted in so many CPU seconds, weighted by neighbours: with them, caches are missed more often."""
    missed = INSTRUCTIONS * (0.002 * used + 0.001 * disturbed)
    return {
        "instructions": INSTRUCTIONS * used,
        "cycles": CYCLES * used,
        "cache-misses": missed,
        "dTLB-load-misses": missed / 3,
        "iTLB-load-misses": missed / 12,
    }
