"""What panels must show of the hosts in history.py: a table of each page, worked out by hand from what these expose.

A row is a panel's title, in a table with the column's, in a graph of several queries with the query's letter; then its
value, or values by what is shown beside them. Most are written as the sum that they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tests.dashboards.history import CAPS, WAITS
from tests.dashboards.history import CPUS_OF_DOMAINS as DOMAINS

Values: TypeAlias = float | Mapping[str, float]


class By(NamedTuple):
    """Values by these labels, where others are shown as well."""

    labels: list[str]
    values: Mapping[str, float]


class View(NamedTuple):
    """A page with a choice of its variables."""

    page: str
    chosen: Mapping[str, str]
    rows: Mapping[str, Values | By]


# Of variables that a view doesn't choose.
CHOSEN = {
    "__interval": "15s",
    "__interval_ms": "15000",
    "__rate_interval": "60s",
    "__range": "600s",
    "__range_s": "600",
    **dict.fromkeys(("platform", "hosts", "app", "vserver", "run", "test"), ".*"),
    **dict.fromkeys(("most_overhead", "most_used", "most_misses", "most_burn"), ".*"),
    "baseline": "base",
}


def on(host: str, platform: str, **chosen: str) -> dict[str, str]:
    """The choice of one host."""
    return {"host": host, "host_platform": platform, **chosen}


def columns(title: str, columns: Mapping[str, Values | By]) -> dict[str, Values | By]:
    """Rows of a table, or of a graph's queries."""
    return {f"{title}: {column}": values for column, values in columns.items()}


def each(value: float, *others: str) -> dict[str, float]:
    """What there is of both guests of a platform's own metrics: of db ten times as much."""
    return {" ".join([guest, *others]): value * factor for guest, factor in (("web", 1), ("db", 10))}


# --- The Xen host: Dom0 and three guests, 18 of 24 CPUs used ----------------------------------------------------------

ROLES = {name: "host" if name == "Domain-0" else "guest" for name in DOMAINS}
LEGENDS = {name: f"{name}  (host)" if name == "Domain-0" else name for name in DOMAINS}
GUESTS = [name for name in DOMAINS if name != "Domain-0"]
CAPACITY, USED, OWN = 24, 18, 6
MONITORING = 0.004 + 0.003  # xentop-exporter and perf-exporter; a guest's own is in the guest


def of_domains(values: Mapping[str, float]) -> dict[str, float]:
    """As rows of a table have them."""
    return {f"{name} {ROLES[name]}": value for name, value in values.items()}


def in_legends(values: Mapping[str, float]) -> dict[str, float]:
    """As a graph has them."""
    return {LEGENDS[name]: value for name, value in values.items()}


WAITING = dict.fromkeys(DOMAINS, WAITS)
LIMITS_USED = {"web 1": 7 / 12, "db": 4 / 4.2}
MEMORY = {name: (domid + 1) * 2.0**29 for domid, name in enumerate(DOMAINS)}
NETWORK = {name: 10e6 * cpus for name, cpus in DOMAINS.items()}

HOST_XEN = View(
    "host",
    {**on("xen1", "xen"), "platform": "xen"},
    {
        # It opens on the host with the severest alerts, and of equal ones on that with more overhead.
        "$host": {"xen1": 1001 + 0.4 * OWN / USED, "down1": 1000, "mute1": 1, "xen2": 0},
        "": 0,
        "Overhead ratio": {"xen1": OWN / USED},
        "Overhead (CPUs)": {"xen1": OWN},
        "CPU utilisation": {"xen1": USED / CAPACITY},
        "Monitoring overhead": {"xen1": MONITORING / CAPACITY},
        "Overhead ratio over time": {"xen1": OWN / USED},
        "CPU usage and capacity: A": {"Domain-0": OWN},
        "CPU usage and capacity: B": {name: DOMAINS[name] for name in GUESTS},
        "CPU usage and capacity: C": {},
        "CPU usage and capacity: D": CAPACITY,
        "CPU usage and capacity: E": 0.25 + 0.5,
        # Pending ones as well: active since the minutes 0, 5 and 6 of 12.
        "Alerts: Active for": By(
            ["alertname", "alertstate"],
            {"GuestCrashed firing": 720, "HostOverheadHigh firing": 420, "CapBindsLong pending": 360},
        ),
        "CPU wait": in_legends(WAITING),
        "CPU wait / demand: A": in_legends({name: WAITS / (WAITS + cpus) for name, cpus in DOMAINS.items()}),
        "CPU wait / demand: B": 0,  # less than one busy vCPU per CPU
        "CPU cap utilisation": LIMITS_USED,
        "Virtual servers: CPU used": of_domains(DOMAINS),
        "Virtual servers: Utilisation": of_domains({name: cpus / CAPACITY for name, cpus in DOMAINS.items()}),
        "Virtual servers: CPU wait": of_domains(WAITING),
        "Virtual servers: Cap": of_domains(CAPS),
        "Virtual servers: Throttled": {},
        "Virtual servers: Weight": of_domains(dict.fromkeys(DOMAINS, 256)),
        "Virtual servers: Memory": of_domains(MEMORY),
        "Overhead per request": {"xen1": OWN / 160},  # four sites, 40 requests a second each
        "Overhead per GB": {"xen1": OWN / 0.18},  # Dom0's CPU for 180 MB a second
        "Reallocations per minute": {"xen1": 8},  # two of each domain
        "Monitoring CPU by job": {"xentop": 0.004, "perf": 0.003},
    },
)

HOST_MUTE = View(
    "host",
    on("mute1", "xen"),
    {
        "Virtual servers: CPU used": {},
        "Overhead ratio": {},
        "Alerts: Active for": By(["alertname"], {"SourceFailing": 240, "ClockSkewed": 240}),
        "Monitoring CPU by job": {"xentop": 0.004},
    },
)
HOST_BASE = View(
    "host",
    on("base1", "base"),
    {
        "Overhead ratio": {},
        "CPU utilisation": {"base1": 0.5 / 2},
        "CPU usage and capacity: A": {"base1": 0.5},
        "CPU usage and capacity: D": 2,
        "Virtual servers: CPU used": {"base1 host": 0.5},
        "Virtual servers: Memory": {"base1 host": 2.0**30},
    },
)

# --- The lab: four sites, each visited by 800 clients, of two tiers ---------------------------------------------------

