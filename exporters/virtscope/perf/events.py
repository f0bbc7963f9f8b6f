"""Events by name, as `perf list` names them, and what the kernel wants to hear for each.

    cycles, cache-misses, task-clock    the kernel's generic hardware and software events
    LLC-load-misses, dTLB-loads         a cache, what is done with it, and whether it failed
    amd_l3/l3_misses/                   an event that a PMU's driver lists; uncore_imc/... is every uncore_imc_N
    cpu/event=0x3c,umask=0/, r003c      the processor's own codes

Numbers: include/uapi/linux/perf_event.h. Terms and formats: Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from virtscope.perf.source.kernel import Attr

_HARDWARE, _SOFTWARE, _CACHE, _RAW = 0, 1, 3, 4

_HARDWARE_EVENTS = {
    "cycles": 0,
    "cpu-cycles": 0,
    "instructions": 1,
    "cache-references": 2,
    "cache-misses": 3,
    "branches": 4,
    "branch-instructions": 4,
    "branch-misses": 5,
    "bus-cycles": 6,
    "stalled-cycles-frontend": 7,
    "stalled-cycles-backend": 8,
    "ref-cycles": 9,
}
_SOFTWARE_EVENTS = {
    "cpu-clock": 0,
    "task-clock": 1,
    "page-faults": 2,
    "context-switches": 3,
    "cpu-migrations": 4,
    "minor-faults": 5,
    "major-faults": 6,
    "alignment-faults": 7,
    "emulation-faults": 8,
}
_NANOSECONDS = {"cpu-clock", "task-clock"}  # software events that count time
_CACHES = {"L1-dcache": 0, "L1-icache": 1, "LLC": 2, "dTLB": 3, "iTLB": 4, "branch": 5, "node": 6}
_OPERATIONS = {"load": 0, "store": 1, "prefetch": 2}

_CACHE_NAME = re.compile(rf"({'|'.join(_CACHES)})-({'|'.join(_OPERATIONS)})(s|-misses)")
_RAW_NAME = re.compile(r"r([0-9a-fA-F]{1,16})")
_PMU_NAME = re.compile(r"([\w.-]+)/([^/]*)/")


class EventError(Exception):
    """A name that no event here bears; the message holds it, and what could be meant."""


class Event(NamedTuple):
    """An event of one PMU, as the kernel wants it."""

    name: str  # as it was asked for
    pmu: str  # "cpu_atom", "uncore_imc_0"; "" for the processor's own, or the kernel's, where there is but one
    attr: Attr
    cpus: tuple[int, ...] | None  # the CPUs to count it on; None: every one that is online
    system_wide: bool = False  # outside of the cores: what it counts belongs to no process and no cgroup
    unit: str = ""  # "seconds" for time, what sysfs says for a PMU's own; "" for a plain count
    scale: float = 1.0  # what a count is to be multiplied by for that unit

    @property
    def hardware(self) -> bool:
        """Whether it takes a counter of the processor."""
        return self.attr.type != _SOFTWARE


def resolve(name: str, sysfs: Path) -> list[Event]:
    """Return the events of this name on the machine whose sysfs this is: one for each PMU that has it.

    Raises EventError where the name is of no known form, or of a PMU or event that sysfs doesn't list.
    """
    if name in _SOFTWARE_EVENTS:
        timed = name in _NANOSECONDS
        attr = Attr(_SOFTWARE, _SOFTWARE_EVENTS[name])
        return [Event(name, "", attr, None, unit="seconds" if timed else "", scale=1e-9 if timed else 1.0)]
    if name in _HARDWARE_EVENTS:
        return _of_cores(name, Attr(_HARDWARE, _HARDWARE_EVENTS[name]), sysfs)
    if cache := _CACHE_NAME.fullmatch(name):
        failed = cache[3] == "-misses"
        return _of_cores(name, Attr(_CACHE, _CACHES[cache[1]] | _OPERATIONS[cache[2]] << 8 | int(failed) << 16), sysfs)
    if raw := _RAW_NAME.fullmatch(name):
        return [Event(name, "", Attr(_RAW, int(raw[1], 16)), None)]
    if of_pmu := _PMU_NAME.fullmatch(name):
        return [_of_pmu(name, folder, of_pmu[2]) for folder in _pmus(name, of_pmu[1], sysfs)]
    raise EventError(f"{name!r} is no event; `perf list` shows what this machine has")


def hybrid_pmus(sysfs: Path) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return name, type and CPUs of each core PMU on a processor with several kinds of cores, none on others."""
    folders = sorted((sysfs / "bus/event_source/devices").glob("cpu_*"))
    return [
        (folder.name, int(_text(folder / "type")), parse_cpus(_text(folder / "cpus")))
        for folder in folders
        if (folder / "cpus").exists()
    ]


