"""The rules that bring every histogram of response times into the normalised steps `requests:duration_seconds_*`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from alerts.generator.histograms import Histogram, Source
from alerts.generator.names import quoted
from alerts.generator.rule_file import Rule

_LABELS = ["host", "platform", "app", "tier", "method", "status"]
_PORT = '"port", "$2", "instance", "(.*:)?(.+)"'


def request_rules(mapped: Sequence[Histogram], sensors: Histogram) -> list[Rule]:
    """One rule each for bucket, sum and count. If several histograms have the same tier, the first one is used.

    The order is that of `judged_by`: those that name the application, those that may have any, the sensors.
    """
    mapped = sorted(mapped, key=lambda histogram: not histogram.app.constant)
    return [
        {
            "record": f"requests:duration_seconds_{series}:rate1m",
            "expr": "\nor on (host, platform, app, tier)\n".join(
                [*(_of_client(histogram, series) for histogram in mapped), _of_sensors(sensors, series)]
            ),
        }
        for series in ("bucket", "sum", "count")
    ]


def _of_sensors(histogram: Histogram, series: str) -> str:
    """Sensors are summed, in the same guest or in several; a sensor that is scraped twice counts once.

    A sensor is a process, identified by its port and, if the target exposes it, its start time (target:process:info),
    under whichever addresses and jobs it is scraped.
    """
    rate = f"rate({histogram.metric}_{series}[1m])"
    target = "on (host, vserver, job, instance)"
    processes = f"{rate} * {target} group_left (port, started) target:process:info\nor\n" + _call(
        "label_replace", f"{rate} unless {target} target:process:info", _PORT
    )
    return _by_edge(processes, series, "avg", ["vserver", "port", "started", *_LABELS])


def _of_client(histogram: Histogram, series: str) -> str:
    """Every scraped process of an instrumented application counts its own requests."""
    matchers = ", ".join(names.matcher(label) for label, names in histogram.selector.items())
    expr = f"rate({histogram.metric}_{series}{f'{{{matchers}}}' if matchers else ''}[1m])"
    for label, source in (("app", histogram.app), ("tier", histogram.tier), ("method", histogram.method)):
        expr = _labelled(expr, label, source, "(.+)", "$1")
    expr = _labelled(expr, "status", histogram.status, "([1-5])(?:..|xx)", "${1}xx")
    return _by_edge(expr, series, "sum", _LABELS)


def _labelled(expr: str, label: str, source: Source, regex: str, replacement: str) -> str:
    if source.constant:
        constant = source.constant.replace("$", "$$")  # $1 would be a group of the regular expression
        return _call("label_replace", expr, f'"{label}", {quoted(constant)}, "", ""')
    if source.label == label and replacement == "$1":
        return expr
    return _call("label_replace", expr, f'"{label}", "{replacement}", "{source.label}", "{regex}"')


def _by_edge(expr: str, series: str, operator: str, labels: Sequence[str]) -> str:
    """Rates summed by these labels, then without those that are not in the vocabulary.

    For buckets, by `le` as well: 1.0 and 1 are the same edge, as written by the client or Prometheus' release. Both may
    be there in the minute after an upgrade, and must not become duplicate series before they are summed.
    """
    if series != "bucket":
        return _aggregated("sum", _LABELS, _aggregated(operator, labels, expr))
    expr = _call("label_replace", expr, '"edge", "$1", "le", "(.+?)(?:[.]0)?"')
    expr = _aggregated(operator, [*labels, "edge"], expr)
    return _aggregated("sum", [*_LABELS, "le"], _call("label_replace", expr, '"le", "$1", "edge", "(.+)"'))


def _aggregated(operator: str, labels: Sequence[str], expr: str) -> str:
    return f"{operator} by ({', '.join(labels)}) (\n{textwrap.indent(expr, '  ')}\n)"


def _call(function: str, expr: str, arguments: str) -> str:
    return f"{function}(\n{textwrap.indent(expr, '  ')},\n  {arguments}\n)"
