"""`sched-exporter top`: who waits for a CPU, and who runs meanwhile, in a terminal; no Prometheus is needed.

    WAITS                     CPUS  WHILE THESE RUN
    /docker/4f2a...           0.42  /docker/91bc... 83 %, (host) 9 %, itself 8 %

Only text and, in a terminal, the two sequences of ECMA-48 that move to the top and clear what is below: plain enough
for a serial console. With TERM=dumb, in a pipe or in a file it appends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from virtscope.sched import privileges
from virtscope.sched.counting import CpuWaits, add_flags
from virtscope.sched.cpu import Totals
from virtscope.sched.privileges import PrivilegesError
from virtscope.toolkit import cli
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import GlobError

_REPAINT = "\x1b[H\x1b[J"
_MIN_SHARE = 0.01  # of a cgroup's wait, to be named
_MIN_WAIT = 0.001  # CPUs
_MAX_NAME = 80  # characters
_TOO_LONG = "..."


class Look(NamedTuple):
    """What had been counted at a moment: ns by what ran, by name."""

    seconds: float
    waited: dict[str, dict[str, int]]
    totals: Totals


def main(arguments: Sequence[str]) -> None:
    """Show waits until Ctrl-C, or --count times; exits with 1 and one line on error."""
    flags = cli.terminal("sched-exporter top", "Shows who waits for a CPU, and who runs meanwhile.")
    cli.add(flags, "--interval", "DURATION", "time between two looks", type=cli.duration, default="2s")
    cli.add(flags, "--count", "N", "looks until it ends; 0 is endless", type=_count, default=0)
    add_flags(flags)
    given = flags.parse_args(arguments)
    try:
        waits = CpuWaits(given)
        privileges.keep_only(waits.needed())
        _show(waits, given.interval, given.count)
    except (GlobError, PrivilegesError, SourceError) as error:
        sys.exit(f"sched-exporter: {error}")
    except OSError as error:  # of the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # which Python flushes at its end
        if not isinstance(error, BrokenPipeError):  # as of `| head`
            sys.exit(f"sched-exporter: can't write: {error.strerror}")


def _count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of looks, such as 1; 0 is endless")


def _show(waits: CpuWaits, interval: float, count: int) -> None:
    before, shown = _look(waits), 0
    while not count or shown < count:
        time.sleep(interval)
        after = _look(waits)
        width, height = shutil.get_terminal_size() if sys.stdout.isatty() else (sys.maxsize, sys.maxsize)
        repaint = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        text = "\n".join(lines(before, after, width, height - 1 if repaint else sys.maxsize))
        sys.stdout.write(f"{_REPAINT if repaint else ''}{text}\n")
        sys.stdout.flush()
        before, shown = after, shown + 1


def _look(waits: CpuWaits) -> Look:
    rows, totals = waits.read()
    return Look(time.monotonic(), {name: dict(row.ns) for name, row in rows.items()}, totals)


def lines(before: Look, after: Look, width: int, height: int) -> list[str]:
    """Return at most `height` lines of at most `width` characters: who waited most between two looks comes first."""
    ns = (after.seconds - before.seconds) * 1e9
    grown = {
        name: {what: max(0, total - before.waited[name].get(what, 0)) for what, total in row.items()}
        for name, row in after.waited.items()
        if name in before.waited
    }
    waits = {name: sum(row.values()) / ns for name, row in grown.items()}
    order = sorted((name for name in waits if waits[name] >= _MIN_WAIT), key=lambda name: (-waits[name], name))
    of_name = min(max(20, width // 3), _MAX_NAME)
    switches = (after.totals.switches - before.totals.switches) * 1e9 / ns
    looked = f"{time.strftime('%H:%M:%S')}  {ns / 1e9:.1f} s  {switches:,.0f} switches/s"
    shown = [
        f"{looked}  {len(order)} of {len(waits)} wait for a CPU",
        f"{'WAITS':{of_name}}  {'CPUS':>6}  WHILE THESE RUN",
    ]
    for name in order:
        total = sum(grown[name].values())
        causes = sorted(grown[name].items(), key=lambda cause: (-cause[1], cause[0]))
        row = f"{_end_of(name, of_name):{of_name}}  {waits[name]:6.2f}  "
        named = ""
        for what, each in causes:
            more = f"{', ' if named else ''}{'itself' if what == name else _end_of(what, of_name)} {each / total:.0%}"
            if each < _MIN_SHARE * total or len(row + named + more) > width:
                break
            named += more
        shown.append(row + named)
    return [line[:width].rstrip() for line in shown[:height]]


def _end_of(name: str, width: int) -> str:
    """Return the name for a terminal; of a long path the end, which tells containers apart."""
    safe = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)
    return safe if len(safe) <= width else f"{_TOO_LONG}{safe[len(_TOO_LONG) - width :]}"
