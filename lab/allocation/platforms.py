"""How to read, write and restore caps and read CPU time on each platform: commands, and their output.

`xl sched-credit2` and `xl sched-credit` (percent of a CPU, 0: none), see xl(1); `vzctl set --cpulimit` (the same,
without --save: until the container restarts), see vzctl(8); `virsh schedinfo` (global_quota of global_period, in
microseconds; below 0: none), see virsh(1), since libvirt 1.3.3.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lab import LabError
from virtscope.openvz import vestat
from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen import xl_domains, xl_host

T = TypeVar("T")
SCHEDULERS = ("credit2", "credit")  # Xen's schedulers with caps
PERIOD_US = 20_000  # of caps under KVM; like the lab's own cgroups, and for the same reason
_VIRSH = "virsh -c qemu:///system"
_NO_QUOTA = 17_592_186_044_415  # libvirt's value for no quota under cgroup version 2: 2 ** 44 - 1


@dataclass(frozen=True)
class CpuTimes:
    """Totals at a moment, in seconds: the host's clock, and CPU used by each part of it and by each guest."""

    clock: float
    machine: Mapping[str, float]
    """By domid on Xen, as a domain's CPU time disappears with it; elsewhere a single entry."""
    guests: tuple[float, ...]


@dataclass(frozen=True)
class Platform:
    """Commands for a shell on a host, and parsers for their output; unknown output raises `LabError`."""

    look: str
    """Prints the current caps, for `undo`."""
    undo: Callable[[str], list[str]]
    """Commands that restore each guest's cap, or its absence, from the output of `look`."""
    cap: Callable[[str, float], str]
    """The command that sets a guest's cap in CPUs."""
    sample: str
    """Prints the CPU time used, for `times`."""
    times: Callable[[str], CpuTimes]
    """Parses the output of `sample`."""


def xen(guests: Sequence[str], scheduler: str = "credit2") -> Platform:
    """Domains by name, with the scheduler credit2 or credit, and Dom0 as the host; all domains are the machine."""
    look = f"xl sched-{scheduler}"

    def cap(guest: str, cpus: float) -> str:
        return f"{look} -d {shlex.quote(guest)} -c {round(cpus * 100)}"

    def undo(printed: str) -> list[str]:
        # Name  ID Weight Cap; names may contain anything, so columns count from the right.
        lines = re.findall(r"^(.*?) +\d+ +\d+ +(\d+)$", printed, re.MULTILINE)
        caps = _those(guests, {name: int(percent) / 100 for name, percent in lines}, "domain", look)
        return [cap(guest, cpus) for guest, cpus in caps.items()]

    def times(printed: str) -> CpuTimes:
        clock, _, rest = printed.partition("\n")
        try:
            domains, unknown = xl_domains.parse_list(rest.encode())
        except SourceMalformed as error:
            raise LabError(f"xl list: {error}") from error
        if unknown:
            raise LabError(f"xl list prints a line that is not understood: {unknown[0]!r}")
        used = _those(guests, {domain.name: domain.cpu_seconds for domain in domains}, "domain", "xl list")
        machine = {str(domain.domid): domain.cpu_seconds for domain in domains}
        return CpuTimes(_uptime(clock), machine, tuple(used.values()))

    return Platform(look, undo, cap, "cat /proc/uptime && xl list", times)


def openvz(guests: Sequence[str]) -> Platform:
    """Containers by CTID; user, nice and system time of /proc/vz/vestat, in jiffies of that kernel."""
    look = f"vzlist -H -o ctid,cpulimit {' '.join(map(shlex.quote, guests))}"

    def cap(guest: str, cpus: float) -> str:
        return f"vzctl set {shlex.quote(guest)} --cpulimit {round(cpus * 100)}"

    def undo(printed: str) -> list[str]:
        lines = re.findall(r"^ *(\S+) +(\d+|-) *$", printed, re.MULTILINE)  # percent; 0 or - means no limit
        caps = {ctid: 0.0 if percent == "-" else int(percent) / 100 for ctid, percent in lines}
        return [cap(guest, cpus) for guest, cpus in _those(guests, caps, "container", look).items()]

    def used(printed: str) -> dict[str, float]:
        table, _, stats = printed.partition("\n\n")
        try:
            rows = vestat.parse(f"{table}\n").rows
            units = vestat.decide(rows, vestat.parse_stats(stats))
        except SourceMalformed as error:
            raise LabError(str(error)) from error
        found = {row.ctid: (row.user + row.nice + row.system) / units.hz for row in rows} if units else {}
        return _those(guests, found, "container", "/proc/vz/vestat")

    sample = f"{_OF_HOST} && cat /proc/vz/vestat && echo && cat /proc/vz/stats 2>/dev/null; :"
    return Platform(look, undo, cap, sample, partial(_of_host, used=used))