SITES = range(1, 5)
APPS = [f"auction-{site}" for site in SITES]
TIER = {"web": 0.24, "db": 0.032}  # CPUs: 800 clients, 0.3 and 0.04 ms of each
TIERS = {f"virtscope/{app}-{tier}": cpus for app in APPS for tier, cpus in TIER.items()}
SITE = sum(TIER.values())
OWN_LAB, USED_LAB, STOLEN = 0.64, 0.64 + 4 * SITE, 0.01  # the host itself: 0.2 ms of 800 clients, four times that
REQUESTS = 40.0  # a second and site: 0.05 of each client
MEAN = 0.6 * 0.04 + 0.4 * 0.4  # seconds: two of five answers are slow
# A tier waits 0.2 for another one, 0.01 for a service, the host, an unknown one and itself, 0.005 each for a CPU that
# wakes up and for a hypervisor.
FOR_NEIGHBOUR, FOR_SELF = 0.2, 0.01
WAITED = 0.25 - 0.005
GUESTS_OF_LAB = {f"{name} guest": cpus for name, cpus in TIERS.items()}


def of_apps(value: float) -> dict[str, float]:
    """The same of each site."""
    return dict.fromkeys(APPS, value)


def of_objectives(**values: float) -> dict[str, float]:
    """The same objectives of each site."""
    return {f"{app} {objective}": value for app in APPS for objective, value in values.items()}


HOST_LAB = View(
    "host",
    on("lab1", "cgroup"),
    {
        "Overhead ratio": {"lab1": OWN_LAB / USED_LAB},
        "Overhead (CPUs)": {"lab1": OWN_LAB},
        "CPU utilisation": {"lab1": (USED_LAB + STOLEN) / 2},
        "Monitoring overhead": {"lab1": (0.01 + 0.003 + 0.001) / 2},  # node, perf, sched
        "CPU wait / demand: A": {name: 0.25 / (0.25 + cpus) for name, cpus in TIERS.items()},
        "CPU cap utilisation": {"virtscope/auction-1-web": 0.24 / 0.3},
        "Virtual servers: CPU used": {**GUESTS_OF_LAB, "lab1 host": OWN_LAB},
        "Virtual servers: Cap": {"virtscope/auction-1-web guest": 0.3},
        # A fifth of what waits: half of its CPU, four neighbours.
        "Virtual servers: Throttled": {"virtscope/auction-1-web guest": 0.24 / 2 * 4 / 5},
        "Virtual servers: Weight": dict.fromkeys(GUESTS_OF_LAB, 1024),
        "Virtual servers: Memory": dict.fromkeys(GUESTS_OF_LAB, 50 * 2.0**20),
        "Overhead per request": {"lab1": OWN_LAB / 160},
        "Overhead per GB": {"lab1": OWN_LAB / 0.0064},  # 1,000 bytes of 800 clients and eight tiers
    },
)

BURN = {"latency": 0.4 / 0.01, "availability": 0.0}  # of the requests, a hundredth may be slower than 0.3 s
OBJECTIVES = [*BURN, "mean"]
NEIGHBOURS = {app: "virtscope/auction-1-web" if app == "auction-4" else "virtscope/auction-4-web" for app in APPS}
NAMED = {f"{app} {by}": 1.0 for app, by in NEIGHBOURS.items()}
BREACHES = {"ObjectiveBurnsSlow auction-1 latency neighbour": 4, "ObjectiveMean auction-2 mean neighbour": 9}
# Of both tiers of a site: what each waits for, over the CPU that it uses; as evidence from half on.
SCORES = {
    "neighbour": 2 * FOR_NEIGHBOUR / SITE / 0.5,
    "hypervisor": 2 * 0.02 / SITE / 0.5,  # the host's own and a service of it
    "load": REQUESTS / 1.2 / REQUESTS,
}
MAX_REQUESTS = 60.0  # of auction-2 in the past week
SELF = 0.24 / (0.9 * 0.3)
EVIDENCE = {f"{app} {cause}": score for app in APPS for cause, score in SCORES.items()} | {
    "auction-1 self": SELF,
    "auction-2 load": REQUESTS / 1.2 / MAX_REQUESTS,
}
REASONS = {
    "neighbour": 8 * FOR_NEIGHBOUR,
    "self": 8 * FOR_SELF,
    "cap": 0.05,
    "host": 8 * 0.02,
    "unknown": 8 * 0.01,
    "stolen": 8 * 0.005,
    "wakeup": 8 * 0.005,
}

APPLICATIONS = View(
    "applications",
    on("lab1", "cgroup"),
    {
        "": 0,
        "Mean / target": MEAN / 0.1,
        "Min budget left": 1 - BURN["latency"],
        "Max burn rate": BURN["latency"],
        "Max error ratio": 0,
        "Mean response: A": of_apps(MEAN),
        "Mean response: B": 0.1,
        "99th percentile: A": of_apps(0.3 + 0.2 * 0.39 / 0.4),
        "99th percentile: B": 0.3,
        "Applications: Mean": of_apps(MEAN),
        "Applications: Median": of_apps(0.025 + 0.025 * 0.5 / 0.6),
        "Applications: 95th": of_apps(0.3 + 0.2 * 0.35 / 0.4),
        "Applications: 99th": of_apps(0.3 + 0.2 * 0.39 / 0.4),
        "Applications: Request rate": of_apps(REQUESTS),
        "Applications: Error ratio": of_apps(0),
        "Applications: CPU": of_apps(SITE),
        "Applications: CPU/request": of_apps(SITE * USED_LAB / (4 * SITE) / REQUESTS),  # with its part of the overhead
        "Response time distribution": {
            "0.025": 0,
            "0.05": 96,
            "0.1": 96,
            "0.3": 96,
            **dict.fromkeys(("0.5", "1", "10", "+Inf"), 160),
        },
        "Median response": of_apps(0.025 + 0.025 * 0.5 / 0.6),
        "95th percentile": of_apps(0.3 + 0.2 * 0.35 / 0.4),
        **columns(
            "Objectives",
            {
                **dict.fromkeys(("Burn 5 m", "1 h", "6 h", "1 d", "3 d"), of_objectives(**BURN)),
                "Budget left": of_objectives(latency=1 - 40, availability=1),
                "Target": of_objectives(latency=0.99, availability=0.999),
                "Threshold": of_objectives(latency=0.3, mean=0.1),
            },
        ),
        "Burn rate over 5 minutes": of_objectives(**BURN),
        "Burn rate over 1 hour": of_objectives(**BURN),
        "Error budget left": of_objectives(latency=1 - 40, availability=1),
        "Objective breaches by cause": {
            **of_objectives(**dict.fromkeys(OBJECTIVES, 0)),
            "auction-1 latency": 2,
            "auction-2 mean": 2,
        },
        "Named neighbours: Would give back at most": dict.fromkeys(NAMED, 2 * FOR_NEIGHBOUR),
        "Named neighbours: Share": NAMED,
        # In milliseconds of Unix time, for Grafana.
        "Latest breaches: Last seen": dict.fromkeys(BREACHES, 720_000),
        # A sample each 15 s, of the last 10 minutes, since the minutes 4 and 9.
        "Latest breaches: Duration": {name: (12 - since) * 60 + 15 for name, since in BREACHES.items()},
        "Evidence during breaches: Score": {
            name: score for name, score in EVIDENCE.items() if name.split()[0] in APPS[:2]
        },
        "Evidence over time": EVIDENCE,
        "CPU cap (self)": {"virtscope/auction-1-web": SELF},
        "CPU wait ratio (neighbour): A": of_apps(2 * 0.25 / SITE),
        "CPU wait ratio (neighbour): B": {"auction-1": 0.9},
        "CPU usage of neighbours": of_apps(3 * SITE),
        "Request rate and past maximum: A": of_apps(REQUESTS),
        "Request rate and past maximum: B": {**of_apps(REQUESTS), "auction-2": MAX_REQUESTS},
        "Host overhead (hypervisor)": {"lab1": OWN_LAB / USED_LAB},
        "Host CPU steal (hypervisor)": {"lab1": STOLEN},
        "Waiting for each neighbour (neighbour): A": {"virtscope/auction-4-web": 1.2, "virtscope/auction-1-web": 0.4},
        "Waiting for each neighbour (neighbour): B": {},
        "Waiting by reason (neighbour)": REASONS,
    },
)

