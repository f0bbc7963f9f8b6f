"""A Xen host whose guests have booted, as a snapshot from which tests resume within seconds.

Booting an emulated host and its guests takes one to three minutes and tests none of our code: the exporter is installed
afterwards. The snapshot is cached under a hash of all its inputs; if any of them changes, the host is booted again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy import programs
from tests.xen.host import Guest, HostPlan, XenHost
from tests.xen.image import Image
from tests.xen.machine import Machine


def snapshot(plan: HostPlan, image: Image) -> Path:
    """The planned host with running guests, booted now if it isn't cached. Raises MachineError."""
    snapshots = programs.cache("xen-snapshots")
    kept = snapshots / f"{plan.name}-{digest(plan, image)}.zst"
    with programs.exclusively(snapshots):  # if two processes need it, one boots
        if not kept.is_file():
            with tempfile.TemporaryDirectory(dir=snapshots) as folder:
                new = Path(folder) / "state.zst"
                boot(plan, image, Path(folder), new)
                new.rename(kept)
            for other in snapshots.glob(f"{plan.name}-*.zst"):
                if other != kept:
                    other.unlink()
    return kept


def digest(plan: HostPlan, image: Image) -> str:
    """A hash of the plan, the image (its folder's name is a hash), the code that starts a host, and QEMU's version."""
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], check=True, capture_output=True, timeout=30).stdout
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(plan)).encode() + image.initramfs.parent.name.encode() + qemu)
    for file in ("xen/host.py", "xen/machine.py", "xen/snapshot.py", "support/emulated.py"):
        digest.update((Path(__file__).parents[1] / file).read_bytes())
    return digest.hexdigest()[:16]


def boot(plan: HostPlan, image: Image, workdir: Path, state: Path) -> None:
    """Write the host's state to the file `state`, with hardware-virtualised guests paused.

    QEMU refuses a state in which a CPU was running such a guest ("vCPU set in guest-mode inconsistent with migrated
    kernel nested state", cpu_post_load in QEMU's target/i386/machine.c).
    """
    with Machine(image, plan.setup, workdir) as machine:
        host = XenHost(plan, machine)
        host.prefer_dom0()
        domids = [host.create(guest) for guest in plan.guests]
        host.dom0("".join(f"xl unpause {domid}; " for domid in domids))
        host.wait_for_guests(domids)
        for guest in hardware_virtualised(plan):
            host.dom0(f"xl pause {shlex.quote(guest.name)}")
        machine.save(state)


@contextlib.contextmanager
def resumed(plan: HostPlan, image: Image, workdir: Path) -> Iterator[Machine]:
    """The planned host, resumed from its snapshot, with all its guests running."""
    with Machine(image, plan.setup, workdir, snapshot(plan, image)) as machine:
        host = XenHost(plan, machine)
        for guest in hardware_virtualised(plan):
            host.dom0(f"xl unpause {shlex.quote(guest.name)}")
        yield machine


def hardware_virtualised(plan: HostPlan) -> list[Guest]:
    return [guest for guest in plan.guests if guest.type != "pv"]
