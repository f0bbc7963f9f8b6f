"""Samples of a made-up fleet, as the rules and Prometheus would have stored them."""

import time
from collections.abc import Iterator, Mapping

Samples = Iterator[str]
"""Lines of the format that Prometheus scrapes."""


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in labels.values())
    listed = ",".join(f'{label}="{value}"' for label, value in zip(labels, escaped, strict=True))
    return f"{name}{{{listed}}} {value}"


def alert(alertname: str, severity: str, minutes: float = 10, state: str = "firing", **labels: str) -> Samples:
    """An alert that has been active for this long."""
    of = {"alertname": alertname, "severity": severity, **labels}
    yield sample("ALERTS", {**of, "alertstate": state}, 1)
    yield sample("ALERTS_FOR_STATE", of, int(time.time() - 60 * minutes))


def evaluated() -> Samples:
    """Series that exist as long as alerts are evaluated."""
    return alert("Watchdog", "none")


def targets(host: str, platform: str, **up: float) -> Samples:
    """A target of each of these jobs; `up` is 1 if it answers."""
    for job, value in up.items():
        yield sample("up", {"host": host, "platform": platform, "job": job, "instance": f"{job}.example.org:80"}, value)


def records(level: str, labels: Mapping[str, str], values: Mapping[str, float]) -> Samples:
    """Records of one level with the same labels."""
    for name, value in values.items():
        yield sample(f"{level}:{name}", labels, value)


def host(name: str, platform: str, overhead: float) -> Samples:
    """A host with eight CPUs, three of them used."""
    yield from targets(name, platform, xentop=1, node=1)
    values = {"cpu_capacity:cpus": 8, "cpu_free:cpus": 5, "cpu_usage:rate": 3, "guests:count": 2, "headroom:apps": 2.9}
    values |= {"overhead:ratio": overhead, "overhead_cpu:rate": 3 * overhead}
    values |= {"llc_misses_per_instruction:ratio": 0.0042}
    yield from records("host", {"host": name, "platform": platform}, values)


def guest(name: str, host: str, platform: str = "xen", **values: float) -> Samples:
    """A guest: cpu, wait, cap in CPUs, misses per instruction."""
    of = {"host": host, "platform": platform, "vserver": name, "role": "guest"}
    names = {"cpu": "cpu_usage:rate", "wait": "cpu_wait:rate", "cap": "cpu_limit:cpus", "memory": "memory:bytes"}
    names["misses"] = "llc_misses_per_instruction:ratio"
    yield from records("vserver", of, {names[name]: value for name, value in values.items()})


def application(name: str, host: str, platform: str = "xen", *, mean: float = 0.05, burn: float = 0.1) -> Samples:
    """An application with three objectives: a mean of 100 ms, 99 % within 300 ms, 99.9 % without error."""
    of = {"host": host, "platform": platform, "app": name}
    responses = {"mean": mean, "p50": mean, "p95": 3 * mean, "p99": 4 * mean}
    web = {f"response_seconds:{which}": seconds for which, seconds in responses.items()}
    web |= {"requests:rate": 80, "errors:ratio": 0.001}
    yield from records("app", {**of, "tier": "web"}, web)
    latency = {"slo_threshold:seconds": 0.3, "slo_objective:ratio": 0.99}
    latency |= {"slo_burn:ratio": burn, "slo_budget_left:ratio": 1 - burn / 10}
    availability = {"slo_objective:ratio": 0.999}
    availability |= {"slo_burn:ratio": 0.0, "slo_budget_left:ratio": 1.0}
    for objective, values in {
        "mean": {"slo_threshold:seconds": 0.1, "slo_response:ratio": mean / 0.1},
        "latency": latency,
        "availability": availability,
    }.items():
        yield from records("app", {**of, "objective": objective}, values)
    for objective, errors in {"latency": 0.01 * burn, "availability": 0.0}.items():
        yield sample("slo:sli_error:ratio_rate5m", {**of, "objective": objective}, errors)
    for cause, score in {"self": 0.2, "neighbour": 1.6, "load": 0.4, "hypervisor": 0.0}.items():
        yield sample("app:cause:score", {**of, "cause": cause}, score)


def fleet() -> Samples:
    """xen1 breaks an objective, and a guest of it waits; xen2 has warnings; down1 is silent; the others are well."""
    yield from evaluated()
    yield from host("vz1", "openvz", 0.04)
    yield from host("xen1", "xen", 0.31)
    yield from host("xen2", "xen", 0.12)
    yield from host("xen3", "xen", 0.02)
    yield from targets("down1", "base", node=0)
    yield from guest("web", "xen1", cpu=0.9, wait=0.02, cap=0.95, misses=0.004, memory=2**30)
    yield from guest("db", "xen1", cpu=0.5, wait=0.6)
    yield from guest("101", "vz1", "openvz", cpu=0.25, wait=0.3)
    yield from guest("batch", "xen2", cpu=0.7, wait=0.9)
    yield from application("shop", "xen1", mean=0.16, burn=31.0)
    yield from application("blog", "vz1", "openvz")
    unjudged = {"host": "xen2", "platform": "xen", "app": "wiki", "tier": "web"}
    yield from records("app", unjudged, {"requests:rate": 3.0, "response_seconds:p95": 0.02})
    for vserver, tier in (("web", "web"), ("db", "db")):
        of = {"host": "xen1", "platform": "xen", "vserver": vserver, "role": "guest"}
        yield sample("vserver:app:info", {**of, "app": "shop", "tier": tier}, 1)
        waits = {"web": ("neighbour", "batch-7", 0.3), "db": ("cap", "(cap)", 0.1)}[vserver]
        yield sample("vserver:delay:rate", {**of, "resource": "cpu", "reason": waits[0], "by": waits[1]}, waits[2])
    shop = {"host": "xen1", "platform": "xen", "app": "shop"}
    yield sample("app:cpu_usage:rate", shop, 1.4)
    for status, count in (("2xx", 80), ("5xx", 1)):
        for what, value in (("count", count), ("sum", 0.16 * count * (status == "2xx"))):
            yield sample(f"requests:duration_seconds_{what}:rate1m", {**shop, "tier": "web", "status": status}, value)
    yield sample("app:delay:rate", {**shop, "resource": "cpu", "reason": "neighbour", "by": "batch-7"}, 0.3)
    yield sample("app:delay:rate", {**shop, "resource": "disk", "reason": "device", "by": "(device)"}, 4.8)
    yield from alert("ObjectiveBurnsFast", "critical", 12, **shop, objective="latency")
    yield from alert("MeanResponseOverCeiling", "warning", 5, **shop, objective="mean")
    yield sample("app:objective_cause:info", {**shop, "objective": "latency", "cause": "neighbour"}, 1)
    yield sample("app:neighbour:ratio", {**shop, "resource": "cpu", "by": "batch-7"}, 0.52)
    yield sample("app:neighbour:ratio", {**shop, "resource": "cpu", "by": "blog"}, 0.41)
    yield from alert("VirtualServerStarved", "warning", 30, host="xen1", platform="xen", vserver="web", role="guest")
    yield from alert("HostOverheadHigh", "warning", 3, "pending", host="xen1", platform="xen")
    yield from alert("EventsMostlyEstimated", "warning", 60, host="xen2", platform="xen", group="llc")
    yield from alert("RulesFailing", "warning", 7)