COSTS_OF_REQUEST = SITE * USED_LAB / (4 * SITE) / REQUESTS
# 4 of 1,000 instructions miss the host's own caches, 6 those of a site among four.
MPKI = (4 * OWN_LAB + 6 * 4 * SITE) / USED_LAB
BY_STEP = {
    "Mean response": MEAN,
    "Throughput": 160,
    "Application CPU": 4 * SITE,
    "Overhead": OWN_LAB,
    "LLC MPKI": MPKI,
    "CPU per request": COSTS_OF_REQUEST,
}
FREE_LAB = 2 - USED_LAB - STOLEN

CONSOLIDATION = View(
    "consolidation",
    on("lab1", "cgroup"),
    {
        "": 0,
        "Headroom (apps)": 3,  # of 3.7
        "Headroom now": 0,  # an objective is missed
        "Headroom in a week": 1,  # of 1.2
        "Applications": 4,
        "Headroom over time: A": FREE_LAB / (USED_LAB / 4),
        "Headroom over time: B": 0,
        "Headroom over time: C": 4,
        "Mean response and objective: A": of_apps(MEAN),
        "Mean response and objective: B": 0.1,
        "CPU usage by application: A": of_apps(SITE),
        "CPU usage by application: B": OWN_LAB,
        "CPU usage by application: C": 2,
        "Throughput": of_apps(REQUESTS),
        "Response / objective": of_objectives(latency=3, mean=MEAN / 0.1),  # 40 is shown as 3
        "CPU per request": of_apps(COSTS_OF_REQUEST),
        "Overhead ratio": {"lab1": OWN_LAB / USED_LAB},
        "LLC MPKI": {"cgroup": MPKI},
        **{f"{name} by apps": By(["apps"], {"4": value}) for name, value in BY_STEP.items()},
        **{f"{name} by clients": By(["clients"], {"800": value}) for name, value in BY_STEP.items()},
    },
)

# Four sites of which one is visited, by 800 clients. All answers are fast: 0.04 of 0.1 s leaves 60 % of the free CPU.
HEADROOM = (2 - 0.16 - SITE - STOLEN) / ((0.16 + SITE) / 4)
CONSOLIDATION_OF_ONE = View(
    "consolidation",
    on("lab2", "cgroup"),
    {
        "Headroom now": 8,  # of 8.66
        "Headroom over time: A": HEADROOM,
        "Headroom over time: B": HEADROOM * 0.6,
    },
)

# --- All hosts --------------------------------------------------------------------------------------------------------

OVERHEAD = {"xen1": OWN / USED, "lab1": OWN_LAB / USED_LAB, "lab2": 0.16 / (0.16 + SITE), "kvm1": (1.4 - 0.66) / 1.4}
LAB2_USED = (0.16 + SITE + STOLEN) / 2
OF_PLATFORM = {"base": 4, "cgroup": 2, "kvm": 1, "openvz": 1, "xen": 4}
NO_HOST = dict.fromkeys(OF_PLATFORM, 0)

FLEET = View(
    "fleet",
    {"hosts": "(xen|lab|base|stack|mute|down|kvm|vz).+"},  # not old1 and demo-xen
    {
        "": 0,
        # A host's worst alert, and a millionth of the points of all; a warning is one, a critical alert a thousand.
        "Hosts that need attention": {
            "xen1 GuestCrashed  db": 1000 + 1001e-6,
            "down1 HostDown": 1000 + 1000e-6,
            "lab1 ObjectiveBurnsSlow auction-1": 1 + 2e-6,
            "mute1 SourceFailing": 1 + 1e-6,
        },
        "Hosts": 10,
        "Down": 1,
        "Critical": 2,
        "Warnings": 4,
        "Hosts by severity: Severity": By(
            ["host", "platform"],
            {
                "xen1 xen": 1001 + 0.4 * OVERHEAD["xen1"],
                "down1 xen": 1000,
                "lab1 cgroup": 2 + 0.4 * OVERHEAD["lab1"],
                "lab1 base": 2,
                "mute1 xen": 1,
                "kvm1 kvm": 0.4 * OVERHEAD["kvm1"],
                "lab2 cgroup": 0.4 * OVERHEAD["lab2"],
                **dict.fromkeys(("lab2 base", "base1 base", "stack1 base", "vz1 openvz", "xen2 xen"), 0),
            },
        ),
        "Hosts by severity: Alerts": By(
            ["host"],
            {
                "xen1": 2,
                "down1": 1,
                "lab1": 4,
                "mute1": 1,  # of lab1 on both platforms
                **dict.fromkeys(("lab2", "base1", "stack1", "kvm1", "vz1", "xen2"), 0),
            },
        ),
        "Hosts by severity: Burn rate": By(["host"], {"lab1": 40, "xen1": 40, "lab2": 0}),
        "Hosts by severity: Headroom": By(["host"], {"lab1": 3, "lab2": 8}),
        "Hosts by severity: Overhead": By(["host"], OVERHEAD),
        "Hosts by severity: CPU used": By(
            ["host", "platform"],
            {
                "xen1 xen": USED / CAPACITY,
                "base1 base": 0.25,
                **dict.fromkeys(("lab1 base", "lab1 cgroup"), (USED_LAB + STOLEN) / 2),
                **dict.fromkeys(("lab2 base", "lab2 cgroup"), LAB2_USED),
                "kvm1 kvm": 1.4 / 16,
                "xen2 xen": (0.5 + 5) / 8,
            },
        ),
        "Hosts by severity: LLC MPKI": By(
            ["host", "platform"],
            {"xen1 xen": 5, "base1 base": 5, "lab1 base": MPKI, "lab1 cgroup": MPKI},
        ),
        "Firing alerts: Active for": By(
            ["alertname", "cause"],
            {
                "GuestCrashed": 720,
                "HostOverheadHigh": 420,
                "HostDown": 300,
                "SourceFailing": 240,
                "ObjectiveBurnsSlow neighbour": 480,
                "ObjectiveMean neighbour": 180,
            },
        ),
        "Hosts by platform and shard: Critical": {**NO_HOST, "xen": 2},
        "Hosts by platform and shard: Warning": {**NO_HOST, "xen": 1, "cgroup": 1, "base": 1},
        "Hosts by platform and shard: Down": {**NO_HOST, "xen": 1},
        "Hosts by platform and shard: Hosts": OF_PLATFORM,
        "Overhead ratio": OVERHEAD,
        "CPU utilisation": {
            "xen1": USED / CAPACITY,
            "base1": 0.25,
            "kvm1": 1.4 / 16,
            "xen2": 5.5 / 8,
            "lab1": USED_LAB + STOLEN,
            "lab2": 2 * LAB2_USED,  # on both platforms
        },
        "LLC misses per 1,000 instructions": {"xen1": 5, "base1": 5, "lab1": 2 * MPKI},
        "Max burn rate": {"lab1": 40, "xen1": 40, "lab2": 0},
    },
)

