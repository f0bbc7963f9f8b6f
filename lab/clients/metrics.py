"""The clients' metrics, as scraped by Prometheus.

lab_client_request_duration_seconds_bucket{app="auction-1",page="item",status="2xx",le="0.1"} 118
lab_client_request_duration_seconds_count{app="auction-1",page="item",status="timeout"} 2
lab_client_start_lateness_seconds_bucket{le="0.005"} 120
lab_clients{app="auction-1"} 210
process_cpu_seconds_total 1.9
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.samples import Sample

# The sensors' edges, so that buckets of sensors and clients can be compared.
DURATION_EDGES = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 10.0),
)
LATENESS_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)

# If more than this share of the requests is sent this late, the measurements describe the clients rather than the
# applications.
LATE_SECONDS = 0.05  # one of LATENESS_EDGES
LATE_SHARE = 0.01


FAILURES = ("5xx", "timeout", "error")  # statuses


class Ended(NamedTuple):
    """Requests so far, the seconds that they took together, and how many of them failed."""

    requests: float
    seconds: float
    failed: float


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # The clients' own cost, separate from the applications'.
        ProcessCollector(registry=self.registry)
        self.durations = Histogram(
            "lab_client_request_duration_seconds",
            "Time from the start of a request to the last byte of its answer, as the client saw it, in seconds. "
            "status is the answer's class, or timeout, or error where no answer came.",
            ["app", "page", "status"],
            buckets=DURATION_EDGES,
            registry=self.registry,
        )
        self.lateness = Histogram(
            "lab_client_start_lateness_seconds",
            "How much later than its client intended a request was started, in seconds: "
            "more than a few milliseconds means that the clients themselves were short of CPU.",
            buckets=LATENESS_EDGES,
            registry=self.registry,
        )
        self.clients = Gauge("lab_clients", "Clients that visit the application now.", ["app"], registry=self.registry)

    def answers(self) -> int:
        """The number of answers with any status."""
        counts = (one for one in self._samples() if one.name.endswith("_count"))
        return round(sum(one.value for one in counts if one.labels["status"] not in {"timeout", "error"}))

    def ended(self) -> dict[str, Ended]:
        """By application: requests that have ended, also without an answer."""
        found: dict[str, Ended] = defaultdict(lambda: Ended(0.0, 0.0, 0.0))
        for one in self._samples():
            of, failed = found[one.labels["app"]], one.labels["status"] in FAILURES
            if one.name.endswith("_count"):
                found[one.labels["app"]] = Ended(of.requests + one.value, of.seconds, of.failed + failed * one.value)
            elif one.name.endswith("_sum"):
                found[one.labels["app"]] = of._replace(seconds=of.seconds + one.value)
        return found

    def _samples(self) -> Iterator[Sample]:
        return (sample for family in self.durations.collect() for sample in family.samples)
