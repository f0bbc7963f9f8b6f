"""Pages of the other exporters and sensors of the demo's hosts.

In the formats of node_exporter, perf-exporter on hosts and in guests, the access-log sensor, and the lab's runner and
clients.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from demo import kvm, shop, story, study
from demo.model import EDGES, HOST, Answers, Counters, Work, memory
from demo.study import CHOSEN, PUBLISHED
from virtscope.perf.profile import Hits, Place, Profile, Profiled, live_families
from virtscope.toolkit.families import Labels, family

EVENT = "L2_CACHE_MISS"  # OProfile's and Xenoprof's name
_OTHER = "(other)"
_RUN = {"run": "hpl-2007-59r1", "scenario": "study"}  # of the lab


class Page(NamedTuple):
    """A target's page: its job in prometheus.yml, its labels, and the families."""

    job: str
    labels: Labels
    families: list[Metric]


def pages(host: str, counters: Counters, seconds: float) -> Iterator[Page]:
    """All pages of a host at this Unix time; a guest that doesn't exist has none."""
    state = counters.at(seconds)
    platform = counters.platform
    labels = {"host": host, "platform": platform}
    up = seconds - counters.origin
    ages = {name: seconds - counters.life(name, seconds).began for name in state.work}
    yield Page("telegraf", labels, [_requests(app, answers) for app, answers in state.answers.items()])
    if platform == "kvm":
        phase = shop.phase_at(seconds)
        step = story.Step("one node", 1, phase.clients, phase.begin, phase.end)
        yield Page("lab", labels, _step({"run": "shop", "scenario": "shop"}, step, [shop.APP]))
        yield Page("sched", labels, families(kvm.waits(counters, seconds)))
        cgroups = [({"cgroup": kvm.cgroup(counters, name, seconds)}, state.work[name], up) for name in shop.GUESTS]
        yield Page("perf", labels, _merged([({"cpu": "0"}, counters.machine_at(seconds), up), *cgroups]))
        return
    measured = _measurements() if platform == "base" else []
    yield Page("lab", labels, [*_step(_RUN, story.step_at(seconds), list(state.answers)), *measured])
    if platform == "xen":
        for name, work in state.work.items():
            if name == HOST:
                yield Page("perf", labels, [*_merged([({"cpu": "0"}, work, up)]), *_profile("xen_dom0", work, up)])
            else:
                table = "xen_web" if name.endswith("-web") else "xen_db"
                yield Page(
                    "guest",
                    {**labels, "vserver": name},
                    [*_merged([({"cpu": "0"}, work, ages[name])]), *_profile(table, work, ages[name])],
                )
        return
    if platform == "openvz":  # the host doesn't expose a container's network, but a node_exporter inside does
        for name, work in state.work.items():
            if name != HOST:
                yield Page("guest", {**labels, "vserver": name}, _network(work))
    total = counters.machine_at(seconds)
    yield Page("node", labels, _node(total, up, used=sum(memory(name) for name in state.work)))
    cgroups = [
        ({"cgroup": f"/machine.slice/{name}"}, work, ages[name]) for name, work in state.work.items() if name != HOST
    ]
    yield Page("perf", labels, [*_merged([({"cpu": "0"}, total, up), *cgroups]), *_profile(platform, total, up)])


def families(samples: Mapping[str, Iterable[tuple[Labels, float]]]) -> list[Metric]:
    """The metrics of a sensor of the demo: samples by name."""
    return [family(name, "Simulated.", list(values)) for name, values in samples.items()]


def _node(total: Work, up: float, used: int) -> list[Metric]:
    """node_exporter's families: CPU by mode, memory, disk and network."""
    cpus = CHOSEN["cpus"]
    share = total.cpu / cpus
    modes = {"user": 0.7 * share, "system": 0.3 * share, "idle": up - share, "iowait": 0.0, "steal": 0.0}
    of_cpus = [({"cpu": str(cpu), "mode": mode}, spent) for cpu in range(cpus) for mode, spent in modes.items()]
    return families(
        {
            "node_cpu_seconds_total": of_cpus,
            "node_memory_MemTotal_bytes": [({}, CHOSEN["memory_bytes"])],
            "node_memory_MemAvailable_bytes": [({}, CHOSEN["memory_bytes"] - used)],
            "node_disk_read_bytes_total": [({"device": "sda"}, total.read)],
            "node_disk_written_bytes_total": [({"device": "sda"}, total.written)],
        }
    ) + _network(total)