# --- Side by side -----------------------------------------------------------------------------------------------------

# The bare machine has 0.5 CPUs, 1 GiB, 10 MB of network and 0.5 MB of disk a second, as each domain of disk.
BASE_NETWORK, BASE_MEMORY, DISK = 10e6, 2.0**30, 5e5
COUNTING = {"xen1 Domain-0": 1, "xen1 web 1": 1, "base1 base1": 1}  # perf-exporter says the same of all


def beside(of_xen: Mapping[str, float], of_base: float | None, baseline: float = 1) -> dict[str, float]:
    """Of the domains and the bare machine."""
    values = {f"xen1 {name}": value / baseline for name, value in of_xen.items()}
    return values if of_base is None else {**values, "base1 base1": of_base / baseline}


VIRTUAL_SERVERS = View(
    "virtual-servers",
    {"hosts": "xen1|base1", "base_host": "base1", "base_vserver": "base1"},
    {
        "": 0,
        "CPU used": beside(DOMAINS, 0.5),
        "CPU used / baseline": beside(DOMAINS, 0.5, 0.5),
        "Virtual servers: CPU used": By(["host", "vserver"], beside(DOMAINS, 0.5)),
        "Virtual servers: CPU ratio": By(["host", "vserver"], beside(DOMAINS, 0.5, 0.5)),
        "Virtual servers: CPU wait": By(["host", "vserver"], beside(WAITING, None)),
        "Virtual servers: Memory": By(["host", "vserver"], beside(MEMORY, BASE_MEMORY)),
        "Virtual servers: Network": By(["host", "vserver"], beside(NETWORK, BASE_NETWORK)),
        "Virtual servers: LLC MPKI": By(["host", "vserver"], dict.fromkeys(COUNTING, 5)),
        "Virtual servers: IPC": By(["host", "vserver"], dict.fromkeys(COUNTING, 0.8)),
        "LLC misses per 1,000 instructions": dict.fromkeys(COUNTING, 5),
        "LLC misses per 1,000 instructions / baseline": COUNTING,
        "Instructions per cycle": dict.fromkeys(COUNTING, 0.8),
        "Instructions per cycle / baseline": COUNTING,
        "CPU wait": beside(WAITING, None),
        # Four wait for web 1 and db, 0.05 each; of these two, one waits for itself.
        "Who ran meanwhile: A": {"web 1": 3 * 0.05, "db": 3 * 0.05, "own threads": 2 * 0.05},
        "Who ran meanwhile: B": {},
        "Waiting by reason": {"neighbour": 6 * 0.05, "self": 2 * 0.05},
        "Memory": beside(MEMORY, BASE_MEMORY),
        "Memory / baseline": beside(MEMORY, BASE_MEMORY, BASE_MEMORY),
        "Network": beside(NETWORK, BASE_NETWORK),
        "Network / baseline": beside(NETWORK, BASE_NETWORK, BASE_NETWORK),
        "Disk": beside(dict.fromkeys(DOMAINS, DISK), DISK),
        "Disk / baseline": beside(dict.fromkeys(DOMAINS, 1), 1),
    },
)

NEIGHBOURS_PAGE = View(
    "neighbours",
    on("lab1", "cgroup"),
    {
        "": 0,
        "Who waits for whom on the host": By(
            ["column"],
            {
                "virtscope/auction-4-web": 6 * FOR_NEIGHBOUR + 0.01,  # and for itself
                "virtscope/auction-1-web": 2 * FOR_NEIGHBOUR + 0.01,
                "backup.service": 8 * 0.01,
                "host": 8 * 0.01,
                "(others)": 8 * 0.01,
                "(total)": 8 * (FOR_NEIGHBOUR + 0.03),
            },
        ),
        "Who ran meanwhile: A": {
            "virtscope/auction-4-web": 1.2,
            "virtscope/auction-1-web": 0.4,
            "own threads": 0.08,
            "host": 0.08,
            "system.slice/backup.service": 0.08,
            "(unknown)": 0.08,
            "(cap)": 0.05,
            "(stolen)": 0.04,
            "(wakeup)": 0.04,
        },
        "Who ran meanwhile: B": {},
        "Waiting by reason": REASONS,
        "Named neighbours of the host's applications: Would give back at most": dict.fromkeys(NAMED, 2 * FOR_NEIGHBOUR),
        "Named neighbours of the host's applications: Share": NAMED,
        **columns(
            "Reallocated neighbours of the host's applications",
            {"Predicted, at most": {"auction-1 batch": 0.33}, "Measured": {"auction-1 batch": 0.29}},
        ),
    },
)

# --- Costs, against the lab -------------------------------------------------------------------------------------------

TRAFFIC = {"base1 base": 10e6, "lab1 cgroup": 6.4e6, "xen1 xen": 180e6}
CPUS_USED = {"base1 base": 0.5, "lab1 cgroup": USED_LAB, "xen1 xen": USED}
# Of one guest and Dom0 on Xen, where each counts its own. lab1 is a bare machine as well.
INSTRUCTIONS = {"base1 base": 1.2e9, "lab1 base": 1.2e9 * USED_LAB, "lab1 cgroup": 1.2e9 * USED_LAB, "xen1 xen": 2.4e9}
PER_BYTE = {host: INSTRUCTIONS[host] / TRAFFIC[host] for host in ("base1 base", "lab1 cgroup")}
CPU_PER_BYTE = {host: CPUS_USED[host] / TRAFFIC[host] for host in TRAFFIC}
MISS_RATES = {"base1 base": 5, "lab1 base": MPKI, "lab1 cgroup": MPKI, "xen1 xen": 5}
MISSES = {host: MISS_RATES[host] * INSTRUCTIONS[host] for host in MISS_RATES}


