"""Translates the event names of `perf list` to perf_event_attr.

    cycles, cache-misses, task-clock    the kernel's generic hardware and software events
    LLC-load-misses, dTLB-loads         a cache, an operation, and hits or misses
    uncore_imc/cas_count_read/          an event listed by a PMU's driver; uncore_imc/... is every uncore_imc_N
    amd_l3/event=0x04,umask=0x01/       a PMU's own codes; r003c those of the cores

Counts include everything on a CPU: user and kernel mode, and KVM guests.

Numbers: include/uapi/linux/perf_event.h. Terms and formats: Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from virtscope.perf.kernel import Attr
from virtscope.perf.machine import parse_cpus
from virtscope.toolkit.bounded import read_text

_HARDWARE, _SOFTWARE, _CACHE, _RAW = 0, 1, 3, 4


def _numbered(names: str) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split())}


_HARDWARE_EVENTS = _numbered(
    "cycles instructions cache-references cache-misses branches branch-misses bus-cycles stalled-cycles-frontend "
    "stalled-cycles-backend ref-cycles"
) | {"cpu-cycles": 0, "branch-instructions": 4}
_SOFTWARE_EVENTS = _numbered(
    "cpu-clock task-clock page-faults context-switches cpu-migrations minor-faults major-faults alignment-faults "
    "emulation-faults"
)
_NANOSECONDS = {"cpu-clock", "task-clock"}  # software events that count time
_CACHES = _numbered("L1-dcache L1-icache LLC dTLB iTLB branch node")
_OPERATIONS = {"load": ("loads", 0), "store": ("stores", 1), "prefetch": ("prefetches", 2)}
# cache | operation << 8 | result << 16; the results are access and miss
_CACHE_EVENTS = {
    name: cache | operation << 8 | missed << 16
    for cache_name, cache in _CACHES.items()
    for singular, (plural, operation) in _OPERATIONS.items()
    for name, missed in ((f"{cache_name}-{plural}", 0), (f"{cache_name}-{singular}-misses", 1))
}

# Units of PMU events in sysfs: Prometheus's base unit and its factor.
_UNITS = {
    "": ("", 1.0),
    "Joules": ("joules", 1.0),
    "Bytes": ("bytes", 1.0),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
}

_RAW_NAME = re.compile(r"r([0-9a-fA-F]{1,16})")
_PMU_NAME = re.compile(r"(\w[\w.-]{0,99})/([^/]{0,200})/")


class EventError(Exception):
    """An invalid event name on any machine; the message has the name and a suggestion."""


class EventAbsent(Exception):
    """An event missing in this machine's sysfs; the message has its name, and where to look."""


class Event(NamedTuple):
    """An event of one PMU, in the kernel's terms."""

    name: str  # as requested
    pmu: str  # "cpu_atom", "uncore_imc_0"; "" for the kernel's, or the processor's only PMU
    attr: Attr
    cpu_list: Path | None  # the file with the CPUs to count it on; None: all online ones
    system_wide: bool = False  # outside of the cores: not attributable to processes or cgroups
    unit: str = ""  # "seconds", "bytes", "joules"; "" for a plain count
    scale: float = 1.0  # factor from counts to that unit

    @property
    def hardware(self) -> bool:
        """Whether it uses a hardware counter."""
        return self.attr.type != _SOFTWARE

    @property
    def of_core(self) -> bool:
        """Whether that is a core's counter, which a hypervisor may pass to guests."""
        return self.hardware and not self.system_wide and (self.pmu == "" or self.cpu_list is not None)


def resolve(name: str, sysfs: Path) -> list[Event]:
    """Return the events of this name by sysfs, one for each PMU that has it.

    Raises EventError if the name is invalid, EventAbsent if sysfs doesn't list its PMU or event.
    """
    if name in _SOFTWARE_EVENTS:
        timed = name in _NANOSECONDS
        attr = Attr(_SOFTWARE, _SOFTWARE_EVENTS[name])
        return [Event(name, "", attr, None, unit="seconds" if timed else "", scale=1e-9 if timed else 1.0)]
    kinds = _hybrid_pmus(sysfs)
    if name in _HARDWARE_EVENTS:
        return _of_cores(name, Attr(_HARDWARE, _HARDWARE_EVENTS[name]), kinds)
    if name in _CACHE_EVENTS:
        return _of_cores(name, Attr(_CACHE, _CACHE_EVENTS[name]), kinds)
    if raw := _RAW_NAME.fullmatch(name):
        code = int(raw[1], 16)
        if kinds:
            return [Event(name, pmu, Attr(type_, code), cpu_list) for pmu, type_, cpu_list in kinds]
        return [Event(name, "", Attr(_RAW, code), None)]
    if of_pmu := _PMU_NAME.fullmatch(name):
        return [_of_pmu(name, folder, of_pmu[2]) for folder in _pmus(name, of_pmu[1], sysfs)]
    similar = get_close_matches(name, [*_HARDWARE_EVENTS, *_SOFTWARE_EVENTS, *_CACHE_EVENTS], n=1)
    raise EventError(
        f"{name!r} is no event{f', but {similar[0]} is' if similar else ''}; `perf list` shows what this machine has"
    )


