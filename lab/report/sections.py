"""The report's sections: which quantities each shows, how it explains them, and the queries they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.clients.metrics import LATE_SECONDS
from lab.report import units
from lab.report.loads import Load
from lab.report.results import StepResult, mean
from lab.report.units import Unit


@dataclass(frozen=True)
class Quantity:
    """A number of each step: how to get it, how to write it, and which queries it comes from."""

    title: str
    unit: Unit
    of: Callable[[StepResult], float | None]
    asked: tuple[str, ...]
    limit: Callable[[Load], Iterable[tuple[float, str]]] = lambda _load: ()
    """Lines across its panel: a load's limits in the quantity's unit, and their names."""
    drawn: bool = True


@dataclass(frozen=True)
class Section:
    """One chart with its table. `key` names its files, anchors, and the study's text."""

    key: str
    title: str
    text: str
    quantities: tuple[Quantity, ...]
    why_absent: str

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of its queries, each once."""
        return tuple(dict.fromkeys(name for quantity in self.quantities for name in quantity.asked))


def _of(name: str) -> Callable[[StepResult], float | None]:
    return lambda result: result.of_instances(name)


def _tier(mapping: str, tier: str) -> Callable[[StepResult], float | None]:
    return lambda result: mean([getattr(instance, mapping).get(tier) for instance in result.instances])


def _reason(name: str) -> Callable[[StepResult], float | None]:
    """0 where it is measured and was none."""
    return lambda result: mean([instance.caused.get(name, 0.0) for instance in result.instances if instance.caused])


def _named(result: StepResult) -> float | None:
    return mean([sum(instance.neighbours.values()) for instance in result.instances if instance.caused])


def _promise(objective: str, unit: Unit) -> Callable[[Load], Iterable[tuple[float, str]]]:
    def limit(load: Load) -> Iterable[tuple[float, str]]:
        promised = [one.promised for one in load.judged if one.objective == objective]
        return ((promise, f"objective: {unit.write(promise)}") for promise in promised)

    return limit


def _cpus(load: Load) -> Iterable[tuple[float, str]]:
    return ((cpus, f"shared: {cpus:g} CPU") for cpus in set(load.values(lambda result: result.cpus)))


_NO_SENSOR = "No data from the sensors: Prometheus has no app_request_duration_seconds of these applications."

SECTIONS = (
    Section(
        "throughput",
        "Throughput",
        "Answers of one instance in a second, counted by the clients, as in the study; mean over instances. As long as "
        "it grows with the clients, they get their answers; where it stops growing, they wait.",
        (Quantity("Answers of an instance", units.RATE, _of("client_answers"), ("client_answers",)),),
        "No data from the clients: Prometheus has no lab_client_request_duration_seconds of these applications.",
    ),
    Section(
        "response",
        "Response time",
        "Time from request to answer at the web tier, by its access log, of answered requests only (no 5xx); mean over "
        "instances. The 95th percentile is interpolated within a bucket of the histogram, so it is as exact as the "
        "buckets are wide, and at 10 s, the last edge, it is that or more; the mean and the share in time are exact.",
        (
            Quantity(
                "Mean response time",
                units.RESPONSE,
                _of("mean"),
                ("mean",),
                _promise("mean", units.RESPONSE),
            ),
            Quantity("95th percentile", units.RESPONSE, _of("p95"), ("p95",)),
            Quantity(
                "Answered in the objective's time",
                units.SHARE,
                _of("within"),
                ("within",),
                _promise("latency", units.SHARE),
            ),
        ),
        _NO_SENSOR,
    ),
    Section(
        "cpu",
        "CPU of each tier",
        "CPU that a tier of one instance used, mean over instances; what all tiers of all instances used together; and "
        "what one request cost: the CPU of its tiers over the requests, and the same with their share of the host's "
        "own CPU, which is that of everything else on the machine.",
        (
            Quantity("Web tier", units.CPUS, lambda result: result.cpu("web"), ("tier_cpu",)),
            Quantity("Database tier", units.CPUS, lambda result: result.cpu("db"), ("tier_cpu",)),
            Quantity("All tiers of all instances", units.CPUS, lambda result: result.tiers_cpu, ("tier_cpu",), _cpus),
            Quantity("One request", units.CPU_TIME, _of("cpu_per_request"), ("cpu_per_request",)),
            Quantity(
                "One request with the host's share",
                units.CPU_TIME,
                _of("cpu_per_request_with_host"),
                ("cpu_per_request_with_host",),
                drawn=False,
            ),
        ),
        "No CPU data of the tiers: Prometheus has no app:tier_cpu_usage:rate of them, which comes from cAdvisor.",
    ),
    Section(
        "waiting",
        "Waiting for a CPU",
        "Time in which a tier was runnable and others had the CPU; and, if it has a cap, the time in which it was "
        "throttled. Mean over instances, in seconds per second.",
        (
            Quantity("Web tier waiting", units.WAITING, _tier("waiting", "web"), ("waiting",)),
            Quantity("Database tier waiting", units.WAITING, _tier("waiting", "db"), ("waiting",)),
            Quantity("Web tier throttled", units.WAITING, _tier("throttled", "web"), ("throttled",), drawn=False),
            Quantity("Database tier throttled", units.WAITING, _tier("throttled", "db"), ("throttled",), drawn=False),
        ),
        "No data on waiting: Prometheus has no vserver:cpu_wait:rate of these tiers.",
    ),
    Section(
        "caused",
        "Who it waited for",
        "The same time by who ran meanwhile: other virtual servers, its own other threads and tiers, the host; and "
        "while its cap held it. Of all its tiers, mean over instances, in seconds per second. Of what it waited for "
        "neighbours, the part of those who were named: each for a third of it or more, together for half.",
        (
            Quantity("Neighbours", units.WAITING, _reason("neighbour"), ("caused",)),
            Quantity("Itself", units.WAITING, _reason("self"), ("caused",)),
            Quantity("The host", units.WAITING, _reason("host"), ("caused",), drawn=False),
            Quantity("Its cap", units.WAITING, _reason("cap"), ("caused",), drawn=False),
            Quantity("Named, of neighbours", units.SHARE, _named, ("neighbours",), drawn=False),
        ),
        "Who ran while these applications waited is not known: Prometheus has no app:cpu_wait_caused:rate of them, "
        "which comes from sched-exporter.",
    ),
    Section(
        "overhead",
        "Host overhead",
        "CPU outside of the tiers, and its share of all CPU used. It includes clients, monitoring and everything else "
        "on the machine; the clients' part is in the section Clients.",
        (
            Quantity("Host's own CPU", units.CPUS, lambda result: result.overhead, ("overhead",)),
            Quantity("Share of all CPU used", units.SHARE, lambda result: result.overhead_ratio, ("overhead_ratio",)),
        ),
        "No data on the host's own CPU: Prometheus has no host:overhead_cpu:rate of this host and platform.",
    ),
    Section(
        "misses",
        "Cache misses",
        "Misses of the last-level cache per instruction, by the processor's counters; mean over instances. They rise "
        "where neighbours evict each other's cache lines.",
        (
            Quantity("Web tier", units.PER_THOUSAND, _tier("misses", "web"), ("misses",)),
            Quantity("Database tier", units.PER_THOUSAND, _tier("misses", "db"), ("misses",)),
        ),
        "No counts of cache misses for these tiers.",
    ),
    Section(
        "sensors",
        "Sensor and client",
        "The same requests seen twice: by the web tier's access log, and by the clients. What the clients saw beyond "
        "the server's own time is the network's share, which includes the time in a queue before a process of "
        "the server accepted the request, and the client's own delay: where it is large, users waited longer than the "
        "log says. The sensor counts in batches of 5 s, one of which may be in a step or not; means are not affected.",
        (
            Quantity("Client minus server", units.DURATION, _of("network"), ("client_mean", "mean")),
            Quantity("Mean by the client", units.DURATION, _of("client_mean"), ("client_mean",), drawn=False),
            Quantity("Mean by the sensor", units.DURATION, _of("mean"), ("mean",), drawn=False),
            Quantity("Requests by the client", units.RATE, _of("client_requests"), ("client_requests",), drawn=False),
            Quantity("Requests by the sensor", units.RATE, _of("requests"), ("requests",), drawn=False),
            Quantity("Failed for the client", units.SHARE, _of("client_failures"), ("client_failures",), drawn=False),
        ),
        "Sensor and client can't be compared: one of them has no data.",
    ),
    Section(
        "clients",
        "Clients",
        "Cost of generating the load on the same machine: the clients' CPU, not the applications'. Lateness is "
        "how much later than planned a request was sent: where it nears the response times, the clients were too slow, "
        "and these values are theirs, not the applications'.",
        (
            Quantity("CPU of all clients", units.CPUS, lambda result: result.clients_cpu, ("clients_cpu",)),
            Quantity(
                "Lateness, 95th percentile", units.DURATION, lambda result: result.lateness_p95, ("lateness_p95",)
            ),
            Quantity(
                "Lateness, mean", units.DURATION, lambda result: result.lateness_mean, ("lateness_mean",), drawn=False
            ),
            Quantity(
                f"Started over {LATE_SECONDS * 1000:g} ms late",
                units.SHARE,
                lambda result: result.late_starts,
                ("late_starts",),
                drawn=False,
            ),
        ),
        "The clients exposed no metrics.",
    ),
)
