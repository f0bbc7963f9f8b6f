"""What the servers under measurement serve: a host's guests, in client_python's own metric families."""

from __future__ import annotations

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.samples import Sample

# Twenty series a guest, named and labelled as xentop-exporter's, each with what its values count in.
SECONDS, BYTES, EVENTS = 1e-9, 4096, 1  # nanoseconds, pages, events
FIGURES = [
    *(("xen_domain_cpu_seconds", "", SECONDS), ("xen_domain_cpu_wait_seconds", "", SECONDS)),
    *(("xen_vcpu_cpu_seconds", "vcpu", SECONDS), ("xen_vcpu_cpu_wait_seconds", "vcpu", SECONDS)),
    *((f"xen_domain_network_{way}_bytes", "vif", BYTES) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_packets", "vif", EVENTS) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_errors", "vif", EVENTS) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_drops", "vif", EVENTS) for way in ("receive", "transmit")),
    *((f"xen_domain_block_{way}_bytes", "vbd", BYTES) for way in ("read", "write", "flush", "discard")),
    *((f"xen_domain_block_{way}_requests", "vbd", EVENTS) for way in ("read", "write", "flush", "discard")),
]


class Guests:
    """A collector of `series` series. Every collection is made of new objects, and every value has changed."""

    def __init__(self, series: int) -> None:
        self.series = series
        self._guests = range(series // len(FIGURES))
        self._collections = 0

    def collect(self) -> list[Metric]:
        """Return a scrape's families, made as xentop-exporter makes them: a guest's series share a label set."""
        self._collections += 1
        guests = [{"domid": str(guest), "domain": f"guest-{guest:04}"} for guest in self._guests]
        labels = {
            "": guests,
            **{extra: [{**guest, extra: "0"} for guest in guests] for extra in ("vcpu", "vif", "vbd")},
        }
        return [self._family(name, labels[extra], unit) for name, extra, unit in FIGURES]

    def _family(self, name: str, labels: list[dict[str, str]], unit: float) -> Metric:
        family = CounterMetricFamily(name, f"{name} of a guest.")
        # Of every length from a few digits up, and for seconds with as many decimals as nanoseconds give.
        step = 1_234_567 if unit == SECONDS else 1
        family.samples = [
            Sample(f"{name}_total", each, (guest * guest + self._collections) * step * unit)
            for guest, each in enumerate(labels)
        ]
        return family


def by_add_metric(family: Metric) -> Metric:
    """Return the same family as add_metric() makes it: every sample with a name and a label set of its own."""
    again = CounterMetricFamily(family.name, family.documentation, labels=list(family.samples[0].labels))
    for sample in family.samples:
        again.add_metric(list(sample.labels.values()), sample.value)
    return again
