"""How to read, write and restore caps and read CPU time on each platform: commands, and their output.

`xl sched-credit2` and `xl sched-credit` (percent of a CPU, 0: none), see xl(1); `vzctl set --cpulimit` (the same,
without --save: until the container restarts), see vzctl(8); `virsh schedinfo` (global_quota of global_period, in
microseconds; below 0: none), see virsh(1), since libvirt 1.3.3.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_UPTIME, _STAT = "cat /proc/uptime", "head -n 1 /proc/stat"
Used = tuple[Mapping[str, float], Mapping[str, float]]
"""CPU seconds used by each part of the machine and by each guest."""


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

    guests: Sequence[str]
    look: str
    """Prints the current caps."""
    restoring: Callable[[str], Mapping[str, str]]
    """By guest, the command that restores its cap, or its absence, from the output of `look`."""
    cap: Callable[[str, float], str]
    """The command that sets a guest's cap in CPUs."""
    sample: str
    """Prints /proc/uptime and the CPU time used."""
    used: Callable[[str], Used]
    """Parses the output of `sample` after its first line."""

    def undo(self, looked: str) -> list[str]:
        return self._of_guests(self.restoring(looked))

    def times(self, sampled: str) -> CpuTimes:
        clock, _, rest = sampled.partition("\n")
        if not (found := re.fullmatch(r"(\d+\.\d\d) \d+\.\d\d", clock)):
            raise LabError(f"/proc/uptime is not understood: {clock!r}")
        machine, guests = self.used(rest)
        return CpuTimes(float(found[1]), machine, tuple(self._of_guests(guests)))

    def _of_guests(self, found: Mapping[str, T]) -> list[T]:
        if missing := [guest for guest in self.guests if guest not in found]:
            raise LabError(f"there is no running guest {missing[0]!r}; is its name right?")
        return [found[guest] for guest in self.guests]


def xen(guests: Sequence[str], scheduler: str = "credit2") -> Platform:
    """Domains by name, with the scheduler credit2 or credit, and Dom0 as the host; all domains are the machine."""
    look = f"xl sched-{scheduler}"

    def cap(guest: str, cpus: float) -> str:
        return f"{look} -d {shlex.quote(guest)} -c {round(cpus * 100)}"

    def restoring(printed: str) -> dict[str, str]:
        # Name  ID Weight Cap; names may contain anything, so columns count from the right.
        lines = re.findall(r"^(.*?) +\d+ +\d+ +(\d+)$", printed, re.MULTILINE)
        return {name: cap(name, int(percent) / 100) for name, percent in lines}

    def used(printed: str) -> Used:
        try:
            domains, unknown = xl_domains.parse_list(printed.encode())
        except SourceMalformed as error:
            raise LabError(f"xl list: {error}") from error
        if unknown:
            raise LabError(f"xl list prints a line that is not understood: {unknown[0]!r}")
        of_domid = {str(domain.domid): domain.cpu_seconds for domain in domains}
        return of_domid, {domain.name: domain.cpu_seconds for domain in domains}

    return Platform(guests, look, restoring, cap, f"{_UPTIME} && xl list", used)


def openvz(guests: Sequence[str]) -> Platform:
    """Containers by CTID; user, nice and system time of /proc/vz/vestat, in jiffies of that kernel."""

    def cap(guest: str, cpus: float) -> str:
        return f"vzctl set {shlex.quote(guest)} --cpulimit {round(cpus * 100)}"

    def restoring(printed: str) -> dict[str, str]:
        lines = re.findall(r"^ *(\S+) +(\d+|-) *$", printed, re.MULTILINE)  # percent; 0 or - means no limit
        return {ctid: cap(ctid, 0.0 if percent == "-" else int(percent) / 100) for ctid, percent in lines}

    def used(printed: str) -> Used:
        stat, _, rest = printed.partition("\n")
        table, _, stats = rest.partition("\n\n")
        try:
            rows = vestat.parse(f"{table}\n").rows
            units = vestat.decide(rows, vestat.parse_stats(stats))
        except SourceMalformed as error:
            raise LabError(str(error)) from error
        found = {row.ctid: (row.user + row.nice + row.system) / units.hz for row in rows} if units else {}
        return _of_stat(stat), found

    look = f"vzlist -H -o ctid,cpulimit {' '.join(map(shlex.quote, guests))}"
    sample = f"{_UPTIME} && {_STAT} && cat /proc/vz/vestat && echo && cat /proc/vz/stats 2>/dev/null; :"
    return Platform(guests, look, restoring, cap, sample, used)


def kvm(guests: Sequence[str]) -> Platform:
    """libvirt domains by name; a domain's CPU time includes all of its QEMU's threads."""
    quoted = [shlex.quote(guest) for guest in guests]

    def limit(guest: str, period: int, quota: int) -> str:
        return f"{_VIRSH} schedinfo {shlex.quote(guest)} --live global_period={period} global_quota={quota}"

    def restoring(printed: str) -> dict[str, str]:
        found = {}
        for name, block in _blocks(printed).items():
            values = dict(re.findall(r"^(global_period|global_quota) *: *(-?\d+)$", block, re.MULTILINE))
            if len(values) < 2:
                raise LabError(f"virsh schedinfo {name} has no global_quota: caps need libvirt 1.3.3 or newer")
            period, quota = int(values["global_period"]), int(values["global_quota"])
            found[name] = limit(name, period, quota if 0 < quota < _NO_QUOTA else -1)
        return found

    def used(printed: str) -> Used:
        stat, _, rest = printed.partition("\n")
        times = {name: re.search(r"^ *cpu\.time=(\d+)$", of, re.MULTILINE) for name, of in _blocks(rest).items()}
        return _of_stat(stat), {name: int(time[1]) / 1e9 for name, time in times.items() if time}

    return Platform(
        guests,
        " && ".join(f"echo 'Domain: '{guest} && {_VIRSH} schedinfo {guest}" for guest in quoted),
        restoring,
        lambda guest, cpus: limit(guest, PERIOD_US, round(cpus * PERIOD_US)),
        f"{_UPTIME} && {_STAT} && {_VIRSH} domstats --cpu-total {' '.join(quoted)}",
        used,
    )


def of(platform: str, guests: Sequence[str], xl_info: str | None = None) -> Platform:
    """The platform of this name; `xl_info` is the output of `xl info`, for Xen. Raises `LabError`."""
    if platform != "xen":
        return openvz(guests) if platform == "openvz" else kvm(guests)
    if xl_info is None:
        return xen(guests)
    scheduler = xl_host.parse_info(xl_info.encode()).scheduler
    if scheduler not in SCHEDULERS:
        raise LabError(f"Xen's scheduler {scheduler or '?'} has no caps: boot with sched=credit2 or sched=credit")
    return xen(guests, scheduler)


def _of_stat(line: str) -> dict[str, float]:
    """The machine's CPU time, without idle and iowait, in 1/100 s, as on every supported architecture."""
    if not (found := re.fullmatch(r"cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)( \d+)*", line)):
        raise LabError(f"/proc/stat is not understood: {line!r}")
    return {"": sum(map(int, found.groups()[:5])) / 100}


def _blocks(printed: str) -> dict[str, str]:
    """The text after each line "Domain: NAME"; `virsh domstats` quotes the name."""
    parts = re.split(r"^Domain: '?(.*?)'?$", printed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
