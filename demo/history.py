"""A day of the demo's past, in blocks that Prometheus takes over as its own.

What targets would have shown is made by the exporters' own code from the model and turned into blocks by promtool. Then
the recording rules are evaluated over it as Prometheus would have done: rules that read what others record come
after these, so it takes a few rounds, each with a Prometheus of its own over the blocks so far.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import Metric

from demo import openvz, sensors, story, xen
from demo.model import Counters
from demo.study import CHECKOUT
from demo.targets import Target
from virtscope.vestat import wiring
from virtscope.vestat.source.recorded import RecordedProcfs
from virtscope.xentop.view import LibraryView, recorded_waiting

STEP = 30  # seconds between two samples: a rate over a minute needs two
_RULES_AND_PANELS = ("prometheus/rules/**/*.yml", "alerts/**/*.yml", "dashboards/**/*.py")


def write_samples(file: Path, targets: Iterable[Target], begin: int, end: int, origin: float) -> None:
    """Write as OpenMetrics what the targets would have shown from `begin` to `end` (Unix time), of what is used."""
    page = _Lines(_names_in_use())
    shown = {host: _Host(host, origin) for host in story.PLATFORMS}
    by_host: dict[str, list[Target]] = {}
    for target in targets:
        by_host.setdefault(target.labels["host"], []).append(target)
    with file.open("w", encoding="utf-8") as out:
        for seconds in range(begin, end + 1, STEP):
            for host, its_targets in by_host.items():
                pages = shown[host].pages(seconds)
                for target in its_targets:
                    families = pages.get((target.job, target.labels.get("vserver", "")), [])
                    page.write(out.write, target, families, seconds)
        out.write("# EOF\n")


def blocks(promtool: Path, samples: Path, data: Path) -> None:
    """Make OpenMetrics into blocks in Prometheus's data folder; raises CalledProcessError as promtool fails."""
    # Two hours each by default, for every one of which it reads the whole file again.
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "--max-block-duration=720h", "openmetrics", "--quiet", samples, data],
        check=True,
        capture_output=True,
        text=True,
    )


class _Host:
    """What each target of a host shows, by job and guest."""

    def __init__(self, host: str, origin: float) -> None:
        self._host = host
        self._counters = Counters(host, origin)
        self._library = LibraryView()
        self._procfs = RecordedProcfs()
        self._sources = wiring.sources(self._procfs)

    def pages(self, seconds: float) -> dict[tuple[str, str], list[Metric]]:
        found = {
            (page.job, page.labels.get("vserver", "")): page.families
            for page in sensors.pages(self._host, self._counters, seconds)
        }
        if self._counters.platform == "xen":
            snapshot = xen.snapshot(self._counters, seconds)
            found["xentop", ""] = self._library.families(snapshot.node) + recorded_waiting(snapshot)
        elif self._counters.platform == "openvz":
            self._procfs.show(openvz.files(self._counters, seconds))
            found["vestat", ""] = [family for source in self._sources if source.required for family in source.read()]
        return found


class _Lines:
    """Writes samples of the metrics that are `wanted`, keeping each line up to its value."""

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted
        self._prefixes: dict[tuple[object, ...], str] = {}

    def write(self, write: Callable[[str], object], target: Target, families: list[Metric], seconds: int) -> None:
        """Write what a target shows at this Unix time, with the labels that Prometheus would add."""
        of_target = {**target.labels, "job": target.job, "instance": target.address}
        write(f"up{_braces(of_target)} 1 {seconds}\n")
        for family in families:
            for sample in family.samples:
                if sample.name in self._wanted:
                    key = (sample.name, target, *sample.labels.items())
                    prefix = self._prefixes.get(key)
                    if prefix is None:
                        labels = {**sample.labels, **target.played, **of_target}
                        prefix = self._prefixes[key] = sample.name + _braces(labels)
                    write(f"{prefix} {float(sample.value)!r} {seconds}\n")


def _braces(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _names_in_use() -> set[str]:
    """Every word of the rules, alerts and dashboards: among them the metrics that they read."""
    return {
        word
        for pattern in _RULES_AND_PANELS
        for file in CHECKOUT.glob(pattern)
        for word in re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*", file.read_text(encoding="utf-8"))
    }