def to_lab(values: Mapping[str, float]) -> By:
    """Divided by the lab's."""
    return By(["host", "platform"], {host: value / values["lab1 cgroup"] for host, value in values.items()})


def to_web(base1: float, dom0: float, web: float, db: float | None = None) -> By:
    """Of base1, Dom0, and the first site's tiers, divided by the latter's web."""
    found = {"base1": base1 / web, "Domain-0": dom0 / web, "virtscope/auction-1-web": 1.0}
    return By(["vserver"], found if db is None else {**found, "virtscope/auction-1-db": db / web})


COSTS = View(
    "costs",
    {
        "hosts": "xen1|base1|lab1",
        "vserver": "base1|Domain-0|virtscope/auction-1-web",
        "base_time": "1ms",
        "base_host": "lab1",
        "base_platform": "cgroup",
        "base_vserver": "virtscope/auction-1-web",
    },
    {
        "": 0,
        "Hosts: a byte / baseline: Cost ratio": to_lab(PER_BYTE),
        "Hosts: a byte / baseline: Cost (CPU)": to_lab(CPU_PER_BYTE),
        "Hosts: a byte / baseline: Instr. ratio": to_lab(INSTRUCTIONS),
        "Hosts: a byte / baseline: Traffic ratio": to_lab(TRAFFIC),
        "Hosts: a byte / baseline: Cost (cycles)": to_lab(PER_BYTE),
        "Hosts: a byte / baseline: Instr./byte": By(["host"], {"base1": 120, "lab1": 324}),
        "Hosts: a byte / baseline: CPU/byte": By(["host", "platform"], CPU_PER_BYTE),
        **columns(
            "Hosts: misses / baseline",
            {
                **dict.fromkeys(("LLC rate", "dTLB rate", "iTLB rate"), to_lab(MISS_RATES)),
                **dict.fromkeys(("LLC misses", "dTLB misses", "iTLB misses"), to_lab(MISSES)),
                "IPC": to_lab(dict.fromkeys(MISS_RATES, 1)),
            },
        ),
        "A byte / baseline: Cost ratio": to_web(1.2e9 / 10e6, 1.2e9 / 60e6, 0.24 * 1.2e9 / 0.8e6),
        "A byte / baseline: Cost (CPU)": to_web(0.5 / 10e6, 6 / 60e6, 0.24 / 0.8e6),
        "A byte / baseline: Instr. ratio": to_web(1, 1, 0.24),
        "A byte / baseline: Traffic ratio": to_web(10e6, 60e6, 0.8e6),
        "A byte / baseline: Cost (cycles)": to_web(1.2e9 / 10e6, 1.2e9 / 60e6, 0.24 * 1.2e9 / 0.8e6),
        "A byte / baseline: Instr./byte": By(
            ["vserver"], {"base1": 120, "Domain-0": 20, "virtscope/auction-1-web": 360}
        ),
        "A byte / baseline: CPU/byte": By(
            ["vserver"], {"base1": 5e-8, "Domain-0": 1e-7, "virtscope/auction-1-web": 3e-7}
        ),
        **columns(
            "Misses / baseline",
            {
                **dict.fromkeys(("LLC rate", "dTLB rate", "iTLB rate"), to_web(5, 5, 6)),
                **dict.fromkeys(("LLC misses", "dTLB misses", "iTLB misses"), to_web(5, 5, 6 * 0.24)),
                "IPC": to_web(1, 1, 1),
            },
        ),
        "Hosts: a request / baseline: Cost ratio": By(["host"], {"lab1": 1}),
        "Hosts: a request / baseline: Cost (CPU)": By(["host"], {"lab1": 1, "xen1": (USED / 160) / (USED_LAB / 160)}),
        "Hosts: a request / baseline: Rate ratio": By(["host"], {"lab1": 1, "xen1": 1}),
        "Hosts: a request / baseline: Cost (cycles)": By(["host"], {"lab1": 1}),
        "Hosts: a request / baseline: Instr./request": By(["host"], {"lab1": 1.2e9 * USED_LAB / 160}),
        "Hosts: a request / baseline: CPU/request": By(["host"], {"lab1": USED_LAB / 160, "xen1": USED / 160}),
        **columns(
            "A request / baseline",
            {
                **dict.fromkeys(
                    ("Cost ratio", "Cost (CPU)", "Rate ratio", "Cost (cycles)"),
                    By(["vserver"], {"virtscope/auction-1-web": 1}),
                ),
                "Instr./request": By(["vserver"], {"virtscope/auction-1-web": 1.2e9 * 0.24 / REQUESTS}),
                "CPU/request": By(["vserver"], {"virtscope/auction-1-web": 0.24 / REQUESTS}),
            },
        ),
        "Hosts: Instructions per byte": PER_BYTE,
        "Hosts: CPU per byte": CPU_PER_BYTE,
        "Hosts: Throughput": TRAFFIC,
        "Instructions per byte": By(["vserver"], {"base1": 120, "Domain-0": 20, "virtscope/auction-1-web": 360}),
        "CPU per byte": By(["vserver"], {"base1": 5e-8, "Domain-0": 1e-7, "virtscope/auction-1-web": 3e-7}),
        "Throughput": By(["vserver"], {"base1": 10e6, "Domain-0": 60e6, "virtscope/auction-1-web": 0.8e6}),
    },
)

# --- Events -----------------------------------------------------------------------------------------------------------

COUNTED = ("Domain-0", "web 1")


def counted(value: float) -> dict[str, float]:
    """Of both that count, as a graph has them."""
    return in_legends(dict.fromkeys(COUNTED, value))


EVENTS = View(
    "caches-and-events",
    on("xen1", "xen"),
    {
        "": 0,
        "LLC MPKI (host)": {"xen": 0.006 / 1.2 * 1000},
        "IPC (host)": {"xen": 1.2 / 1.5},
        "Min measured share": {"xen": 0.4},
        "Events not counted": 2 * 12,  # of 18, six are counted
        "LLC MPKI": counted(0.006 / 1.2 * 1000),
        "IPC": counted(1.2 / 1.5),
        "Measured share": counted(0.75),
        **{
            f"Misses per 1,000 instructions: {column}": By(["vserver"], dict.fromkeys(COUNTED, value))
            for column, value in {
                "LLC MPKI": 0.006 / 1.2 * 1000,
                "IPC": 1.2 / 1.5,
                "Measured": 0.75,
                "dTLB MPKI": 0.002 / 1.2 * 1000,
                "iTLB MPKI": 0.0005 / 1.2 * 1000,
                "TLB measured": 0.4,
                "Instructions": 1.2e9,
            }.items()
        },
        "Misses per 1,000 instructions: Median 1 w": By(["vserver"], {"web 1": 4}),
        "dTLB MPKI": counted(0.002 / 1.2 * 1000),
        "iTLB MPKI": counted(0.0005 / 1.2 * 1000),
        "Measured (TLB)": counted(0.4),
        "Counted CPU share": {"xen": (6 + 7) / USED},
        "Events: Counted": By(["group"], {"cache": 6, "tlb": 6, "llc": 0, "branches": 0, "software": 0}),
    },
)

