r"""Parses `perf report --stdio -F overhead,sample,period,dso,sym -t '\t'`: samples by image and symbol.

Format: tools/perf/ui/stdio/hist.c and tools/perf/util/sort.c in Linux's source. Each event has a section: comment
lines, the last with the names of the columns, and a row for each symbol. A symbol with a line break continues in lines
that are not rows.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from virtscope.perf.profile import GUESTS, Hits, Place, Profile, add, event_name, in_base_units
from virtscope.toolkit.collect import SourceMalformed

SPACES = {"k": "kernel", ".": "user", "H": "hypervisor", "g": "guest_kernel", "u": "guest_user"}

_EVENT = re.compile(r"# Samples: \d+[KMGT]?\s+of event '(.+)'")
_LOST = re.compile(r"# Total Lost Samples: (\d{1,19})", re.ASCII)
_COLUMNS = ["# Overhead", "Samples", "Period", "Shared Object", "Symbol"]
_SHARE = re.compile(r"[0-9]{1,3}[.,][0-9]+%?")  # old perfs omit the sign
_COUNT = re.compile(r"[0-9]{1,19}")
_SYMBOL = re.compile(r"\[(.)\] +(\S.*)")
_MAX_SHOWN = 120  # characters of a line in error messages


class Report(NamedTuple):
    """A report: samples by place, and the number of lost samples."""

    profile: Profile
    lost: int


def parse(text: str, xen_symbol: Callable[[str], str] | None = None) -> Report:
    """Parse the samples of every event by place in a report.

    `xen_symbol` resolves the hypervisor's addresses, in a report of Dom0; it returns "" for others.

    Raises SourceMalformed with the offending line if one is malformed, there is no event, or an event is repeated,
    because its samples would count twice.
    """
    profile: Profile = {}
    seen: set[str] = set()
    event = ""  # of this section
    lost, in_rows = 0, False
    for number, line in enumerate(text.split("\n"), 1):  # names may contain other line separators
        if heading := _EVENT.match(line):
            event, in_rows = event_name(heading[1]), False
            if event in seen:
                raise _malformed(number, line, f"is of {event!r}, which was sampled twice")
            seen.add(event)
        elif line.startswith("#"):
            if counted := _LOST.match(line):
                lost += int(counted[1])
            elif event and line.startswith("# Overhead"):
                if [name.strip() for name in line.split("\t")] != _COLUMNS:
                    raise _malformed(number, line, "doesn't name the columns that were asked for")
                in_rows = True
        elif row := _row(event, line, xen_symbol) if in_rows else None:
            add(profile, *row)
        elif line.strip() and not (in_rows and line.count("\t") < len(_COLUMNS) - 1 and profile):
            raise _malformed(number, line, "is no row of an event")
    if not seen:
        raise SourceMalformed(f"perf report names no event: {text[:240]!r}")
    return Report(profile, lost)


def _row(event: str, line: str, xen_symbol: Callable[[str], str] | None) -> tuple[Place, Hits] | None:
    """Return the place and samples of a row, None if this is none."""
    share, *values = [part.strip() for part in line.split("\t", len(_COLUMNS) - 1)]
    if len(values) < len(_COLUMNS) - 1 or not _SHARE.fullmatch(share):
        return None
    samples, period, image, symbol = values
    named = _SYMBOL.fullmatch(symbol)
    if not (named and _COUNT.fullmatch(samples) and _COUNT.fullmatch(period)):
        return None
    hits, space, name = Hits(int(samples), in_base_units(event, int(period))), SPACES.get(named[1], ""), named[2]
    if xen_symbol and space == "kernel" and (of_xen := xen_symbol(name)):
        return Place.named(event, "xen-syms", of_xen, "hypervisor"), hits
    return Place.named(event, image, name, space, GUESTS if space.startswith("guest") else ""), hits


def _malformed(number: int, line: str, problem: str) -> SourceMalformed:
    return SourceMalformed(f"line {number} of perf report {problem}: {line.strip()[:_MAX_SHOWN]!r}")
