"""A Xen host whose guests have booted, as a snapshot from which tests resume within seconds.

Booting an emulated host and its guests takes one to three minutes and tests none of our code: the exporter is installed
afterwards. The snapshot is cached under a hash of all its inputs; if any of them changes, the host is booted again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.support.disk import cached
from tests.xen.host import Guest, HostPlan, XenHost
from tests.xen.image import Image


def snapshot(plan: HostPlan, image: Image) -> Path:
    """The planned host with running guests, booted now if it isn't cached. Raises MachineError."""
    code = ("xen/host.py", "xen/snapshot.py", "support/emulated.py")
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], check=True, capture_output=True, timeout=30).stdout
    image_hash = image.initramfs.parent.name
    facts = json.dumps(dataclasses.asdict(plan)).encode() + image_hash.encode() + qemu
    inputs = [Path(__file__).parents[1] / file for file in code]
    return cached(f"xen-snapshots/{plan.name}", inputs, partial(boot, plan, image), facts=facts) / "state.zst"


def boot(plan: HostPlan, image: Image, workdir: Path) -> None:
    """Write the host's state to `state.zst` in this folder, with hardware-virtualised guests paused.

    QEMU refuses a state in which a CPU was running such a guest ("vCPU set in guest-mode inconsistent with migrated
    kernel nested state", cpu_post_load in QEMU's target/i386/machine.c).
    """
    with XenHost(plan, image, workdir) as host:
        host.prefer_dom0()
        domids = [host.create(guest) for guest in plan.guests]
        host.dom0("".join(f"xl unpause {domid}; " for domid in domids))
        host.wait_for_guests(domids)
        for guest in hardware_virtualised(plan):
            host.dom0(f"xl pause {shlex.quote(guest.name)}")
        host.save(workdir / "state.zst")


@contextlib.contextmanager
def resumed(plan: HostPlan, image: Image, workdir: Path) -> Iterator[XenHost]:
    """The planned host, resumed from its snapshot, with all its guests running."""
    with XenHost(plan, image, workdir, snapshot(plan, image)) as host:
        for guest in hardware_virtualised(plan):
            host.dom0(f"xl unpause {shlex.quote(guest.name)}")
        yield host


def hardware_virtualised(plan: HostPlan) -> list[Guest]:
    return [guest for guest in plan.guests if guest.type != "pv"]
