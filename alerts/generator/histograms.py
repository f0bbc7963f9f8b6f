"""Where an application's requests are counted: the sensors' histogram, and those of `prometheus/histograms.yml`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from alerts.generator.document import FileError, Value, parse
from alerts.generator.names import Names, decimal, names

EXAMPLES = {
    "metric": "http_request_duration_seconds",
    "app": "{is: shop}",
    "tier": "{is: web}",
    "method": "{label: method}",
    "status": "{label: code}",
    "edges": "[0.05, 0.1, 0.25, 0.5, 1]",
}


@dataclass(frozen=True)
class Source:
    """Where a label of the vocabulary comes from: one of the histogram's labels, or a constant."""

    label: str = ""
    constant: str = ""


@dataclass(frozen=True)
class Histogram:
    """A histogram of response times in seconds.

    metric: without `_bucket`. edges: upper edges of its buckets, rising, without +Inf.
    """

    metric: str
    edges: tuple[float, ...]
    selector: Mapping[str, Names] = field(default_factory=dict)
    app: Source = Source(label="app")
    tier: Source = Source(label="tier")
    method: Source = Source(label="method")
    status: Source = Source(label="status")

    def may_give(self, app: Names) -> bool:
        """Whether it may have requests of one of these applications."""
        return not self.app.constant or app.match(self.app.constant)


def names_dropped(configuration: str) -> tuple[str, ...]:
    """Regular expressions for the names that job app drops, by Prometheus's configuration: exporters', and sensors'."""
    jobs = yaml.safe_load(configuration)["scrape_configs"]
    steps = [step for job in jobs if job["job_name"] == "app" for step in job.get("metric_relabel_configs", ())]
    return tuple(step["regex"] for step in steps if step.get("action") == "drop")


def read_histograms(text: str, file: str, dropped: Sequence[str]) -> list[Histogram]:
    """The histograms that the file maps, none with a name that is `dropped`; raises `FileError`."""
    document = parse(text, file)
    if document is None:
        return []
    listed = document.fields({"histograms": "[]"})["histograms"]
    return [_histogram(value, dropped) for value in listed.items()]


def _histogram(value: Value, dropped: Sequence[str]) -> Histogram:
    fields = value.fields(EXAMPLES, optional=("selector",))
    metric = fields["metric"].text()
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", metric):
        fields["metric"].refuse(f"{metric!r} is not a metric name")
    if suffix := re.search("_(bucket|sum|count)$", metric):
        fields["metric"].refuse(f"name it without {suffix[0]}: {metric.removesuffix(suffix[0])}")
    if re.search("milliseconds|_ms$|microseconds", metric):
        fields["metric"].refuse("is not in seconds, as the vocabulary is; bucket edges can't be converted")
    selector = _selector(fields["selector"]) if "selector" in fields else {}
    by_job_app = "job" not in selector or selector["job"].match("app")
    if by_job_app and any(re.fullmatch(each, f"{metric}_bucket") for each in dropped):
        fields["metric"].refuse(
            f"job app drops {metric}_bucket (prometheus/prometheus.yml, metric_relabel_configs): only exporters, "
            "sensors and rules may have names like this; rename it in the application, or name the job that scrapes "
            "it, such as `selector: {job: shop}`"
        )
    return Histogram(
        metric=metric,
        edges=_edges(fields["edges"]),
        selector=selector,
        **{label: _source(fields[label]) for label in ("app", "tier", "method", "status")},
    )


def _selector(value: Value) -> dict[str, Names]:
    entries = value.entries()
    return {_label(label, entry): names(entry) for label, entry in entries.items()}


def _label(text: str, value: Value) -> str:
    if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", text):
        value.refuse(f"{text!r} is not a label name")
    return text


def _source(value: Value) -> Source:
    fields = value.fields({}, optional=("label", "is"))
    if len(fields) != 1:
        value.refuse("must be {label: NAME}, one of the histogram's labels, or {is: TEXT}")
    if "is" in fields:
        return Source(constant=fields["is"].text())
    return Source(label=_label(fields["label"].text(), fields["label"]))


def _edges(value: Value) -> tuple[float, ...]:
    edges = [(item, item.number()) for item in value.items()]
    if not edges:
        value.refuse("is empty; copy the histogram's values of le, without +Inf")
    first, lowest = edges[0]
    if lowest < 0:
        first.refuse(f"{lowest:g} must not be negative")
    for (_, lower), (item, upper) in itertools.pairwise(edges):
        if upper <= lower:
            item.refuse(f"{decimal(upper)} must be greater than the edge before it, {decimal(lower)}")
    return tuple(edge for _, edge in edges)


def sensors_histogram(script: str, file: str) -> Histogram:
    """The sensors' histogram, whose edges are a list in their script; raises `FileError` if it isn't found."""
    listed = re.search(r"^my @EDGES = qw\(([\d.\s]+)\);", script, re.MULTILINE)
    if listed is None:
        raise FileError(f"{file}:1: has no line `my @EDGES = qw(...)`, the edges of the sensors' histogram")
    return Histogram("app_request_duration_seconds", tuple(float(edge) for edge in listed[1].split()))


def judged_by(app: Names, mapped: Iterable[Histogram], sensors: Histogram) -> list[Histogram]:
    """The histograms that may have an application's requests.

    If a mapping names the application, only that one. Otherwise the sensors', and any histogram that has the
    application's name in a label.
    """
    mapped = [histogram for histogram in mapped if histogram.may_give(app)]
    named = [histogram for histogram in mapped if histogram.app.constant]
    return named or [*mapped, sensors]


def check_threshold(place: Value, seconds: float, histograms: Sequence[Histogram]) -> None:
    """Raises `FileError` unless the threshold is a bucket edge of all these histograms, so that it can be counted."""
    shared = set.intersection(*(set(histogram.edges) for histogram in histograms))
    if seconds in shared:
        return
    nearest = sorted(shared, key=lambda edge: abs(edge - seconds))
    whose = " and ".join(histogram.metric for histogram in histograms)
    could = ", ".join(map(decimal, nearest)) or "none that they share"
    place.refuse(f"{decimal(seconds)} is not a bucket edge of {whose}; nearest first, it could be {could}")
