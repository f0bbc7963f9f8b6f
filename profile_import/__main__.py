"""The command: reads a report, and writes OpenMetrics for `promtool tsdb create-blocks-from openmetrics`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.samples import Sample

from profile_import import reports
from profile_import.opreport import Counted
from virtscope.perf.perf_record import Sampled
from virtscope.perf.profile import Place, Profile, Top, families
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.exposition import Encoder

_LONGEST = 366 * 86400.0  # seconds; promtool makes a block of every two hours
_HOUR = 3600.0
_STEP = 60.0  # seconds from one sample to the next: rate() over a few minutes has enough of them
_MOST_STEPS = 1440
_MOST_PLACES = 1000  # of an event; the rest is in one series


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the report and write OpenMetrics; exits with 1 and one line where either can't be done."""
    given = _parser().parse_args(arguments)
    try:
        with given.file.open(encoding="utf-8-sig", errors="backslashreplace", newline="\n") as file:
            profile = reports.parse(given.kind, file, [Counted(*event) for event in given.events])
        end = given.file.stat().st_mtime if given.end is None else given.end
        begin = end - _HOUR if given.begin is None else given.begin
        if begin >= end:
            sys.exit("profile_import: --begin must be before --end, which is the file's time where it isn't given")
        if begin < 0 or end - begin > _LONGEST:
            sys.exit("profile_import: --begin and --end must be after 1970, and a year apart at most")
        text = openmetrics(profile, begin, end, dict(given.labels))
        if given.output:
            given.output.write_bytes(text)
        else:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    except SourceError as error:
        sys.exit(f"profile_import: {given.file}: {error}")
    except OSError as error:
        sys.exit(f"profile_import: {error.filename or given.output or 'standard output'}: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m profile_import",
        description="Makes an old profile into OpenMetrics, for `promtool tsdb create-blocks-from openmetrics`.",
        epilog="kinds: " + "; ".join(f"{kind}: {what}" for kind, what in reports.KINDS.items()),
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=list(reports.KINDS), help="what printed the report")
    parser.add_argument("file", type=Path, metavar="FILE", help="the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument(
        "--begin",
        type=_time,
        metavar="TIME",
        help="when sampling began, such as 2007-03-01T12:00:00Z or 1172750400 (default: an hour before its end)",
    )
    parser.add_argument("--end", type=_time, metavar="TIME", help="when it ended (default: the file's time)")
    parser.add_argument(
        "--label",
        dest="labels",
        type=_label,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="label for every series, such as host=dom0; may be repeated",
    )
    parser.add_argument(
        "--event",
        dest="events",
        type=Sampled.parse,
        action="append",
        default=[],
        metavar="EVENT[@PERIOD]",
        help="for an opreport without its first lines: each column's event, and of how many one was sampled",
    )
    return parser


def openmetrics(profile: Profile, begin: float, end: float, labels: Mapping[str, str]) -> bytes:
    """Return the profile as counters that rise evenly from 0 at `begin` to all it has at `end`, in Unix seconds.

    A report says nothing of the time in between. `labels` are added to each series.
    """
    top = Top(_MOST_PLACES, 0)
    top.add(profile)
    steps = min(max(round((end - begin) / _STEP), 1), _MOST_STEPS)
    times = [begin + (end - begin) * step / steps for step in range(steps)] + [end]
    return Encoder().openmetrics([_over_time(each, times, labels) for each in families(top.counts())])


def _over_time(family: Metric, times: list[float], labels: Mapping[str, str]) -> Metric:
    last = len(times) - 1
    samples = []
    for sample in family.samples:
        every = {**sample.labels, **labels}
        samples += [
            Sample(sample.name, every, sample.value * step / last, round(time, 3)) for step, time in enumerate(times)
        ]
    family.samples = samples
    return family


def _time(text: str) -> float:
    """Return Unix seconds; a time without a zone is UTC."""
    if re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", text, re.ASCII):
        return float(text)
    try:
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 2007-03-01T12:00:00Z or 1172750400") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) or name.startswith("__"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as host=dom0")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8") from None
    if name in Place._fields:
        raise argparse.ArgumentTypeError(f"the label {name!r} is the report's own")
    return name, value


if __name__ == "__main__":
    main()
