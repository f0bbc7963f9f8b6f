"""Histograms of applications' requests: the sensors', and others in `prometheus/histograms.yml`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, model_validator

from alerts.generator.application import Application
from alerts.generator.names import Names, Text, WrittenNames, decimal
from deploy.documents import Document, KeyProblem, Model


def _check_label(text: str) -> str:
    if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", text):
        raise ValueError(f"{text!r} is not a label name")
    return text


def _check_metric(metric: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", metric):
        raise ValueError(f"{metric!r} is not a metric name")
    if suffix := re.search("_(bucket|sum|count)$", metric):
        raise ValueError(f"name it without {suffix[0]}: {metric.removesuffix(suffix[0])}")
    if re.search("milliseconds|_ms$|microseconds", metric):
        raise ValueError("is not in seconds, as the vocabulary is; bucket edges can't be converted")
    return metric


def _check_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    if not edges:
        raise ValueError("is empty; copy the histogram's values of le, without +Inf")
    for number, (lower, upper) in enumerate(itertools.pairwise(edges), 1):
        if upper <= lower:
            problem = f"{decimal(upper)} must be greater than the edge before it, {decimal(lower)}"
            raise KeyProblem(problem, number)
    return edges


Label = Annotated[str, AfterValidator(_check_label)]


class Source(Model):
    """The source of a label of the vocabulary: a label of the histogram, or a constant."""

    label: Label | None = None
    constant: Text | None = Field(default=None, validation_alias="is")

    @model_validator(mode="after")
    def _require_one(self) -> Source:
        if (self.label is None) == (self.constant is None):
            raise ValueError("must be {label: NAME}, one of the histogram's labels, or {is: TEXT}")
        return self


class Histogram(Model):
    """A histogram of response times in seconds.

    metric: without `_bucket`. edges: upper edges of its buckets, ascending, without +Inf.
    """

    metric: Annotated[str, AfterValidator(_check_metric)]
    selector: dict[Label, WrittenNames] = Field(default_factory=dict)
    app: Source
    tier: Source
    method: Source
    status: Source
    edges: Annotated[tuple[Annotated[float, Field(ge=0)], ...], AfterValidator(_check_edges)]

    def may_give(self, app: Names) -> bool:
        """Whether it may have requests of one of these applications."""
        return not self.app.constant or app.match(self.app.constant)


class _Histograms(Model):
    histograms: tuple[Histogram, ...] = ()


def names_dropped(configuration: str) -> tuple[str, ...]:
    """Regular expressions for names (exporters' and sensors') that job app drops by Prometheus's configuration."""
    jobs = yaml.safe_load(configuration)["scrape_configs"]
    steps = [step for job in jobs if job["job_name"] == "app" for step in job.get("metric_relabel_configs", ())]
    return tuple(step["regex"] for step in steps if step.get("action") == "drop")


def read_histograms(document: Document, dropped: Sequence[str]) -> tuple[Histogram, ...]:
    """The histograms in the file; raises `FileError`, also for a name that is `dropped`."""
    histograms = document.read(_Histograms).histograms
    for number, histogram in enumerate(histograms):
        name = f"{histogram.metric}_bucket"
        by_job_app = "job" not in histogram.selector or histogram.selector["job"].match("app")
        if by_job_app and any(re.fullmatch(each, name) for each in dropped):
            raise document.error(
                f"job app drops {name} (prometheus/prometheus.yml, metric_relabel_configs): only exporters, sensors "
                "and rules may have names like this; rename it in the application, or name the job that scrapes it, "
                "such as `selector: {job: shop}`",
                *("histograms", number, "metric"),
            )
    return histograms


def sensors_histogram(edges: tuple[float, ...]) -> Histogram:
    """The sensors' histogram, with the vocabulary's labels."""
    return Histogram(
        metric="app_request_duration_seconds",
        edges=edges,
        app=Source(label="app"),
        tier=Source(label="tier"),
        method=Source(label="method"),
        status=Source(label="status"),
    )


def check_threshold(
    document: Document, application: Application, mapped: Iterable[Histogram], sensors: Histogram
) -> None:
    """Raise `FileError` unless the threshold is an edge of all histograms that may have the application's requests.

    If a mapping names the application, it is the only one. Otherwise these are the sensors' histogram, and histograms
    with the application's name in a label.
    """
    if application.objectives.latency is None:
        return
    seconds = application.objectives.latency.seconds
    mapped = [histogram for histogram in mapped if histogram.may_give(application.app)]
    histograms = [histogram for histogram in mapped if histogram.app.constant] or [*mapped, sensors]
    shared = set.intersection(*(set(histogram.edges) for histogram in histograms))
    if seconds in shared:
        return
    nearest = sorted(shared, key=lambda edge: abs(edge - seconds))
    whose = " and ".join(histogram.metric for histogram in histograms)
    could = ", ".join(map(decimal, nearest)) or "none that they share"
    problem = f"{decimal(seconds)} is not a bucket edge of {whose}; nearest first, it could be {could}"
    raise document.error(problem, *("objectives", "latency", "seconds"))