EVENTS_OF_MACHINE = View(
    "caches-and-events",
    on("xen2", "xen"),
    {
        "LLC occupancy (host)": each(7e6, "0"),
        "Memory bandwidth (host)": each(500, "0"),
        "Remote share (host)": {"web 0": 0.2, "db 0": 0.2},
        "Memory traffic (host)": {"reads": 6000},
        "Power (host)": {"pkg": 35},
        "Clock events (host and cgroups): A": {"task-clock": 1.25},
        "Clock events (host and cgroups): B": {"/web task-clock": 0.125},
    },
)

SYMBOLS = {
    "hypervisor_callback": 0.3035,
    "get_page_from_freelist": 0.198,
    "net_tx_action": 0.0955,
    "do_read": 0.0161,
    "(other)": 0.3869,
}
PROFILE = View(
    "profile",
    {**on("xen2", "xen", event="cycles"), "other_host": "base1", "other_event": "cache-misses"}
    | {"other_vserver": "", "other_time": "1ms"},
    {
        "": 0,
        "Top: $event on $host": By(["symbol"], {"copy": 0.75, "main": 0.25}),
        "Top: $other_event on $other_host, ${other_time:text}": By(["symbol"], SYMBOLS),
        "Symbols: $event on $host: Share": By(["symbol", "image"], {"copy vmlinux": 0.75, "main httpd": 0.25}),
        "Images: $event on $host: Share": By(["image"], {"vmlinux": 0.75, "httpd": 0.25}),
        "Symbols: $other_event on $other_host, ${other_time:text}: Share": By(["symbol"], SYMBOLS),
        "Images: $other_event on $other_host, ${other_time:text}: Share": By(
            ["image"], {"vmlinux": 0.597, "xenstored": 0.0161, "(other)": 0.3869}
        ),
        "Sampled events on $host: Sampled now": By(["event"], {"cycles": 1}),
        "Time sampled on $host": {"(host)": 0.75},
        "Lost samples on $host": {"(host)": 9},
    },
)

# --- The monitor ------------------------------------------------------------------------------------------------------

TARGETS = {"xen2": 3, "mute1": 1, "stack1": 3, "down1": 2}
MONITOR = View(
    "monitor",
    {"hosts": "xen2|mute1|stack1|down1"},
    {
        "": 0,
        "Targets down": 3,
        "Sources failing": 2,
        "Rule failures": 20,
        "Max rule duration": 1 / 5,
        "Targets: Down": By(["host"], {"down1": 2, "xen2": 1, "mute1": 0, "stack1": 0}),
        "Targets: Duration": By(["host"], {host: 0.25 * count for host, count in TARGETS.items()}),
        "Targets: Samples": By(["host"], {host: 100 * count for host, count in TARGETS.items()}),
        "Scrape duration": By(["host"], {host: 0.25 * count for host, count in TARGETS.items()}),
        "Source failures: Failures": By(
            ["host", "source", "reason"], {"xen2 xl timeout": 30, "mute1 libxenstat timeout": 600}
        ),
        "Monitoring CPU by job": {
            "xen2 xentop": 0.005,
            "mute1 xentop": 0.004,
            "stack1 prometheus": 0.02,
        },
        "Samples ingested": 1500,
        "Prometheus memory": 3e8,
        "Rule duration / interval": {"fleet": 1 / 5, "xen": 3 / 60},
        "Active series": 7000,
        "Storage": 4e9 + 2e8 + 1e7,
        "Parts of the stack: Answers": {"stack1 prometheus": 1, "stack1 alertmanager": 0},
        "Parts of the stack: Failures": {"stack1 prometheus": 2},
        "Left out by exporters: Now": By(["host"], {"xen2": 6}),
        "Left out by exporters: In the time shown": By(["host", "metric"], {"xen2 encode_errors_total": 6}),
        "Reads of sources: Seconds per read": By(["host", "source"], {"xen2 xl": 0.06 / 0.4}),
        "Reads of sources: CPU per read": By(["host", "source"], {"xen2 xl": 0.02 / 0.4}),
        "Reads of sources: Reads": By(["host", "source"], {"xen2 xl": 2 * 120}),
        "Reads of sources: Age": By(["host", "source"], {"xen2 xl": 4}),
        "CPU by source": {"xen2 xl": 0.02},
        "CPU of encoding": {"xen2 xentop": 0.003},
        "Age of xentop's iteration": {"xen2 xentop": 1.4},
        "Open perf counters": {"xen2 perf": 48},
        "File descriptors": By(["host", "job"], {"xen2 xentop": 20 / 80}),
        "Versions of exporters: Targets": By(["job", "version"], {"xentop 0.1.0": 1}),
        **{
            f"Hosts over ssh: {column}": By(["target"], {"dom0": value})
            for column, value in {
                "Failures": 6,
                "Connections": 12,
                "Connected": 1,
                "Requests": 300,
                "Received": 4000,
                "CPU of ssh": 0.03,
            }.items()
        },
    },
)
MONITOR_OF_LAB = View(
    "monitor",
    {"hosts": "lab1"},
    {
        "Charged waiting / kernel's": {"lab1 sched": 0.99},
        "Context switches": {"lab1 sched": 5000},
        "Source failures: Failures": By(["source", "reason"], {"access log of auction-1 unparsed": 600}),
    },
)

# --- The lab's runs (experiments.py) ----------------------------------------------------------------------------------

MEANS = {"base": (101 + 102) / 2, "capped": 2.5 * (101 + 102) / 2}
# 40 CPU seconds in 36 s, of which the containers used 36.
CASES = ("dynamic [0.2, 0.8]", "control [0.5, 0.5]", "static [0.5, 0.5]")
SWITCHED = {f"2 containers, unpinned, computational, {case}, 6 s (emulated)": 4 / 36 for case in CASES}
EXPERIMENTS = View(
    "experiments",
    {
        "hosts": "lab1",
        "run": "20261121T090512-suites|20261121T120000-allocation-short",
        "test": "fork|host's CPU",
    },
    {
        "": 0,
        "$baseline": {"base": 2, "capped": 1} | {name.removesuffix(" (emulated)"): 1 for name in SWITCHED},
        "Runs: Steps planned": By(["study"], {"suites": 4, "allocation": 6}),
        "Runs: Steps begun": By(["study"], {"suites": 4, "allocation": 6}),
        "Tests by environment: Relative": By(["environment"], {"base": 1, "capped": 2.5}),
        "Tests by environment: Mean": By(["environment"], MEANS | SWITCHED),
        "Tests by environment: Std deviation": By(
            ["environment"], {"base": 0.5**0.5, "capped": 2.5 * 0.5**0.5} | dict.fromkeys(SWITCHED, 0)
        ),
        "Tests by environment: n": By(["environment"], {"base": 2, "capped": 2} | dict.fromkeys(SWITCHED, 2)),
    },
)

