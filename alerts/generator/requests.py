"""The rules that normalise all histograms of response times as `requests:duration_seconds_*`."""

import textwrap
from collections.abc import Iterable, Sequence

from alerts.generator.histograms import Histogram, Source
from alerts.generator.names import quoted
from alerts.generator.rule_file import Rule

_LABELS = ["host", "platform", "app", "tier", "method", "status"]
_TARGET = ["host", "platform", "vserver", "job", "instance"]
_ON_TARGET = f"on ({', '.join(_TARGET)})"
_MEASURED = "requests:measured:seconds"


def request_rules(mapped: Sequence[Histogram], sensors: Histogram) -> list[Rule]:
    """One rule each for bucket, sum and count. If several histograms have the same tier, the first is used.

    The order is that of `judged_by`: histograms that name the application, histograms for any application, sensors.

    A target may expose any label, so every operand is aggregated before it is joined or relabelled: otherwise one
    target's extra series would make the rule fail for all hosts.
    """
    mapped = sorted(mapped, key=lambda histogram: not histogram.app.constant)
    return [
        {"record": _MEASURED, "expr": f"\nor {_ON_TARGET}\n".join(map(_measured, [*mapped, sensors]))},
        *(
            {
                "record": f"requests:duration_seconds_{series}:rate1m",
                "expr": "\nor on (host, platform, app, tier)\n".join(
                    [*(_of_client(histogram, series) for histogram in mapped), _of_sensors(sensors, series)]
                ),
            }
            for series in ("bucket", "sum", "count")
        ),
    ]


def _measured(histogram: Histogram) -> str:
    """The time between a target's newest sample and its newest of a minute ago; absent after a reset."""
    count = _series(histogram, "count")
    between = f"timestamp({count}) - timestamp({count} offset 1m) > 0"
    return f"""\
{_aggregated("max", _TARGET, between)}
unless {_ON_TARGET}
{_aggregated("max", _TARGET, f"resets({count}[2m])")} > 0"""


def _per_second(histogram: Histogram, series: str, labels: Sequence[str]) -> str:
    """The rate of the last minute.

    Uses the difference to a minute ago: rate() misses increases between the last sample of a minute and the first of
    the next, and rules may be evaluated only once a minute. Without such a difference, it falls back to rate().
    """
    total = _series(histogram, series)
    difference = f"({total} - {total} offset 1m) / {_ON_TARGET} group_left () {_MEASURED}"
    return _aggregated(
        "sum", [*labels, *(["le"] if series == "bucket" else [])], f"{difference}\nor\nrate({total}[1m])"
    )


def _series(histogram: Histogram, series: str, *more: str) -> str:
    matchers = ", ".join([*(names.matcher(label) for label, names in histogram.selector.items()), *more])
    return f"{histogram.metric}_{series}{f'{{{matchers}}}' if matchers else ''}"


def _of_sensors(histogram: Histogram, series: str) -> str:
    """Sums sensors, in the same guest or in several; a sensor that is scraped twice counts once.

    A sensor is a process, identified by its port and, if exposed, its start time (target:process:info), independent of
    the addresses and jobs that scrape it. After a restart of Prometheus, a target may have two of these.
    """
    one = _series(histogram, series, *(['le="+Inf"'] if series == "bucket" else []))
    seen = _aggregated("group", _TARGET, f"last_over_time({one}[1m])")
    port = _call("label_replace", seen, '"port", "$2", "instance", "(.*:)?(.+)"')
    process = f"topk by ({', '.join(_TARGET)}) (1, target:process:info)\nor {_ON_TARGET}\n{port}"
    rates = _per_second(histogram, series, [*_TARGET, "app", "tier", "method", "status"])
    expr = f"{rates}\n* {_ON_TARGET} group_left (port, started)\n(\n{textwrap.indent(process, '  ')}\n)"
    return _recorded(expr, series, "avg", ["vserver", "port", "started", *_LABELS])


def _of_client(histogram: Histogram, series: str) -> str:
    """Every scraped process of an instrumented application counts its own requests.

    Labels are renamed in two steps, as a new name may be that of another label that isn't read yet.
    """
    sources = {label: getattr(histogram, label) for label in ("app", "tier", "method", "status")}
    read = [source.label for source in sources.values() if source.label]
    expr = _per_second(histogram, series, ["host", "platform", *read])
    for label, source in sources.items():
        expr = _call("label_replace", expr, _renaming(label, source))
    return _recorded(expr, series, "sum", ["host", "platform", *(f"to_{label}" for label in sources)], rename=sources)


def _renaming(label: str, source: Source) -> str:
    if source.constant:
        constant = source.constant.replace("$", "$$")  # $1 would refer to a group
        return f'"to_{label}", {quoted(constant)}, "", ""'
    regex, replacement = ("([1-5])(?:..|xx)", "${1}xx") if label == "status" else ("(.+)", "$1")
    return f'"to_{label}", "{replacement}", "{source.label}", "{regex}"'


def _recorded(expr: str, series: str, operator: str, labels: Sequence[str], rename: Iterable[str] = ()) -> str:
    """Rates by these labels, with to_NAME renamed to NAME for each NAME in `rename`, summed to the vocabulary's labels.

    Buckets have `le` as well: 1.0 and 1 are the same edge, depending on the client or Prometheus' release. Both may
    exist in the minute after an upgrade, and must not become duplicate series before they are summed.
    """
    names = {label: f"to_{label}" for label in rename}
    if series == "bucket":
        expr = _call("label_replace", expr, '"edge", "$1", "le", "(.+?)(?:[.]0)?"')
        names["le"] = "edge"
        labels = [*labels, "edge"]
    expr = _aggregated(operator, labels, expr)
    for label, old in names.items():
        expr = _call("label_replace", expr, f'"{label}", "$1", "{old}", "(.+)"')
    return _aggregated("sum", [*_LABELS, *(["le"] if series == "bucket" else [])], expr)


def _aggregated(operator: str, labels: Sequence[str], expr: str) -> str:
    return f"{operator} by ({', '.join(labels)}) (\n{textwrap.indent(expr, '  ')}\n)"


def _call(function: str, expr: str, arguments: str) -> str:
    return f"{function}(\n{textwrap.indent(expr, '  ')},\n  {arguments}\n)"
