"""What the stack watches by itself: this machine, and its own parts, as Prometheus's target files."""

from __future__ import annotations

import glob
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.parts import ALERTMANAGER, CADVISOR, EXPORTERS, LIVENESS, NODE_EXPORTER, PROMETHEUS, TELEGRAF
from deploy.programs import CHECKOUT

_SHIPPED = CHECKOUT / "prometheus" / "targets"
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
    """This machine as the stack watches it: the labels `host` and `platform`, and why this platform."""

    host: str
    platform: str
    why: str


def this_machine(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc"), root: Path = Path("/")) -> Machine:
    """Find out whether this is a Xen host's Dom0 (platform "xen"), an OpenVZ host, a KVM host or none ("base")."""
    # A host name that isn't UTF-8 would make the target files unreadable for Prometheus.
    host = socket.gethostname().encode(errors="replace").decode() or "localhost"
    if (procfs / "vz" / "vestat").exists():
        return Machine(host, *_openvz(procfs))
    why = _kvm(sysfs, procfs, root)
    return Machine(host, "kvm", why) if why else Machine(host, *_xen(sysfs, procfs))


def _openvz(procfs: Path) -> tuple[str, str]:
    """Platform, and why, where the kernel is OpenVZ's: a container has /proc/vz as well, but /proc/bc only the host."""
    beancounters = procfs / "bc"
    if beancounters.exists():
        return "openvz", f"an OpenVZ host: {procfs / 'vz'} and {beancounters} are there"
    return "base", f"an OpenVZ container, not the host: {beancounters} is absent"


def _kvm(sysfs: Path, procfs: Path, root: Path) -> str:
    """Why this is a KVM host, "" where it is none: most machines could be one, as the kernel has its module loaded."""
    if not (sysfs / "module" / "kvm").exists():
        return ""
    for manager, folder in (("Proxmox", root / "etc/pve/qemu-server"), ("libvirt", root / "run/libvirt/qemu")):
        if folder.exists():
            return f"a KVM host: {manager} manages guests here, as {folder} is there"
    # Processes end meanwhile, which glob takes as it comes; Path.glob() raises FileNotFoundError.
    for comm in glob.iglob("[0-9]*/task/[0-9]*/comm", root_dir=procfs):  # noqa: PTH207
        try:
            name = (procfs / comm).read_bytes()
        except OSError:  # it has ended
            continue
        if re.fullmatch(rb"CPU [0-9]+/KVM\n", name):
            return f"a KVM host: {(procfs / comm).parents[2]} runs a guest's CPU"
    return ""


def _xen(sysfs: Path, procfs: Path) -> tuple[str, str]:
    """Platform, and why, on any other kernel."""
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
    """Whether a file with targets of the user's is newer than this file, or this isn't there."""
    edited = (*EDITED.glob("*.yml"), *_SHIPPED.glob("*.yml"))
    return not file.exists() or any(one.stat().st_mtime > file.stat().st_mtime for one in edited)


def write(machine: Machine, ports: Mapping[str, int], folder: Path = FOLDER) -> None:
    """Write the stack's own addresses, one file per job of prometheus.yml, for the machine it runs on.

    A part without a port, and an exporter of another platform, gets an empty file: it doesn't run here, or no longer.
    """
    for needed in (folder, EDITED):
        needed.mkdir(parents=True, exist_ok=True)
    containers = CADVISOR.name in ports
    for job, part in JOBS.items():
        runs = part.name in ports and part.platform in {None, machine.platform}
        platform = machine.platform
        # Containers are virtual servers of a platform of their own, in which a host without another one has its
        # applications.
        if part is CADVISOR or (part is TELEGRAF and containers and platform == "base"):
            platform = "cgroup"
        _write(folder / f"{job}.yml", [(ports[part.name], replace(machine, platform=platform))] if runs else [])


def _write(file: Path, targets: list[tuple[int, Machine]]) -> None:
    """Replace `file` in one step, since Prometheus reads it whenever it changes."""
    lines = ["# The stack's own addresses, written by `make up` and `make compose-up`. Yours are in local/targets."]
    for port, machine in targets:
        # JSON strings are YAML strings, whatever a host name holds.
        lines.append(f'- targets: ["127.0.0.1:{port}"]')
        lines.append(
            f"  labels: {{host: {json.dumps(machine.host, ensure_ascii=False)}, platform: {machine.platform}}}"
        )
    if not targets:
        lines.append("[]")
    new = file.with_suffix(".new")
    new.write_text("\n".join([*lines, ""]))
    new.replace(file)
