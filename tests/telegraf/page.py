"""The access-log sensor's metrics, parsed from an exposition page."""

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from tests.telegraf.lines import Labels

DURATION = "app_request_duration_seconds"


@dataclass
class Histogram:
    """One method and status: `buckets` are cumulative counts by upper bound in seconds."""

    buckets: dict[float, int] = field(default_factory=dict)
    count: int = 0
    sum: float = 0.0


@dataclass
class Totals:
    """The totals of one app and tier."""

    requests: dict[Labels, Histogram] = field(default_factory=dict)
    lines: int = 0
    unparsed: int = 0

    @property
    def count(self) -> int:
        return sum(histogram.count for histogram in self.requests.values())


def totals(page: str, app: str | None = None) -> Totals:
    """The totals of one app on Telegraf's page, or those on the page of access_log.pl, which has no app label."""
    found = Totals()
    families = [family for family in text_string_to_metric_families(page) if family.name.startswith("app_")]
    assert all(family.type == ("histogram" if family.name == DURATION else "counter") for family in families)
    for sample in (sample for family in families for sample in family.samples):
        labels = {"tier": "web", **sample.labels}
        if labels.pop("app", None) != app:
            continue
        assert labels.pop("tier") == "web"
        if sample.name in {"app_log_lines_total", "app_log_lines_unparsed_total"}:
            setattr(found, "unparsed" if "unparsed" in sample.name else "lines", int(sample.value))
        else:
            le = labels.pop("le", "")
            histogram = found.requests.setdefault((labels.pop("method"), labels.pop("status")), Histogram())
            if sample.name == f"{DURATION}_bucket":
                histogram.buckets[float(le)] = int(sample.value)
            elif sample.name == f"{DURATION}_count":
                histogram.count = int(sample.value)
            else:
                assert sample.name == f"{DURATION}_sum"
                histogram.sum = sample.value
        assert not labels, f"{sample} has labels that it should not have"
    return found
