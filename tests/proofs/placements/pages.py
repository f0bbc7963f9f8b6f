"""What the exporters of a host would show that has some of this machine's CPUs and some of its sites. Pure.

Each function gets the page of this machine's exporter. Lines about other CPUs and sites are left out; the CPUs that
remain are numbered from 0. What is neither a CPU's nor a site's is the same on each host, such as memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[^\s{#]+)(?P<labels>\{.*\})? (?P<value>\S+)(?: \S+)?")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_CGROUP = re.compile(r"/virtscope/(auction-\d+)-(?:web|db)(?:/.*)?", re.ASCII)
# Sums over the whole machine, which a host can't have.
_OF_ALL_CGROUPS = ("container_cpu_", "container_pressure_")
_OF_ALL_CPUS = ("node_pressure_cpu_",)


@dataclass(frozen=True)
class Shown:
    """A host: its CPUs as this machine numbers them, and the sites that are on it now."""

    cpus: tuple[int, ...]
    sites: frozenset[str]

    def has_cgroup(self, path: str) -> bool:
        found = _CGROUP.fullmatch(path)
        return found is not None and found[1] in self.sites


Page = Callable[[str, Shown], str]
_Line = Callable[[str, str, Mapping[str, str]], str | None]


def node(text: str, shown: Shown) -> str:
    """node_exporter's."""

    def line(given: str, name: str, labels: Mapping[str, str]) -> str | None:
        if name.startswith(_OF_ALL_CPUS):
            return None
        cpu = labels.get("cpu", "")
        if not cpu.isdecimal():
            return given
        if int(cpu) not in shown.cpus:
            return None
        return given.replace(f'cpu="{cpu}"', f'cpu="{shown.cpus.index(int(cpu))}"', 1)

    return _filtered(text, line)


def cadvisor(text: str, shown: Shown) -> str:
    """cAdvisor's: the cgroups of the sites, and the root, without which a host without sites would have no series."""

    def line(given: str, name: str, labels: Mapping[str, str]) -> str | None:
        if name == "machine_cpu_cores":
            return f"{given[: given.rindex('}') + 1] if labels else name} {len(shown.cpus)}"
        path = labels.get("id")
        if path is None or shown.has_cgroup(path):
            return given
        return given if path == "/" and not name.startswith(_OF_ALL_CGROUPS) else None

    return _filtered(text, line)


def sched(text: str, shown: Shown) -> str:
    """sched-exporter's."""

    def line(given: str, _name: str, labels: Mapping[str, str]) -> str | None:
        return given if "cgroup" not in labels or shown.has_cgroup(labels["cgroup"]) else None

    return _filtered(text, line)


def telegraf(text: str, shown: Shown) -> str:
    """Telegraf's, with the sensors of the sites."""

    def line(given: str, _name: str, labels: Mapping[str, str]) -> str | None:
        return given if "app" not in labels or labels["app"] in shown.sites else None

    return _filtered(text, line)


PAGES: Mapping[str, Page] = {"node": node, "cadvisor": cadvisor, "sched": sched, "telegraf": telegraf}
"""By Prometheus's job."""


def _filtered(text: str, line: _Line) -> str:
    return "".join(f"{each}\n" for each in _lines(text, line))


def _lines(text: str, line: _Line) -> Iterator[str]:
    for given in text.split("\n"):
        if (sample := _SAMPLE.fullmatch(given)) is None:
            if given:  # a comment
                yield given
        elif (found := line(given, sample["name"], dict(_LABEL.findall(sample["labels"] or "")))) is not None:
            yield found
