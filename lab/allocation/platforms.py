"""How caps are read, written and taken back on each platform, and CPU time is read: commands, and what they print.

`xl sched-credit2` and `xl sched-credit` (percent of a CPU, 0: none), as xl(1) has them; `vzctl set --cpulimit` (the
same, without --save: until the container restarts), as vzctl(8) has it; `virsh schedinfo` (global_quota of
global_period, in microseconds; below 0: none), as virsh(1) has it since libvirt 1.3.3.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lab import LabError
from virtscope.openvz import vestat
from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen import xl_domains, xl_host

T = TypeVar("T")
SCHEDULERS = ("credit2", "credit")  # of Xen, those with caps
NO_CAP = 0.0


@dataclass(frozen=True)
class CpuTimes:
    """Totals at a moment, in seconds: of the host's clock, of CPU used on it by each part, and by each guest."""

    clock: float
    machine: Mapping[str, float]
    """By domid on Xen, as a domain's time leaves with it; elsewhere one for all."""
    guests: tuple[float, ...]


class Platform(Protocol):
    """Commands for a shell on a host, and what they print; what isn't understood raises `LabError`."""

    @property
    def look(self) -> str:
        """The command that says which caps there are, for `undo`."""

    def undo(self, printed: str) -> list[str]:
        """The commands that give each guest the cap that it has now, as `look` has printed it, or none."""

    def cap(self, guest: str, cpus: float) -> str:
        """The command that gives it this cap."""

    @property
    def sample(self) -> str:
        """The command that says how much CPU has been used, for `times`."""

    def times(self, printed: str) -> CpuTimes:
        """What `sample` has printed."""


@dataclass(frozen=True)
class Xen:
    """Domains by name, with the scheduler credit2 or credit, and Dom0 as the host."""

    guests: Sequence[str]
    scheduler: str = "credit2"

    @property
    def look(self) -> str:
        """As `Platform.look`."""
        return f"xl sched-{self.scheduler}"

    def undo(self, printed: str) -> list[str]:
        """As `Platform.undo`."""
        found = {}
        for line in printed.splitlines():
            # Name  ID Weight Cap; names may hold anything, so columns count from the right.
            if columns := re.fullmatch(r"(.*?) +\d+ +\d+ +(\d+)", line):
                found[columns[1]] = int(columns[2]) / 100
        caps = _those(self.guests, found, "domain", self.look)
        return [self.cap(guest, cpus) for guest, cpus in caps.items()]

    def cap(self, guest: str, cpus: float) -> str:
        """As `Platform.cap`."""
        return f"xl sched-{self.scheduler} -d {shlex.quote(guest)} -c {round(cpus * 100)}"

    sample = "cat /proc/uptime && xl list"

    def times(self, printed: str) -> CpuTimes:
        """As `Platform.times`: all domains are the machine."""
        clock, _, rest = printed.partition("\n")
        try:
            domains, unknown = xl_domains.parse_list(rest.encode())
        except SourceMalformed as error:
            raise LabError(f"xl list: {error}") from error
        if unknown:
            raise LabError(f"xl list prints a line that is not understood: {unknown[0]!r}")
        used = {domain.name: domain.cpu_seconds for domain in domains}
        by_guest = _those(self.guests, used, "domain", "xl list")
        machine = {str(domain.domid): domain.cpu_seconds for domain in domains}
        return CpuTimes(_uptime(clock), machine, tuple(by_guest.values()))


@dataclass(frozen=True)
class OpenVz:
    """Containers by CTID."""

    guests: Sequence[str]

    @property
    def look(self) -> str:
        """As `Platform.look`."""
        return f"vzlist -H -o ctid,cpulimit {' '.join(map(shlex.quote, self.guests))}"

    def undo(self, printed: str) -> list[str]:
        """As `Platform.undo`: a limit in percent, 0 or - if there is none."""
        found = {}
        for line in printed.splitlines():
            if columns := re.fullmatch(r" *(\S+) +(\d+|-) *", line):
                found[columns[1]] = NO_CAP if columns[2] == "-" else int(columns[2]) / 100
        caps = _those(self.guests, found, "container", self.look)
        return [self.cap(guest, cpus) for guest, cpus in caps.items()]

    def cap(self, guest: str, cpus: float) -> str:
        """As `Platform.cap`."""
        return f"vzctl set {shlex.quote(guest)} --cpulimit {round(cpus * 100)}"

    sample = (
        "cat /proc/uptime && head -n 1 /proc/stat && cat /proc/vz/vestat && echo && cat /proc/vz/stats 2>/dev/null; :"
    )

    def times(self, printed: str) -> CpuTimes:
        """As `Platform.times`: user, nice and system time of /proc/vz/vestat, in the jiffies of that kernel."""
        clock, stat, rest = _three(printed)
        table, _, stats = rest.partition("\n\n")
        try:
            rows = vestat.parse(f"{table}\n").rows
            units = vestat.decide(rows, vestat.parse_stats(stats))
        except SourceMalformed as error:
            raise LabError(str(error)) from error
        used = {row.ctid: (row.user + row.nice + row.system) / units.hz for row in rows} if units else {}
        by_guest = _those(self.guests, used, "container", "/proc/vz/vestat")
        return CpuTimes(_uptime(clock), {"": _machine(stat)}, tuple(by_guest.values()))


