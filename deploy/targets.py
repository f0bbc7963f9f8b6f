"""Target files for Prometheus: this machine, and the stack's own parts."""

import glob
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.parts import ALERTMANAGER, CADVISOR, EXPORTERS, LIVENESS, NODE_EXPORTER, PROMETHEUS, TELEGRAF
from deploy.programs import CHECKOUT

_SHIPPED = CHECKOUT / "prometheus" / "targets"
_HEADER = "# The stack's own addresses, written by `make up` and `make compose-up`. Yours are in local/targets.\n"
FOLDER = _SHIPPED / "local"
EDITED = CHECKOUT / "local" / "targets"
JOBS = {
    "prometheus": PROMETHEUS,
    "alertmanager": ALERTMANAGER,
    "node": NODE_EXPORTER,
    **{part.name.removesuffix("-exporter"): part for part in EXPORTERS},
    "cadvisor": CADVISOR,
    "telegraf": TELEGRAF,
    "stack": LIVENESS,
}


@dataclass(frozen=True)
class Machine:
    """This machine as a target: the labels `host` and `platform`, and the reason for the platform."""

    host: str
    platform: str
    why: str


def this_machine(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc"), root: Path = Path("/")) -> Machine:
    """Detect a Xen host's Dom0 (platform "xen"), an OpenVZ host, a KVM host or none ("base")."""
    # With a host name that isn't UTF-8, Prometheus couldn't read the target files.
    host = socket.gethostname().encode(errors="replace").decode() or "localhost"
    if (procfs / "vz" / "vestat").exists():
        return Machine(host, *_openvz(procfs))
    why = _kvm(sysfs, procfs, root)
    return Machine(host, "kvm", why) if why else Machine(host, *_xen(sysfs, procfs))


def _openvz(procfs: Path) -> tuple[str, str]:
    """Platform and reason for OpenVZ's kernel: a container has /proc/vz as well, but only the host has /proc/bc."""
    beancounters = procfs / "bc"
    if beancounters.exists():
        return "openvz", f"an OpenVZ host: {procfs / 'vz'} and {beancounters} are there"
    return "base", f"an OpenVZ container, not the host: {beancounters} is absent"


def _kvm(sysfs: Path, procfs: Path, root: Path) -> str:
    """Why this is a KVM host, "" if it isn't. The loaded module isn't enough: most machines have it."""
    if not (sysfs / "module" / "kvm").exists():
        return ""
    for manager, folder in (("Proxmox", root / "etc/pve/qemu-server"), ("libvirt", root / "run/libvirt/qemu")):
        if folder.exists():
            return f"a KVM host: {manager} manages guests here, as {folder} is there"
    # Processes may end meanwhile: glob ignores that, Path.glob() raises FileNotFoundError.
    for comm in glob.iglob("[0-9]*/task/[0-9]*/comm", root_dir=procfs):  # noqa: PTH207
        try:
            name = (procfs / comm).read_bytes()
        except OSError:  # the process has ended
            continue
        if re.fullmatch(rb"CPU [0-9]+/KVM\n", name):
            return f"a KVM host: {(procfs / comm).parents[2]} runs a guest's CPU"
    return ""


def _xen(sysfs: Path, procfs: Path) -> tuple[str, str]:
    """Platform and reason for any other kernel."""
    hypervisor, capabilities = sysfs / "hypervisor" / "type", procfs / "xen" / "capabilities"
    if not hypervisor.exists():
        return "base", f"no Xen, no KVM guests and no OpenVZ found: {hypervisor} and {procfs / 'vz/vestat'} are absent"
    if hypervisor.read_text().strip() != "xen":
        return "base", f"no Xen found: {hypervisor} says {hypervisor.read_text().strip()}"
    if not capabilities.exists():
        return "base", f"a Xen guest, or a Dom0 without xenfs: {capabilities} is absent"
    if "control_d" not in capabilities.read_text():
        return "base", f"a Xen guest, not Dom0: {capabilities} does not say control_d"
    return "xen", f"Dom0 of a Xen host: {capabilities} says control_d"


def edited_since(file: Path) -> bool:
    """Whether a file with the user's targets is newer than this file, or this is missing."""
    edited = (*EDITED.glob("*.yml"), *_SHIPPED.glob("*.yml"))
    return not file.exists() or any(one.stat().st_mtime > file.stat().st_mtime for one in edited)


def write(machine: Machine, ports: Mapping[str, int], folder: Path = FOLDER) -> None:
    """Write the stack's own addresses on this machine, one file per job of prometheus.yml.

    Parts without a port and exporters of other platforms get an empty list, as they may have run here before.
    """
    for needed in (folder, EDITED):
        needed.mkdir(parents=True, exist_ok=True)
    for job, part in JOBS.items():
        groups: list[dict[str, object]] = []
        if part.name in ports and part.platform in {None, machine.platform}:
            # Containers are virtual servers of the platform cgroup; on a host without another platform, applications
            # run in them.
            in_containers = part is TELEGRAF and CADVISOR.name in ports and machine.platform == "base"
            platform = "cgroup" if part is CADVISOR or in_containers else machine.platform
            labels = {"host": machine.host, "platform": platform}
            groups = [{"targets": [f"127.0.0.1:{ports[part.name]}"], "labels": labels}]
        # JSON is YAML, for any host name. Replaced atomically, as Prometheus reads the file whenever it changes.
        new = folder / f"{job}.new"
        new.write_text(_HEADER + json.dumps(groups, ensure_ascii=False) + "\n")
        new.replace(folder / f"{job}.yml")