def _of_cores(name: str, attr: Attr, sysfs: Path) -> list[Event]:
    """Return the event once, or for each kind of core: the PMU's type is in the upper half of config then.

    That is PERF_PMU_CAP_EXTENDED_HW_TYPE, since Linux 5.14.
    """
    kinds = hybrid_pmus(sysfs)
    if not kinds:
        return [Event(name, "", attr, None)]
    return [Event(name, pmu, attr._replace(config=attr.config | type_ << 32), cpus) for pmu, type_, cpus in kinds]


def _pmus(name: str, pmu: str, sysfs: Path) -> list[Path]:
    """Return the folders of the PMU, or of all whose name is that and a number: uncore_imc is uncore_imc_0, _1..."""
    devices = sysfs / "bus/event_source/devices"
    if (devices / pmu).is_dir():
        return [devices / pmu]
    numbered = sorted(path for path in devices.glob(f"{pmu}_*") if path.name[len(pmu) + 1 :].isdigit())
    if not numbered:
        raise EventError(f"{name!r}: this machine has no PMU {pmu!r}; see {devices}")
    return numbered


def _of_pmu(name: str, folder: Path, terms: str) -> Event:
    listed = folder / "events" / terms
    unit, scale = "", 1.0
    if terms and "=" not in terms and "," not in terms:
        if not listed.is_file():
            raise EventError(f"{name!r}: {folder.name} has no event {terms!r}; see {folder / 'events'}")
        terms = _text(listed)
        if (folder / "events" / f"{listed.name}.unit").exists():
            unit = _text(folder / "events" / f"{listed.name}.unit")
        if (folder / "events" / f"{listed.name}.scale").exists():
            scale = float(_text(folder / "events" / f"{listed.name}.scale"))
    attr = _attr(name, folder, terms)
    if (folder / "cpumask").exists():  # a PMU outside of the cores: one CPU of each socket or die reads it
        return Event(name, folder.name, attr, parse_cpus(_text(folder / "cpumask")), True, unit, scale)
    cpus = parse_cpus(_text(folder / "cpus")) if (folder / "cpus").exists() else None
    return Event(name, "" if folder.name == "cpu" else folder.name, attr, cpus, False, unit, scale)


def _attr(name: str, folder: Path, terms: str) -> Attr:
    """Put the terms, such as event=0x04,umask=0x03, into the bits that the PMU's format/ says."""
    words = {"config": 0, "config1": 0, "config2": 0}
    for term in filter(None, terms.split(",")):
        key, _, text = term.partition("=")
        try:
            value = int(text, 0) if text else 1
            if key in words:
                words[key] |= value
                continue
            word, bits = _format(_text(folder / "format" / key))
            words[word] |= _spread(value, bits)
        except (OSError, ValueError, KeyError) as error:
            raise EventError(
                f"{name!r}: {folder.name} can't take the term {term!r}; see {folder / 'format'}"
            ) from error
    return Attr(int(_text(folder / "type")), words["config"], words["config1"], words["config2"])


def _format(text: str) -> tuple[str, list[int]]:
    """Split "config:0-7,32-35" into the word and its bits, the lowest first."""
    word, _, ranges = text.partition(":")
    return word, list(parse_cpus(ranges))


def _spread(value: int, bits: list[int]) -> int:
    """Put the bits of `value` at these places; raises ValueError where there are too few."""
    if value < 0 or value >> len(bits):
        raise ValueError(value)
    return sum((value >> place & 1) << bit for place, bit in enumerate(bits))


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel's list such as "0-3,8"; raises ValueError where it is none."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _text(path: Path) -> str:
    return path.read_text().strip()