@dataclass(frozen=True)
class Kvm:
    """Domains of libvirt by name; a domain's CPU is that of all of its QEMU's threads."""

    guests: Sequence[str]
    period_us: int = 20_000  # as of the lab's own cgroups, and for the same reason

    @property
    def look(self) -> str:
        """As `Platform.look`: a block of lines for each."""
        each = (
            f"echo 'Domain: '{shlex.quote(guest)} && {_VIRSH} schedinfo {shlex.quote(guest)}" for guest in self.guests
        )
        return " && ".join(each)

    def undo(self, printed: str) -> list[str]:
        """As `Platform.undo`."""
        found = {}
        for name, block in _blocks(printed).items():
            values = dict(re.findall(r"^(global_period|global_quota) *: *(-?\d+)$", block, re.MULTILINE))
            if len(values) < 2:
                raise LabError(f"virsh schedinfo {name} has no global_quota: caps need libvirt 1.3.3 or newer")
            period, quota = int(values["global_period"]), int(values["global_quota"])
            found[name] = self._set(name, period, quota if 0 < quota < _NO_QUOTA else -1)
        return list(_those(self.guests, found, "domain", "virsh schedinfo").values())

    def cap(self, guest: str, cpus: float) -> str:
        """As `Platform.cap`."""
        return self._set(guest, self.period_us, round(cpus * self.period_us))

    def _set(self, guest: str, period: int, quota: int) -> str:
        return f"{_VIRSH} schedinfo {shlex.quote(guest)} --live global_period={period} global_quota={quota}"

    @property
    def sample(self) -> str:
        """As `Platform.sample`."""
        names = " ".join(map(shlex.quote, self.guests))
        return f"cat /proc/uptime && head -n 1 /proc/stat && {_VIRSH} domstats --cpu-total {names}"

    def times(self, printed: str) -> CpuTimes:
        """As `Platform.times`."""
        clock, stat, rest = _three(printed)
        used = {}
        for name, block in _blocks(rest).items():
            if found := re.search(r"^ *cpu\.time=(\d+)$", block, re.MULTILINE):
                used[name] = int(found[1]) / 1e9
        by_guest = _those(self.guests, used, "domain", "virsh domstats")
        return CpuTimes(_uptime(clock), {"": _machine(stat)}, tuple(by_guest.values()))


_VIRSH = "virsh -c qemu:///system"
_NO_QUOTA = 17_592_186_044_415  # what libvirt says under cgroup version 2 where there is none: 2 ** 44 - 1


def _blocks(printed: str) -> dict[str, str]:
    """The text after each line "Domain: NAME", which `virsh domstats` has in quotes."""
    parts = re.split(r"^Domain: '?(.*?)'?$", printed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _those(guests: Sequence[str], found: Mapping[str, T], kind: str, where: str) -> dict[str, T]:
    missing = [guest for guest in guests if guest not in found]
    if missing:
        raise LabError(f"there is no running {kind} {missing[0]!r} in what {where} prints; is its name right?")
    return {guest: found[guest] for guest in guests}


def _three(printed: str) -> tuple[str, str, str]:
    clock, _, rest = printed.partition("\n")
    stat, _, rest = rest.partition("\n")
    return clock, stat, rest


def _uptime(line: str) -> float:
    if not (found := re.fullmatch(r"(\d+\.\d\d) \d+\.\d\d", line)):
        raise LabError(f"/proc/uptime is not understood: {line!r}")
    return float(found[1])


def _machine(line: str) -> float:
    """All but idle and waiting for disks: /proc/stat's first line, in the 1/100 s that every architecture here has."""
    if not (found := re.fullmatch(r"cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)( \d+)*", line)):
        raise LabError(f"/proc/stat is not understood: {line!r}")
    return sum(map(int, found.groups()[:5])) / 100


def of(platform: str, guests: Sequence[str], xl_info: str = "") -> Platform:
    """The platform of this name; `xl_info` is what `xl info` prints, for Xen. Raises `LabError`."""
    if platform == "openvz":
        return OpenVz(guests)
    if platform == "kvm":
        return Kvm(guests)
    scheduler = xl_host.parse_info(xl_info.encode()).scheduler
    if scheduler not in SCHEDULERS:
        raise LabError(
            f"Xen's scheduler {scheduler or '(unknown)'} has no caps: boot with sched=credit2 or sched=credit"
        )
    return Xen(guests, scheduler)
