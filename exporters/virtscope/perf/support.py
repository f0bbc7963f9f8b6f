"""Why an event can't be counted: a reason for the label, and a remedy for the log."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from virtscope.perf.events import Event
from virtscope.perf.machine import Machine

log = logging.getLogger(__name__)

# For perf_event_supported{reason}.
NOT_SUPPORTED = "not_supported"  # not an event of this processor, kernel or hypervisor
NO_PERMISSION = "no_permission"
TOO_MANY_EVENTS = "too_many_events"  # the group needs more counters than the processor has
NEVER_RAN = "never_ran"  # the kernel accepted the group, but never found counters for it
READS_ZERO = "reads_zero"  # its counter is stuck on a CPU or in a cgroup although instructions run there
TOO_MANY_FILES = "too_many_files"
HIDDEN = "hidden_by_hypervisor"
ABSENT_PMU = "unknown_event"  # sysfs doesn't list the PMU or its event
FAILED = "failed"


class Wanted(NamedTuple):
    """An event in a group; it may fit into one group but not into another."""

    group: str
    event: Event


class Refusal(NamedTuple):
    """A reason, and its remedy."""

    reason: str
    advice: str


TOO_LARGE = Refusal(
    TOO_MANY_EVENTS,
    "the processor has too few counters for this group: split it in two, or give it back the counter that the NMI "
    "watchdog takes (sysctl kernel.nmi_watchdog=0)",
)
STARVED = Refusal(
    NEVER_RAN,
    "the kernel finds no counters for this group: split it in two, end other programs that count (perf, another "
    "exporter), or give it back the counter that the NMI watchdog takes (sysctl kernel.nmi_watchdog=0)",
)
STANDING = Refusal(
    READS_ZERO,
    "its counter stands still on a CPU or in a cgroup although instructions run there, so no value of it can be "
    "believed: some hypervisors count an event once only on each CPU. End other programs that count (perf, another "
    "exporter), or count it in one group only, and without --cgroup.include",
)
OVER_CEILING = Refusal(
    TOO_MANY_FILES,
    "each counter is a file: raise --perf.max-counters and the limit on open files (LimitNOFILE in a systemd unit), or "
    "count fewer groups",
)
NO_CPU = Refusal(NOT_SUPPORTED, "no CPU that could count it is online")


def refusal(error: OSError, event: Event, machine: Machine) -> Refusal:
    """Return why the kernel refused an event, by its error: see ERRORS in man perf_event_open."""
    if error.errno == errno.EACCES:
        return Refusal(NO_PERMISSION, _permission(machine))
    if error.errno == errno.EPERM:  # the system call itself, independent of the event
        return Refusal(
            NO_PERMISSION,
            f"a seccomp filter forbids perf_event_open: in a container, add the capability {_capability(machine)} "
            "(--cap-add), and a seccomp profile that allows the call where the runtime's own doesn't; in a systemd "
            "unit, add perf_event_open to SystemCallFilter",
        )
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return OVER_CEILING
    if error.errno == errno.ENOSYS:
        return Refusal(NOT_SUPPORTED, "this kernel was built without perf events (CONFIG_PERF_EVENTS)")
    if error.errno in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO, errno.EINVAL}:
        return _missing(event, machine)
    return Refusal(FAILED, f"the kernel said: {error.strerror}")


def _missing(event: Event, machine: Machine) -> Refusal:
    if event.hardware and not machine.core_pmu:
        if machine.hypervisor:
            return Refusal(HIDDEN, _TURN_ON.get(machine.hypervisor, _TURN_ON["unknown"]))
        return Refusal(
            NOT_SUPPORTED,
            "the kernel has no driver for this processor's counters: see `dmesg | grep -i -e perf -e pmu`",
        )
    if event.hardware and machine.hypervisor:
        return Refusal(
            NOT_SUPPORTED, "the hypervisor gives this guest some events, but not this one; `perf stat -e` shows which"
        )
    return Refusal(NOT_SUPPORTED, "this processor or kernel has no such event; `perf list` shows what it has")


def _capability(machine: Machine) -> str:
    return "CAP_PERFMON" if machine.kernel >= (5, 8) else "CAP_SYS_ADMIN"  # CAP_PERFMON needs Linux 5.8


def _permission(machine: Machine) -> str:
    paranoid = machine.paranoid()
    advice = (
        f"give the exporter {_capability(machine)} (AmbientCapabilities in a systemd unit; a rootless container's "
        f"doesn't count), or let everyone count whole CPUs: sysctl kernel.perf_event_paranoid=0, which is {paranoid}"
    )
    if paranoid is not None and paranoid > 2 and machine.kernel >= (5, 8):
        # A level added by distributions, above the kernel's highest.
        advice += ". At more than 2, Debian's kernels want CAP_SYS_ADMIN instead; at 2, CAP_PERFMON is enough"
    return advice


_TURN_ON = {
    "xen": "start Xen with vpmu=on (vpmu=arch or vpmu=ipc for the commonest events only) and without its watchdog "
    "option, which turns vpmu off",
    "kvm": "give the guest a PMU: <cpu mode='host-passthrough'/> and <pmu state='on'/> in libvirt, -cpu host,pmu=on in "
    "QEMU; Firecracker has none",
    "ec2": "choose a metal instance, or a size that takes a whole processor; smaller ones have few counters or none",
    "gce": "set --performance-monitoring-unit=enhanced (C4 with 96 or 192 vCPUs), or standard (C4, C4A), without "
    "last-level cache misses; older types have neither",
    "azure": "Azure gives its guests no counters that could be turned on: count on another machine",
    "hyperv": "on the host: Set-VMProcessor NAME -Perfmon @('pmu'), while the guest is shut down",
    "vmware": "turn on 'Virtualize CPU performance counters' (vpmc.enable = TRUE), while the guest is shut down",
    "virtualbox": "VirtualBox has no PMU for its guests: count on the machine below",
    "unknown": "ask the hypervisor's operator for a virtual PMU, or count on the machine below",
}


class RefusalLog:
    """Logs changes of refused events: a line for each reason."""

    def __init__(self) -> None:
        self._logged: dict[Wanted, Refusal] = {}

    def update(self, support: Mapping[Wanted, Refusal | None]) -> None:
        """Log changes since the last update; an event without a refusal is counted."""
        refusals = {wanted: refused for wanted, refused in support.items() if refused}
        news: dict[Refusal, list[Wanted]] = {}
        for wanted, refused in refusals.items():
            if self._logged.get(wanted) != refused:
                news.setdefault(refused, []).append(wanted)
        for refused, events in news.items():
            log_refusal(refused, _names(events))
        if counted := [wanted for wanted in self._logged if wanted not in refusals]:
            log.info("events are counted now", extra={"fields": {"events": _names(counted)}})
        self._logged = refusals


def log_refusal(refused: Refusal, events: str) -> None:
    """Log why these events, "cache/cycles cache/instructions", are not counted."""
    log.warning("events can't be counted", extra={"fields": {**refused._asdict(), "events": events}})


def _names(events: Iterable[Wanted]) -> str:
    return " ".join(f"{wanted.group}/{wanted.event.name}" for wanted in events)