def kvm(guests: Sequence[str]) -> Platform:
    """libvirt domains by name; a domain's CPU time includes all of its QEMU's threads."""
    quoted = [shlex.quote(guest) for guest in guests]

    def limit(guest: str, period: int, quota: int) -> str:
        return f"{_VIRSH} schedinfo {shlex.quote(guest)} --live global_period={period} global_quota={quota}"

    def undo(printed: str) -> list[str]:
        found = {}
        for name, block in _blocks(printed).items():
            values = dict(re.findall(r"^(global_period|global_quota) *: *(-?\d+)$", block, re.MULTILINE))
            if len(values) < 2:
                raise LabError(f"virsh schedinfo {name} has no global_quota: caps need libvirt 1.3.3 or newer")
            period, quota = int(values["global_period"]), int(values["global_quota"])
            found[name] = limit(name, period, quota if 0 < quota < _NO_QUOTA else -1)
        return list(_those(guests, found, "domain", "virsh schedinfo").values())

    def used(printed: str) -> dict[str, float]:
        found = {}
        for name, block in _blocks(printed).items():
            if time := re.search(r"^ *cpu\.time=(\d+)$", block, re.MULTILINE):
                found[name] = int(time[1]) / 1e9
        return _those(guests, found, "domain", "virsh domstats")

    return Platform(
        " && ".join(f"echo 'Domain: '{guest} && {_VIRSH} schedinfo {guest}" for guest in quoted),
        undo,
        lambda guest, cpus: limit(guest, PERIOD_US, round(cpus * PERIOD_US)),
        f"{_OF_HOST} && {_VIRSH} domstats --cpu-total {' '.join(quoted)}",
        partial(_of_host, used=used),
    )


def of(platform: str, guests: Sequence[str], xl_info: str | None = None) -> Platform:
    """The platform of this name; `xl_info` is the output of `xl info`, for Xen. Raises `LabError`."""
    if platform != "xen":
        return openvz(guests) if platform == "openvz" else kvm(guests)
    if xl_info is None:
        return xen(guests)
    scheduler = xl_host.parse_info(xl_info.encode()).scheduler
    if scheduler not in SCHEDULERS:
        raise LabError(
            f"Xen's scheduler {scheduler or '(unknown)'} has no caps: boot with sched=credit2 or sched=credit"
        )
    return xen(guests, scheduler)


_OF_HOST = "cat /proc/uptime && head -n 1 /proc/stat"


def _of_host(printed: str, used: Callable[[str], Mapping[str, float]]) -> CpuTimes:
    """The times of a host that prints `_OF_HOST` before the input of `used`.

    The machine's exclude idle and iowait; they are in 1/100 s, as on every supported architecture.
    """
    clock, stat, rest = (printed + "\n\n").split("\n", 2)
    if not (found := re.fullmatch(r"cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)( \d+)*", stat)):
        raise LabError(f"/proc/stat is not understood: {stat!r}")
    machine = sum(map(int, found.groups()[:5])) / 100
    return CpuTimes(_uptime(clock), {"": machine}, tuple(used(rest).values()))


def _uptime(line: str) -> float:
    if not (found := re.fullmatch(r"(\d+\.\d\d) \d+\.\d\d", line)):
        raise LabError(f"/proc/uptime is not understood: {line!r}")
    return float(found[1])


def _blocks(printed: str) -> dict[str, str]:
    """The text after each line "Domain: NAME"; `virsh domstats` quotes the name."""
    parts = re.split(r"^Domain: '?(.*?)'?$", printed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _those(guests: Sequence[str], found: Mapping[str, T], kind: str, where: str) -> dict[str, T]:
    missing = [guest for guest in guests if guest not in found]
    if missing:
        raise LabError(f"there is no running {kind} {missing[0]!r} in what {where} prints; is its name right?")
    return {guest: found[guest] for guest in guests}
