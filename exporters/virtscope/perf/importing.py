"""`perf-exporter import`: a report of OProfile, Xenoprof or perf, made into what Prometheus can be backfilled with."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from virtscope.perf.profile import opreport, perf_report, perf_script
from virtscope.perf.profile.backfill import openmetrics
from virtscope.perf.profile.opreport import Counted
from virtscope.perf.profile.perf_names import without_scope
from virtscope.perf.profile.samples import Place, Profile
from virtscope.perf.source.perf_record import Sampled
from virtscope.toolkit.sources import SourceError, SourceRubbish

_LONGEST = 366 * 86400.0  # seconds; promtool makes a block of every two hours
_HOUR = 3600.0
_KINDS = {
    "opreport": "what OProfile's or Xenoprof's opreport printed, with or without -l",
    "perf-report": "what `perf report --stdio` printed",
    "perf-script": "what `perf script` printed",
}


def main(arguments: Sequence[str]) -> None:
    """Read the report and write OpenMetrics; exits with 1 and one line where either can't be done."""
    given = _parser().parse_args(arguments)
    try:
        profile = _read(given)
        end = given.file.stat().st_mtime if given.end is None else given.end
        begin = end - _HOUR if given.begin is None else given.begin
        if begin >= end:
            sys.exit("perf-exporter: --begin must be before --end, which is the file's time where it isn't given")
        if begin < 0 or end - begin > _LONGEST:
            sys.exit("perf-exporter: --begin and --end must be after 1970, and a year apart at most")
        text = openmetrics(profile, begin, end, dict(given.labels))
        if given.output:
            given.output.write_bytes(text)
        else:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    except SourceError as error:
        sys.exit(f"perf-exporter: {given.file}: {error}")
    except OSError as error:
        sys.exit(f"perf-exporter: {error.filename or given.output or 'standard output'}: {error.strerror}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="perf-exporter import",
        description="Makes a profile of old into OpenMetrics, for `promtool tsdb create-blocks-from openmetrics`.",
        epilog="kinds: " + "; ".join(f"{kind}: {what}" for kind, what in _KINDS.items()),
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=list(_KINDS), help="what printed the report")
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


def _read(given: argparse.Namespace) -> Profile:
    """Return what the report has; raises SourceRubbish where that is nothing."""
    profile = _parsed(given)
    if not profile:
        raise SourceRubbish(
            f"there are no samples in this {given.kind}: no row stands below its columns, or all have 0"
        )
    return profile


def _parsed(given: argparse.Namespace) -> Profile:
    with given.file.open(encoding="utf-8-sig", errors="backslashreplace", newline="\n") as file:
        if given.kind == "perf-script":
            return _named_alone(perf_script.parse(file))
        text = file.read()
    if given.kind == "perf-report":
        return _named_alone(perf_report.parse(text).profile)
    return opreport.parse(text, [Counted(event.event, event.period) for event in given.events])


def _named_alone(profile: Profile) -> Profile:
    """Return it with events called as a live host's are, whatever a report's were sampled of."""
    names = without_scope({place.event for place in profile})
    return {place._replace(event=names[place.event]): hits for place, hits in profile.items()}


def _time(text: str) -> float:
    """Return Unix seconds; a time without a zone is UTC."""
    if re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", text, re.ASCII):
        return float(text)
    try:
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 2007-03-01T12:00:00Z or 1172750400") from None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


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