# --- Platforms' own metrics (tests/support/hosts/*.prom) -------------------------------------------------------------

VIFS = {
    "Packets received": 110,
    "Packets sent": 130,
    "Receive drops": 5,
    "Transmit drops": 7,
    "Receive errors": 2,
    "Transmit errors": 3,
}
VBDS = {"Read requests": 20, "Write requests": 30, "Out of requests": 1.5}
XEN = View(
    "xen",
    on("xen2", "xen"),
    {
        "": 0,
        "Domains on the host": {"xen2": 3},
        "Free memory (host)": {"xen2": 5e9},
        "Errors and drops": 11 * (2 + 3 + 5 + 7),
        "VBD out of requests": 11 * 1.5,
        "Domains: vCPUs": By(["domain"], each(2)),
        "Domains: Memory": By(["domain"], each(1e9)),
        "CPU used by vCPU": {**each(0.3, "0"), **each(0.2, "1")},
        "vCPUs: CPU used": By(["domain", "vcpu"], {**each(0.3, "0"), **each(0.2, "1")}),
        "vCPUs: On CPU": By(["domain", "vcpu"], each(7, "0")),
        "Scheduler parameters: Changes": By(["domain"], each(300)),
        "Scheduler parameters: Weight": By(["domain"], each(256)),
        "Scheduler parameters: Cap": By(["domain"], each(0.75)),
        "Scheduler parameters: Budget": By(["domain"], each(0.004)),
        "Scheduler parameters: Period": By(["domain"], each(0.01)),
        "CPU pools of the host: CPUs": {"Pool-0 credit2": 6},
        "CPU pools of the host: Time slice": {"Pool-0": 0.03},
        "CPU pools of the host: Rate limit": {"Pool-0": 0.001},
        "Missed changes of run states": each(19),
        "Traced time (host)": {"xen2": 0.0625},
        "Lost trace records (host)": {"xen2": 17},
        **{name: each(value, "0") for name, value in VIFS.items()},
        **{name: each(value, "xvda") for name, value in VBDS.items()},
        "Virtual block devices: Out of requests": By(["domain"], each(1.5)),
        "Virtual block devices: Reads": By(["domain"], each(20)),
        "Virtual block devices: Writes": By(["domain"], each(30)),
        "LLC occupancy": each(3e6, "0"),
        "Memory bandwidth": each(4e6, "0", "local"),
        "Hypervisor of the host: CPUs": By(["host"], {"xen2": 8}),
        "Hypervisor of the host: Clock rate": By(["host"], {"xen2": 2.4e9}),
        "Hypervisor of the host: Memory": By(["host"], {"xen2": 16e9}),
    },
)

IN_KVM, IN_QEMU = 0.012, 0.08 - 0.06 - 0.012
THREADS = {"D": 0.005, "E": 0.004, "F": 0.003, "G": 0.002, "H": 0.001}
TAPS = {
    "Packets received": 110,
    "Packets sent": 130,
    "Received packets dropped": 5,
    "Sent packets dropped": 7,
    "Receive errors": 2,
    "Send errors": 3,
}
BLOCK = {"read": (20, 0.04), "write": (30, 0.09), "flush": (4, 0.2)}
KVM = View(
    "kvm",
    on("kvm1", "kvm"),
    {
        "": 0,
        "Guests on the host": {"kvm1": 2},
        "Overhead of guests": 11 * (0.1 - 0.06),
        "Host without guests": {"kvm1": 1.4 - 11 * 0.1},
        "Exits": 11 * 120,
        "CPU used for guests: A": 11 * 0.06,
        "CPU used for guests: B": 11 * IN_KVM,
        "CPU used for guests: C": 11 * IN_QEMU,
        **{f"CPU used for guests: {letter}": 11 * used for letter, used in THREADS.items()},
        "Overhead / guest time": {"web": 2 / 3, "db": 2 / 3},
        "Cost by guest: Guest time": each(0.06),
        "Cost by guest: Overhead": each(0.04),
        "Cost by guest: In KVM": each(IN_KVM),
        "Cost by guest: Polling": each(0.007),
        "Cost by guest: In QEMU": each(IN_QEMU),
        "Cost by guest: Emulator": each(0.005),
        "Cost by guest: iothread": each(0.004),
        "Cost by guest: Workers": each(0.003),
        "Cost by guest: vhost": each(0.002),
        "Cost by guest: Exits": each(120),
        "Overhead by guest": each(0.04),
        "Exits by guest": each(120),
        "Halt polling": {**each(0.004, "success"), **each(0.003, "fail")},
        "Polled in vain": 11 * 0.003,
        "Guests: vCPUs": By(["guest"], each(2)),
        "Guests: Up": By(["guest"], {"web": 720 - 30, "db": 720 - 300}),
        "Memory: Resident": each(1e9),
        "Memory: Balloon": each(2e9),
        "Memory: Given": each(3e9),
        "States: Guests in it": {"web running": 1, "db running": 1},
        "Guest time not known: Guests": {"web tcg": 1, "db tcg": 1},
        "CPU used by vCPU": {**each(0.07, "0"), **each(0.01, "1")},
        "CPU wait by vCPU": {**each(0.03, "0"), **each(0.02, "1")},
        "Throttled": each(0.015, "all"),
        "Throttled periods": {"web all": 0.3, "db all": 0.3},
        **{name: each(value, "vnet0") for name, value in TAPS.items()},
        **{f"{kind.capitalize()} requests": each(requests, "vda") for kind, (requests, _) in BLOCK.items()},
        **{
            f"Time of a {kind}": dict.fromkeys(("web vda", "db vda"), seconds / requests)
            for kind, (requests, seconds) in BLOCK.items()
        },
    },
)