def _network(work: Work) -> list[Metric]:
    """node_exporter's network families, of a machine or from inside a container."""
    of = {"receive": work.received, "transmit": work.sent}
    return families({f"node_network_{way}_bytes_total": [({"device": "eth0"}, moved)] for way, moved in of.items()})


def _merged(targets: list[tuple[Labels, Work, float]]) -> list[Metric]:
    """perf-exporter's counts for CPUs and cgroups, counted all of the time."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for where, work, up in targets:
        prefix = "perf_" if "cpu" in where else "perf_cgroup_"
        for group, counts in _groups(work).items():
            of_group = {**where, "group": group, "pmu": ""}
            for time in ("enabled", "running"):
                found.setdefault(f"{prefix}group_{time}_seconds_total", []).append((of_group, up))
            events = found.setdefault(f"{prefix}events_total", [])
            events += [({**of_group, "event": event}, float(int(count))) for event, count in counts.items()]
    found["perf_event_supported"] = [
        ({"group": group, "pmu": "", "event": event, "reason": ""}, 1.0)
        for group, counts in _groups(targets[0][1]).items()
        for event in counts
    ]
    return families(found)


def _groups(work: Work) -> dict[str, dict[str, float]]:
    return {
        "cache": {"instructions": work.instructions, "cycles": work.cycles, "cache-misses": work.llc_misses},
        "tlb": {
            "instructions": work.instructions,
            "dTLB-load-misses": work.dtlb_misses,
            "iTLB-load-misses": work.itlb_misses,
        },
    }


def _profile(table: str, work: Work, up: float) -> list[Metric]:
    """perf-exporter's profile: the kernel's misses by symbol, as in the study's table."""
    shares = {symbol: percent / 100 for symbol, percent in PUBLISHED["misses_by_kernel_symbol"][table].items()}
    shares[_OTHER] = 1 - sum(shares.values())
    samples = up * CHOSEN["profile_samples_per_second"]
    profile: Profile = {
        Place(EVENT, "vmlinux", symbol, "kernel"): Hits(int(samples * share), work.llc_misses * share)
        for symbol, share in shares.items()
    }
    return live_families(
        Profiled(profile, 0, up, [(EVENT, f"{CHOSEN['profile_samples_per_second']} Hz", "this kernel")])
    )


def _requests(app: str, answers: Answers) -> Metric:
    found = HistogramMetricFamily(
        "app_request_duration_seconds", "Response times of requests.", labels=["app", "tier", "method", "status"]
    )
    # No requests fail, so they have no series, like unused methods.
    within = [(f"{edge:g}", float(int(count))) for edge, count in zip(EDGES, answers.within, strict=True)]
    buckets = [*within, ("+Inf", float(int(answers.requests)))]
    found.add_metric([app, "web", "GET", "2xx"], buckets, answers.seconds)
    return found


def _step(run: Labels, step: story.Step, apps: Sequence[str]) -> list[Metric]:
    """The lab's families: the current step, and each application's clients."""
    labels = {
        **run,
        "step": step.name,
        "instances": str(len(apps)),
        "clients": str(step.clients),
        "placement": step.placement,
        "repetition": "1",
    }
    return families(
        {
            "lab_step_info": [(labels, 1)],
            "lab_clients": [({"app": app}, float(step.clients)) for app in apps],
        }
    )


def _measurements() -> list[Metric]:
    """The lab's metrics of a run that measured the study's systems one after the other."""
    found: list[tuple[Labels, float]] = []
    for chapter in study.CHAPTERS:
        for platform in study.PLATFORMS:
            placement, instances = chapter["placement"], chapter["instances"]
            if platform == "base" and instances > 1:
                continue
            labels = {
                "run": _RUN["run"],
                "step": f"{instances}x{study.MAX_CLIENTS}{' one node' if placement == 'one node' else ''}",
                "environment": platform,
                "virtualization": "none" if platform == "base" else platform,
                "emulated": "no",
                "test": f"mean response, {instances} x {study.MAX_CLIENTS} clients on {placement}",
                "unit": "milliseconds",
                "better": "lower",
                "repetition": "1",
                "attempt": "0",
            }
            found.append((labels, 1000 * study.mean_response(platform, placement, instances, study.MAX_CLIENTS)))
    return families(
        {
            "lab_run_info": [({**_RUN, "study": "consolidation"}, 1)],
            "lab_run_planned_steps": [({"run": _RUN["run"]}, len(story.STEPS))],
            "lab_measurement": found,
        }
    )
