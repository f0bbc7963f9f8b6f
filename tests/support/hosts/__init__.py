"""Simulated hosts with known true values, as input of promtool's unit tests.

    targets = [Target("xentop", "xen1", "xen", feeds.xentop({"Domain-0": Server(cpu=0.4), "web": Server(cpu=0.6)}, 4))]
    given = exposed(targets, Watching(scrape=15, seconds=720))

feeds.py has exporter metrics of servers with constant values, churn.py hosts whose guests come and go; a page here,
such as xen.prom, has every metric of a platform.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = Callable[[float], float | None]
"""The value of a series at a time, in seconds since the simulation began; None where it isn't exposed."""

Line: TypeAlias = str | tuple[str, Value]
"""As in an exposition, where `~RATE` is a counter that grows by RATE per second, from 0 or as `START~RATE`."""

Stretch: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Target:
    """A scrape target: an exporter's lines, and labels besides those of its host."""

    job: str
    host: str
    platform: str
    lines: Sequence[Line]
    vserver: str = ""
    up: bool = True

    @property
    def labels(self) -> str:
        instance = f"{self.host}:{self.job}{':' if self.vserver else ''}{self.vserver}"
        of_host = f'job="{self.job}",instance="{instance}",host="{self.host}",platform="{self.platform}"'
        return of_host + (f',vserver="{self.vserver}"' if self.vserver else "")


@dataclass(frozen=True)
class Watching:
    """How hosts are watched: seconds between scrapes, and failures.

    phase: time of the first scrape; evaluations are at whole intervals, which real scrapes never coincide with.
    failed: by job, periods in which its exporter doesn't answer; away: periods in which Prometheus doesn't run.
    clock: the age of counters at a time, which is lower after a restart or on less busy hosts.
    """

    scrape: int
    seconds: int
    phase: int = 0
    failed: Mapping[str, Sequence[Stretch]] = field(default_factory=dict)
    away: Sequence[Stretch] = ()
    clock: Callable[[float], float] = float

    @property
    def times(self) -> range:
        return range(self.phase, self.seconds + 1, self.scrape)

    @property
    def interval(self) -> int:
        """promtool's interval between values of a series: each scrape is at a multiple of it."""
        return math.gcd(self.scrape, self.phase)

    def values(self, job: str, value: Value) -> str:
        """The values of a series of this job in promtool's notation; empty if no scrape has it."""
        out: list[str] = []
        there = False
        for at in self.times:
            if _within(at, self.away):
                out.append("_")
                continue
            now = None if _within(at, self.failed.get(job, ())) else value(self.clock(at))
            out.append(f"{now:.12g}" if now is not None else "stale" if there else "_")
            there = now is not None
        if not any(value[0].isdigit() for value in out):
            return ""
        between = self.scrape // self.interval - 1
        before = self.phase // self.interval
        return f"{f'_x{before} ' if before else ''}{(f' _x{between} ' if between else ' ').join(out)}"


def exposed(targets: Iterable[Target], watching: Watching) -> Iterator[tuple[str, str]]:
    """All series of these targets with their stored values, plus the series that Prometheus adds to each scrape."""
    for target in targets:
        scraped = [f"up {target.up:d}", "scrape_duration_seconds 0.25", "scrape_samples_scraped 100"]
        for line in [*scraped, *(target.lines if target.up else ())]:
            name, value = series(line) if isinstance(line, str) else line
            metric, _, labels = name.partition("{")
            if values := watching.values(target.job, value):
                yield f"{metric}{{{target.labels}{',' if labels else ''}{labels.removesuffix('}')}}}", values


def every_metric(page: str, label: str = "") -> list[str]:
    """A host with every metric of this page. `label` is the guests' label; db has ten times the values of web.

    No two metrics of one kind have equal values, so that a mix-up shows. States and facts are 1 for both.
    """
    numbers = {"domain": ',domid="{}"', "guest": ',pid="{}"'}
    lines = []
    for line in (Path(__file__).parent / f"{page}.prom").read_text().splitlines()[1:]:
        name, _, value = line.rpartition(" ")
        start, _, rate = value.partition("~")
        for guest, factor in {"web": 1, "db": 10}.items() if "OF" in line else [("", 1)]:
            times = 1 if re.match(r".*_(info|state|absent|on)\{", name) else factor
            of = f'{label}="{guest}"' + numbers.get(label, "").format(factor)
            lines.append(f"{name.replace('OF', of)} {times * float(start or 0)}~{times * float(rate or 0)}")
    return lines


def series(line: str) -> tuple[str, Value]:
    """A line's series, and its value by time."""
    name, _, value = line.rpartition(" ")
    start, _, rate = value.partition("~")
    return name, functools.partial(_grown, float(start or 0), float(rate or 0))


def _grown(start: float, rate: float, seconds: float) -> float:
    return start + rate * seconds


def _within(at: float, stretches: Iterable[Stretch]) -> bool:
    return any(begin <= at < end for begin, end in stretches)