_Kinds = Iterable[tuple[str, int, Path]]


def _hybrid_pmus(sysfs: Path) -> list[tuple[str, int, Path]]:
    """Return name, type and CPU list of each core PMU on hybrid processors, none on others."""
    folders = sorted((sysfs / "bus/event_source/devices").glob("cpu_*"))
    return [
        (folder.name, int(_text(folder / "type")), folder / "cpus") for folder in folders if (folder / "cpus").exists()
    ]


def _of_cores(name: str, attr: Attr, kinds: _Kinds) -> list[Event]:
    """Return the event once, or for each kind of core with the PMU's type in the upper half of config.

    That is PERF_PMU_CAP_EXTENDED_HW_TYPE, since Linux 5.14.
    """
    by_kind = [Event(name, pmu, attr._replace(config=attr.config | type_ << 32), path) for pmu, type_, path in kinds]
    return by_kind or [Event(name, "", attr, None)]


def _pmus(name: str, pmu: str, sysfs: Path) -> list[Path]:
    """Return the folders of the PMU, or of its numbered instances: uncore_imc is uncore_imc_0, _1..."""
    devices = sysfs / "bus/event_source/devices"
    if (devices / pmu).is_dir():
        return [devices / pmu]
    numbered = {
        int(number): path for path in devices.glob(f"{pmu}_*") if (number := path.name[len(pmu) + 1 :]).isdecimal()
    }
    if not numbered:
        raise EventAbsent(f"{name!r}: this machine has no PMU {pmu!r}; see {devices}")
    return [numbered[number] for number in sorted(numbered)]


def _of_pmu(name: str, folder: Path, terms: str) -> Event:
    unit, scale = "", 1.0
    if terms and "=" not in terms and "," not in terms:
        listed = folder / "events" / terms
        if not listed.is_file():
            raise EventAbsent(f"{name!r}: {folder.name} has no event {terms!r}; see {listed.parent}")
        unit, scale = _unit(name, listed)
        terms = _text(listed)
    attr = _attr(name, folder, terms)
    if (folder / "cpumask").exists():  # an uncore PMU: read by one CPU of each socket or die
        return Event(name, folder.name, attr, folder / "cpumask", True, unit, scale)
    cpu_list = folder / "cpus" if (folder / "cpus").exists() else None
    return Event(name, "" if folder.name == "cpu" else folder.name, attr, cpu_list, False, unit, scale)


def _unit(name: str, listed: Path) -> tuple[str, float]:
    """Return the base unit of an event in sysfs, and the factor from its count."""
    details = {what: listed.with_name(f"{listed.name}.{what}") for what in ("unit", "scale", "snapshot")}
    if details["snapshot"].exists():
        raise EventAbsent(f"{name!r} counts nothing: it is a value of the moment, such as a temperature")
    printed = _text(details["unit"]) if details["unit"].exists() else ""
    if printed not in _UNITS:
        raise EventAbsent(f"{name!r} is in {printed!r}, expected one of {', '.join(filter(None, _UNITS))}")
    unit, multiple = _UNITS[printed]
    return unit, multiple * (float(_text(details["scale"])) if details["scale"].exists() else 1.0)


def _attr(name: str, folder: Path, terms: str) -> Attr:
    """Encode the terms, such as event=0x04,umask=0x03, by the PMU's format/."""
    words = {"config": 0, "config1": 0, "config2": 0}
    for term in filter(None, terms.split(",")):
        key, _, text = term.partition("=")
        try:
            value = int(text, 0) if text else 1
            if key in words:
                words[key] |= _spread(value, list(range(64)))
                continue
            word, bits = _format(_text(folder / "format" / key))
            words[word] |= _spread(value, bits)
        except (OSError, ValueError, KeyError) as error:
            raise EventAbsent(
                f"{name!r}: {folder.name} can't take the term {term!r}; see {folder / 'format'}"
            ) from error
    return Attr(int(_text(folder / "type")), words["config"], words["config1"], words["config2"])


def _format(text: str) -> tuple[str, list[int]]:
    """Split "config:0-7,32-35" into the word and its bits, the lowest first."""
    word, _, ranges = text.partition(":")
    return word, list(parse_cpus(ranges))


def _spread(value: int, bits: list[int]) -> int:
    """Move the bits of `value` to these positions; raises ValueError if these don't suffice."""
    if value < 0 or value >> len(bits):
        raise ValueError(value)
    return sum((value >> place & 1) << bit for place, bit in enumerate(bits))


def _text(path: Path) -> str:
    return read_text(path).strip()
