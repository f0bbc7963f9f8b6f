"""The machine, by procfs and sysfs: its CPUs, and the conditions for using their counters.

By hand: `cat /sys/devices/system/cpu/online /proc/sys/kernel/perf_event_paranoid`, `ls /sys/bus/event_source/devices`
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from virtscope.toolkit.bounded import first_line, kernel_version, read_text
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

# Hypervisors by the start of DMI's system vendor. Vendors that sell hardware, too, must not be here: the table is used
# if counters are missing, also on hardware.
_VENDORS = {
    "Amazon EC2": "ec2",
    "Google": "gce",
    "VMware": "vmware",
    "innotek GmbH": "virtualbox",
    "QEMU": "kvm",
    "KubeVirt": "kvm",
    "OpenStack": "kvm",
    "Nutanix": "kvm",
    "DigitalOcean": "kvm",
    "Alibaba Cloud": "kvm",
    "Hetzner": "kvm",
}
_MAX_CPUS = 1 << 16  # the largest kernels are built for 8,192

_AZURE = "7783-7084-3265-9085-8269-3286-77"  # DMI's chassis asset tag of every guest there


class Machine:
    """Constant facts are read once, by the constructor."""

    def __init__(self, procfs: Path, sysfs: Path) -> None:
        self._online = sysfs / "devices/system/cpu/online"
        self._paranoid = procfs / "sys/kernel/perf_event_paranoid"
        self.kernel = kernel_version(first_line(procfs / "sys/kernel/osrelease"))
        # "xen", "kvm", "ec2"...; "unknown" for others; "" without a hypervisor
        self.hypervisor = _hypervisor(procfs, sysfs)
        self.core_pmu = _core_pmu(sysfs)  # there is a driver for the processor's counters
        self.mediated_pmu = any(
            first_line(module / "parameters/enable_mediated_pmu") in {"Y", "1"}
            for module in (sysfs / "module").glob("kvm*")
        )

    def online(self) -> frozenset[int]:
        """Return the numbers of the online CPUs.

        Raises SourceUnavailable if sysfs lacks the list, SourceMalformed if it is malformed.
        """
        return self.listed(self._online)

    def listed(self, cpu_list: Path) -> frozenset[int]:
        """Return the CPU numbers in a file of sysfs; raises like online()."""
        try:
            text = read_text(cpu_list)
        except OSError as error:
            raise SourceUnavailable(f"{cpu_list}: {error.strerror}; see --path.sysfs") from None
        try:
            return frozenset(parse_cpus(text))
        except ValueError:
            raise SourceMalformed(f"{cpu_list} says {text[:80]!r}") from None

    def paranoid(self) -> int | None:
        """Return the current kernel.perf_event_paranoid; None if the kernel has no perf events."""
        try:
            return int(first_line(self._paranoid))
        except ValueError:
            return None


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse a list such as "0-3,8"; raises ValueError."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        listed = range(int(first), int(last or first) + 1)
        if listed.stop > _MAX_CPUS:
            raise ValueError(part)
        numbers += listed
    return tuple(numbers)


def _core_pmu(sysfs: Path) -> bool:
    """Whether there is a core PMU: mostly "cpu", s390's cpum_cf, or one with a list of CPUs."""
    devices = sysfs / "bus/event_source/devices"
    return any((devices / name).is_dir() for name in ("cpu", "cpum_cf")) or any(devices.glob("*/cpus"))


def _hypervisor(procfs: Path, sysfs: Path) -> str:
    if first_line(sysfs / "hypervisor/type") == "xen":
        return "xen"
    dmi = sysfs / "class/dmi/id"
    vendor = first_line(dmi / "sys_vendor")
    for words, name in _VENDORS.items():
        if vendor.startswith(words):
            return name
    flags: list[str] = []
    with contextlib.suppress(OSError):
        lines = read_text(procfs / "cpuinfo", "replace").splitlines()
        flags = next((line.split() for line in lines if line.startswith("flags")), [])
    if "hypervisor" not in flags:
        return ""
    if vendor == "Microsoft Corporation":
        return "azure" if first_line(dmi / "chassis_asset_tag") == _AZURE else "hyperv"
    # Small hypervisors have no DMI, but KVM's clock.
    clocks = first_line(sysfs / "devices/system/clocksource/clocksource0/available_clocksource").split()
    return "kvm" if "kvm-clock" in clocks else "unknown"
