"""A host's guests as client_python metric families, for the measured servers."""

from collections.abc import Callable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.samples import Sample

Count = Callable[[int], float]  # a value from a number that increases with each scrape


def _seconds(number: int) -> float:
    return number * 1_234_567 / 1e9  # as many decimals as nanoseconds


def _bytes(number: int) -> float:
    return number * 4096


def _events(number: int) -> float:
    return number


# Twenty series per guest, similar to xentop-exporter's: name, additional label, kind of value.
KINDS: list[tuple[str, str, Count]] = [
    *((f"xen_domain_cpu_{what}seconds", "", _seconds) for what in ("", "wait_")),
    *((f"xen_vcpu_cpu_{what}seconds", "vcpu", _seconds) for what in ("", "wait_")),
    *((f"xen_domain_network_{way}_bytes", "vif", _bytes) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_packets", "vif", _events) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_errors", "vif", _events) for way in ("receive", "transmit")),
    *((f"xen_domain_network_{way}_drops", "vif", _events) for way in ("receive", "transmit")),
    *((f"xen_domain_block_{way}_bytes", "vbd", _bytes) for way in ("read", "write", "flush", "discard")),
    *((f"xen_domain_block_{way}_requests", "vbd", _events) for way in ("read", "write", "flush", "discard")),
]


class Guests:
    """A collector of `series` series. Each collection consists of new objects, all with changed values."""

    def __init__(self, series: int) -> None:
        self.series = series
        self._guests = range(series // len(KINDS))
        self._collections = 0

    def collect(self) -> list[Metric]:
        """A scrape's families, built like xentop-exporter's: the series of a guest share a label set."""
        self._collections += 1
        guests = [{"domid": str(guest), "domain": f"guest-{guest:04}"} for guest in self._guests]
        labels = {
            "": guests,
            **{extra: [{**guest, extra: "0"} for guest in guests] for extra in ("vcpu", "vif", "vbd")},
        }
        return [self._family(name, labels[extra], count) for name, extra, count in KINDS]

    def _family(self, name: str, labels: list[dict[str, str]], count: Count) -> Metric:
        family = CounterMetricFamily(name, f"{name} of a guest.")
        family.samples = [  # squared, for values of all lengths
            Sample(f"{name}_total", each, count(guest**2 + self._collections)) for guest, each in enumerate(labels)
        ]
        return family


def by_add_metric(family: Metric) -> Metric:
    """The same family as built by add_metric(): every sample has its own name and label set."""
    again = CounterMetricFamily(family.name, family.documentation, labels=list(family.samples[0].labels))
    for sample in family.samples:
        again.add_metric(list(sample.labels.values()), sample.value)
    return again