OPENVZ = View(
    "openvz",
    on("vz1", "openvz", ctid="web"),
    {
        "": {},
        "$ctid": each(0.75 * 720),
        "Beancounter failures": 11 * (0.5 + 0.25) * 600,
        "Max wait for a CPU": 0.02,
        "Dirty memory": 11 * 65536,
        "Processes": 11 * 40,
        "Containers: Processes": By(["ctid"], each(40)),
        "Containers: Idle": By(["ctid"], each(0.3)),
        "Containers: Addresses": By(["ctid"], each(2)),
        "Containers: Max wait": By(["ctid"], each(0.002)),
        "Containers: Uptime": By(["ctid"], each(5000 + 720)),
        "Memory of $ctid: Failed": {"kmemsize": 300},
        "Memory of $ctid: Held": {"kmemsize": 1e6},
        "Memory of $ctid: Max": {"kmemsize": 2e6},
        "Memory of $ctid: Barrier": {"kmemsize": 3e6},
        "Memory of $ctid: Limit": {"kmemsize": 4e6},
        "Numbers of $ctid: Failed": {"numproc": 150},
        "Numbers of $ctid: Held": {"numproc": 10},
        "Numbers of $ctid: Max": {"numproc": 20},
        "Numbers of $ctid: Barrier": {"numproc": 30},
        "Numbers of $ctid: Limit": {"numproc": 40},
        "CPU used by mode": {**each(0.05, "user"), **each(0.01, "nice"), **each(0.02, "system")},
        "Longest wait for a CPU": each(0.002),
        "Schedulings": each(60),
        "Time waited (host)": {"scheduling": 0.9},
        "Waits (host)": {"scheduling": 70},
        "Longest wait (host)": {"scheduling": 0.008},
        "Calls of read()": each(11),
        "Calls of write()": each(13),
        "Bytes read": each(1100),
        "Bytes written": each(1300),
        "Syncs": {**each(2, "fsync"), **each(3, "fdatasync"), **each(5, "sync"), **each(7, "sync_file_range")},
        "Syncs under way": {**each(1, "fsync"), **each(2, "sync"), **each(3, "sync_file_range")},
        "Memory dirtied": {**each(900, "dirtied"), **each(800, "cancelled"), **each(700, "missed")},
        "Dirty memory over time": each(65536),
        "FUSE requests": each(17),
        "FUSE bytes": each(1700),
        "Unknown values of ioacct: Value": each(3, "ploop"),
        "Quotas: Used": each(1e9),
        "Quotas: Soft limit": each(2e9),
        "Quotas: Hard limit": each(3e9),
        "Quotas: Inodes": each(100),
        "Quotas: Soft (inodes)": each(200),
        "Quotas: Hard (inodes)": each(300),
        "Quotas: Enforced": {"web": 1, "db": 1},
        "Grace periods: Grace period": each(604800, "bytes"),
        "Grace periods: Ends in": {"web bytes": 1000 - 720, "db bytes": 10_000 - 720},
        "Versions and units of the host's kernel: Read": By(["version"], {"042stab120.6": 1, "2.2": 1}),
    },
)

# --- Applications that differ, and other times (history.RECORDS) ------------------------------------------------------

APPLICATIONS_THAT_DIFFER = View(
    "applications",
    on("old1", "cgroup"),
    {
        "Mean / target": 0.7,
        "Min budget left": 0.3,
        "Max burn rate": 0.01 / (1 - 0.9),
        "Max error ratio": 0.05,
        "Objectives: Burn 5 m": {"shop latency": 0.1},
        "Objectives: 1 h": {"shop latency": 0.2},
        "Objectives: 6 h": {"shop latency": 0.3},
        "Objectives: 1 d": {"shop latency": 0.4},
        "Objectives: 3 d": {"shop latency": 0.5},
        "Burn rate over 5 minutes": {"shop latency": 0.1},
        "Burn rate over 1 hour": {"shop latency": 0.2},
        "Mean response: B": 0.2,
        "Evidence during breaches: Score": {"shop load": 2},
    },
)
PLAYED = View(
    "xen",
    on("old1", "cgroup"),
    {"": 2, "Domains on the host": {"old1": 4}, "Traced time (host)": {"old1": (0.1 + 0.2) / 2}},
)
PLAYED_BY_THE_DEMO = View("host", on("demo-xen", "xen"), {"": 1})
WRITTEN_BACK = View("openvz", on("old1", "cgroup", ctid="web"), {"Memory dirtied": {"web dirtied": 0}})
MANY_SYMBOLS = View(
    "profile",
    {
        **on("old1", "cgroup", event="many"),
        "other_host": "",
        "other_event": "",
        "other_vserver": "",
        "other_time": "1ms",
    },
    # The highest 40 of 45, of which the n-th has n parts.
    {"Symbols: $event on $host: Share": By(["image"], {"": sum(range(6, 46)) / sum(range(1, 46))})},
)
SIX_MINUTES_AGO = {"base_host": "old1", "base_platform": "cgroup", "base_vserver": "", "base_time": "6m"}
COSTS_OVER_TIME = View(
    "costs",
    {"hosts": "old1", **SIX_MINUTES_AGO},
    {
        "Hosts: a byte / baseline: Traffic ratio": {"old1 cgroup": 2},
        "Hosts: a byte / baseline: Cost ratio": {"old1 cgroup": 3},
        "Hosts: a byte / baseline: Cost (cycles)": {"old1 cgroup": 4},
        "Hosts: misses / baseline: LLC misses": {"old1 cgroup": 5},
        "Hosts: misses / baseline: dTLB misses": {"old1 cgroup": 6},
        "Hosts: misses / baseline: iTLB misses": {"old1 cgroup": 7},
        "Hosts: misses / baseline: dTLB rate": {"old1 cgroup": 8},
        "Hosts: misses / baseline: iTLB rate": {"old1 cgroup": 9},
    },
)
SAMPLED_THEN = {"other_host": "old1", "other_event": "cycles", "other_vserver": "", "other_time": "6m"}
PROFILE_OVER_TIME = View(
    "profile",
    {**on("old1", "cgroup", event="cycles"), **SAMPLED_THEN, "__range": "300s"},
    {
        "Symbols: $event on $host: Share": By(["symbol"], {"now": 1}),
        "Symbols: $other_event on $other_host, ${other_time:text}: Share": By(["symbol"], {"then": 1}),
        "Images: $other_event on $other_host, ${other_time:text}: Share": By(["image"], {"": 1}),
        "Top: $other_event on $other_host, ${other_time:text}": By(["symbol"], {"then": 1}),
    },
)

VIEWS = [
    *(FLEET, HOST_XEN, HOST_MUTE, HOST_BASE, HOST_LAB, VIRTUAL_SERVERS, NEIGHBOURS_PAGE, APPLICATIONS),
    *(CONSOLIDATION, CONSOLIDATION_OF_ONE, COSTS, EVENTS, EVENTS_OF_MACHINE, PROFILE),
    *(MONITOR, MONITOR_OF_LAB, EXPERIMENTS, XEN, KVM, OPENVZ),
    *(APPLICATIONS_THAT_DIFFER, COSTS_OVER_TIME, PROFILE_OVER_TIME, PLAYED, PLAYED_BY_THE_DEMO),
    *(WRITTEN_BACK, MANY_SYMBOLS),
]
