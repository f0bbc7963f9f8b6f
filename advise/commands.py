"""The commands that carry out a change, by what manages the guest. They are printed, never run."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from advise.reading import Reading
from advise.seen import Guest

XL, VIRSH, QM, PCT, VZ = "xl", "libvirt", "proxmox", "proxmox-lxc", "openvz"
SCHEDULERS = ("credit2", "credit")  # of Xen: those with caps; the first is the default


@dataclass(frozen=True)
class Managed:
    """What manages a guest, and the name or number by which it knows it; on Xen also its CPU pool's scheduler."""

    by: str
    name: str
    scheduler: str = SCHEDULERS[0]


class Managers:
    """What manages the guests of a Prometheus. Raises `AdviceError`."""

    def __init__(self, reading: Reading) -> None:
        self._kvm = {
            (labels.get("host"), labels.get("guest")): (labels.get("manager"), labels.get("id", ""))
            for labels, _ in reading.now("kvm_guest_info")
        }
        self._proxmox = {
            (labels.get("host"), labels.get("container")): labels.get("id", "")
            for labels, _ in reading.now("kvm_container_info")
        }
        schedulers = {
            (labels.get("host"), labels.get("cpupool")): labels.get("scheduler", "")
            for labels, _ in reading.now("xen_cpupool_info")
        }
        self._schedulers = {
            (labels.get("host"), labels.get("domain")): scheduler
            for labels, _ in reading.now("xen_domain_info")
            if (scheduler := schedulers.get((labels.get("host"), labels.get("cpupool"))))
        }

    def of(self, guest: Guest) -> Managed | None:
        """None if it isn't known."""
        key = guest.place.host, guest.name
        if guest.place.platform == "xen":
            return Managed(XL, guest.name, self._schedulers.get(key, SCHEDULERS[0]))
        if guest.place.platform == "openvz":
            return Managed(VZ, guest.name)
        if guest.place.platform == "cgroup":
            return Managed(PCT, self._proxmox[key]) if self._proxmox.get(key) else None
        manager, number = self._kvm.get(key, (None, ""))
        if manager == "proxmox" and number:
            return Managed(QM, number)
        return Managed(VIRSH, guest.name) if manager == "libvirt" else None


_MOVE: Mapping[str, str] = {
    XL: "xl migrate {name} {host}",
    VIRSH: "virsh migrate --live --persistent --undefinesource {name} qemu+ssh://{host}/system",
    QM: "qm migrate {name} {host} --online",
    PCT: "pct migrate {name} {host} --restart",
    VZ: "vzmigrate --online {host} {name}",
}
_CAP: Mapping[str, str] = {
    XL: "xl sched-{scheduler} --domain={name} --cap={percent}",
    VIRSH: "virsh schedinfo {name} --live global_period=100000 global_quota={quota}",
    QM: "qm set {name} --cpulimit {cpus}",
    PCT: "pct set {name} --cpulimit {cpus}",
    VZ: "vzctl set {name} --cpulimit {percent} --save",
}
_VCPUS: Mapping[str, str] = {
    XL: "xl vcpu-set {name} {number}",
    VIRSH: "virsh setvcpus {name} {number} --live --config",
    QM: "qm set {name} --vcpus {number}",
}


def move(of: Managed, host: str) -> str | None:
    """Run on the present host."""
    return _filled(_MOVE, of, host=host)


def cap(of: Managed, cpus: float) -> str | None:
    """None also with a scheduler without caps."""
    if of.by == XL and of.scheduler not in SCHEDULERS:
        return None
    return _filled(_CAP, of, cpus=f"{cpus:g}", percent=f"{round(cpus * 100)}", quota=f"{round(cpus * 100_000)}")


def vcpus(of: Managed, number: int) -> str | None:
    return _filled(_VCPUS, of, number=str(number))


def _filled(templates: Mapping[str, str], of: Managed, **values: str) -> str | None:
    given = {**values, "name": of.name, "scheduler": of.scheduler}
    quoted = {name: shlex.quote(value) for name, value in given.items()}
    return templates[of.by].format(**quoted) if of.by in templates else None
