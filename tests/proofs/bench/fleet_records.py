"""Records of a large fleet as Prometheus blocks: only those read by pages about all hosts.

Each host has 50 virtual servers and an application with two objectives; one in twenty has an alert, one in a hundred a
critical one, one in a thousand is down. Records shown in graphs have all their samples, the others only those of the
last minutes.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GUESTS = 50
PLATFORMS = {"xen": "xentop", "kvm": "kvm", "openvz": "vestat", "cgroup": "cadvisor"}  # exporter job by platform
WARNING_EVERY, CRITICAL_EVERY, DOWN_EVERY = 20, 100, 1000
WAITS, WAITED_FOR = "waits", 8  # hosts with waits, and the number of neighbours that each container on them waits for

_BLOCK = 2 * 3600
_MINUTE, _RECENT = 60, 900  # seconds
_WOBBLE = (1.0, 1.02, 0.97, 1.05, 0.99, 1.01, 0.94)


class Record(NamedTuple):
    """A series: its labels as text, and whether graphs query its past."""

    name: str
    labels: str
    value: float
    past: bool = False


class Span(NamedTuple):
    """The first and last time of samples in seconds since 1970, and the interval of older ones.

    Samples since one hour before `now` are a minute apart.
    """

    begin: int
    now: int
    end: int
    step: int

    def past(self) -> list[int]:
        """Sample times of records with a past."""
        hour_ago = self.now - 3600
        return [*range(self.begin, hour_ago, self.step), *range(hour_ago, self.end, _MINUTE)]

    def recent(self) -> list[int]:
        """Sample times of the others, dense enough for an instant query."""
        return list(range(self.now - _RECENT, self.end, 4 * _MINUTE))


def of_fleet(hosts: int) -> Iterator[Record]:
    """All records of this many hosts, a quarter of them per platform."""
    yield Record("ALERTS", 'alertname="Watchdog",alertstate="firing",severity="none"', 1)
    for number in range(hosts):
        platform, job = list(PLATFORMS.items())[number % len(PLATFORMS)]
        yield from _of_host(number, f'host="host{number:05}",platform="{platform}"', job)


def waits() -> Iterator[Record]:
    """Records of a host with 100 containers, each of which waits for eight others."""
    of = f'host="{WAITS}",platform="cgroup"'
    yield Record("host:cpu_capacity:cpus", of, 16, past=True)
    yield Record("host:severity:score", of, 0, past=True)
    for waiting in range(100):
        for step in range(1, WAITED_FOR + 1):
            for_other = f'resource="cpu",reason="neighbour",by="web{(waiting + step) % 100}"'
            labels = f'{of},vserver="web{waiting}",role="guest",{for_other}'
            yield Record("vserver:delay:rate", labels, 0.001 * step + 0.0001 * waiting, past=True)
        usage = f'{of},vserver="web{waiting}",role="guest"'
        yield Record("vserver:cpu_usage:rate", usage, 0.1, past=True)
        for reason, by in (("self", f"web{waiting}"), ("host", "(host)"), ("cap", "(cap)"), ("unknown", "(rest)")):
            labels = f'{of},vserver="web{waiting}",role="guest",resource="cpu",reason="{reason}",by="{by}"'
            yield Record("vserver:delay:rate", labels, 0.002, past=True)


def _of_host(number: int, host: str, job: str) -> Iterator[Record]:
    down = number % DOWN_EVERY == DOWN_EVERY - 1
    for target in (job, "node", "perf"):
        yield Record("up", f'{host},job="{target}",instance="10.0.{number // 250}.{number % 250}:{target}"', 1 - down)
    points = 0
    for alert in _alerts(number, host, down=down):
        points += 1000 if "critical" in alert.labels else 1
        yield alert
    spread = number % 97 / 97
    overhead = 0.02 + 0.2 * spread
    yield Record("host:severity:score", host, points // 2 + 0.4 * overhead * (not down), past=True)
    if down:
        return
    yield Record("host:cpu_capacity:cpus", host, 16, past=True)
    yield Record("host:cpu_free:cpus", host, 4 + 8 * spread, past=True)
    yield Record("host:guests:count", host, GUESTS, past=True)
    yield Record("monitor:cpu_usage:rate", f'{host},job="{job}"', 0.01, past=True)
    yield Record("host:overhead:ratio", host, overhead, past=True)
    yield Record("host:overhead_cpu:rate", host, 0.1 + spread)
    yield Record("host:headroom:apps", host, 3 + spread)
    yield Record("host:headroom:apps_p10_1d", host, 2 + spread)
    yield Record("host:llc_misses_per_instruction:ratio", host, 0.001 + 0.01 * spread, past=True)
    app = f'{host},app="shop{number}"'
    yield Record("app:requests:rate", f'{app},tier="web"', 10)
    for objective in ("latency", "errors"):
        yield Record("app:slo_burn:ratio", f'{app},objective="{objective}"', spread, past=True)
        yield Record("app:slo_objective:ratio", f'{app},objective="{objective}"', 0.99)
    yield Record("app:slo_threshold:seconds", f'{app},objective="latency"', 0.1)
    yield Record("app:slo_response:ratio", f'{app},objective="latency"', 0.5 + 0.3 * spread)
    for guest in range(GUESTS):
        labels = f'{host},vserver="web{number}-{guest}",role="guest"'
        yield Record("vserver:cpu_usage:rate", labels, 0.1 + guest / 1000)
        yield Record("vserver:cpu_wait:rate", labels, 0.01 * spread + guest / 10000)
    longest = f'{host},vserver="web{number}-{GUESTS - 1}",role="guest"'
    yield Record("vserver:cpu_wait_highest:rate", longest, 0.01 * spread + (GUESTS - 1) / 10000)
    for tier, guest in (("web", 0), ("db", 1)):
        labels = f'{host},vserver="web{number}-{guest}",role="guest",app="shop{number}",tier="{tier}"'
        yield Record("vserver:app:info", labels, 1)


def _alerts(number: int, host: str, *, down: bool) -> Iterator[Record]:
    name = host.partition(",")[0]
    if down or number % CRITICAL_EVERY == 7:
        labels = f'alertname="ExporterDown",{host},severity="critical"'
    elif number % WARNING_EVERY == 3:
        labels = f'alertname="GuestCapped",{name},vserver="web{number}-7",severity="warning"'
    else:
        return
    yield Record("ALERTS", f'{labels},alertstate="firing"', 1, past=True)
    yield Record("ALERTS_FOR_STATE", labels, 1.7e9, past=True)


def write(records: Iterator[Record], span: Span, folder: Path, promtool: Path) -> int:
    """Write records as blocks into Prometheus's data folder; returns the number of series.

    promtool reads a file twice for each block, so each block gets a temporary file.

    Raises subprocess.CalledProcessError if promtool refuses one.
    """
    past, recent = _by_block(span.past()), _by_block(span.recent())
    text = {start: folder.parent / f"{start}.om" for start in {*past, *recent}}
    series = 0
    files = {start: file.open("w", encoding="utf-8") for start, file in text.items()}
    try:
        for series, record in enumerate(records, start=1):  # noqa: B007
            words = [f"{record.value * wobble if record.past else record.value:.6g}" for wobble in _WOBBLE]
            head = f"{record.name}{{{record.labels}}} "
            for start, moments in (past if record.past else recent).items():
                files[start].write(
                    "".join([f"{head}{words[place % 7]} {moment}\n" for place, moment in enumerate(moments)])
                )
    finally:
        for file in files.values():
            file.write("# EOF\n")
            file.close()
    for start in sorted(text):
        command: list[str | Path] = [
            promtool,
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--quiet",
            text[start],
            folder,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        text[start].unlink()
    return series


def _by_block(moments: list[int]) -> dict[int, list[int]]:
    blocks: dict[int, list[int]] = {}
    for moment in moments:
        blocks.setdefault(moment // _BLOCK * _BLOCK, []).append(moment)
    return blocks
