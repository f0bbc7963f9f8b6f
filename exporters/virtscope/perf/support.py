"""Why an event can't be counted here, in a word for a label and a sentence that says what to do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple

# For `perf_event_supported{reason}`.
NOT_SUPPORTED = "not_supported"  # this processor, kernel or driver has no such event
NO_PERMISSION = "no_permission"
TOO_MANY_EVENTS = "too_many_events"  # the group is larger than the processor has counters
TOO_MANY_FILES = "too_many_files"
HIDDEN = "hidden_by_hypervisor"
UNKNOWN = "unknown_event"
FAILED = "failed"


class Refusal(NamedTuple):
    """A reason, and what to do about it."""

    reason: str
    advice: str


class Machine(NamedTuple):
    """What decides whether there are hardware counters: how the kernel is set, and what it runs on."""

    paranoid: int | None  # kernel.perf_event_paranoid
    core_pmu: bool  # a driver for the processor's counters is there
    hypervisor: str  # "xen", "kvm", "hyperv"..., "" on bare metal or where nothing tells


def machine(procfs: Path, sysfs: Path) -> Machine:
    """Return what procfs and sysfs tell of the machine."""
    try:
        paranoid = int((procfs / "sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        paranoid = None
    devices = sysfs / "bus/event_source/devices"
    core_pmu = any((devices / name).is_dir() for name in ("cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0"))
    return Machine(paranoid, core_pmu, _hypervisor(procfs, sysfs))


def _hypervisor(procfs: Path, sysfs: Path) -> str:
    if _line(sysfs / "hypervisor/type") == "xen":
        return "xen"
    flags = next((line for line in _lines(procfs / "cpuinfo") if line.startswith("flags")), "")
    if "hypervisor" not in flags.split():
        return ""
    vendor = _line(sysfs / "class/dmi/id/sys_vendor")
    known = {"QEMU": "kvm", "Amazon EC2": "ec2", "Google": "gce", "Microsoft Corporation": "hyperv", "VMware": "vmware"}
    return next((name for word, name in known.items() if vendor.startswith(word)), "unknown")


def refusal(error: OSError, machine: Machine, hardware: bool) -> Refusal:
    """Return why the kernel refused an event, by its error, as man perf_event_open lists them."""
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Refusal(
            NO_PERMISSION,
            f"give the exporter CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN); kernel.perf_event_paranoid is "
            f"{machine.paranoid}, and without it only 0 or less lets anyone count whole CPUs",
        )
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return Refusal(TOO_MANY_FILES, "raise the limit on open files (LimitNOFILE), or count fewer cgroups or groups")
    if error.errno in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO, errno.EINVAL}:
        if hardware and not machine.core_pmu and machine.hypervisor:
            return Refusal(HIDDEN, _ADVICE.get(machine.hypervisor, _ADVICE["unknown"]))
        return Refusal(NOT_SUPPORTED, "this processor or kernel has no such event; `perf list` shows what it has")
    return Refusal(FAILED, f"the kernel said: {error.strerror}")


_ADVICE = {
    "xen": "start Xen with vpmu=on (or vpmu=ipc, vpmu=arch for a few events) and without its watchdog",
    "kvm": "give the guest a PMU: <cpu mode='host-passthrough'/> and <pmu state='on'/> in libvirt, or QEMU's -cpu host",
    "ec2": "choose an instance size that has counters: a whole socket, or metal",
    "gce": "create the machine with --performance-monitoring-unit=standard, where its type offers that",
    "hyperv": "turn on the virtual PMU: Set-VMProcessor NAME -Perfmon @('pmu'), with the guest shut down",
    "vmware": "turn on 'Virtualize CPU performance counters' in the guest's CPU settings",
    "unknown": "ask for a virtual PMU, or count on the machine below",
}


def _line(path: Path) -> str:
    return next(iter(_lines(path)), "").strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
