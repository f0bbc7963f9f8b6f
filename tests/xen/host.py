"""What runs on the emulated Xen host: guests of known load, and the exporter from its wheel."""

from __future__ import annotations

import importlib.metadata
import io
import shlex
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.xen.image import CHECKOUT
from tests.xen.machine import Machine, MachineError

EXPORTER_SECONDS = 60


@dataclass(frozen=True)
class Guest:
    """A guest to be, with the arguments of dom0/scripts/create-guest; `duty` is in percent of each vCPU."""

    number: int
    name: str
    duty: int = 0
    vcpus: int = 1
    io: int = 0
    net: int = 0


def create(xen: Machine, guest: Guest) -> str:
    """Creates a guest, paused, and returns its domain id."""
    arguments = [guest.number, guest.name, guest.duty, guest.vcpus, guest.io, guest.net]
    xen.check(f"create-guest {shlex.join(map(str, arguments))}", timeout=120)
    return xen.check(f"xl domid {shlex.quote(guest.name)}").strip()


def exporter_as_tar(workdir: Path) -> bytes:
    """Builds the exporters' wheel; returns it installed, with its one run-time dependency, as a tar file.

    PyYAML and bcrypt stay away: nothing without --web.config.file may need them.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels, site = workdir / "wheels", workdir / "site"
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(CHECKOUT / "exporters")]
    subprocess.run([*pip, *build], check=True, timeout=120)
    [wheel] = wheels.glob("virtscope-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(site, arcname=".")
        for file in importlib.metadata.files("prometheus_client") or ():
            archive.add(file.locate(), arcname=str(file))
    return packed.getvalue()


def install_exporter(xen: Machine, tar: bytes) -> None:
    """Unpacks what exporter_as_tar made into /opt/virtscope of Dom0."""
    xen.put("/tmp/virtscope.tar", tar)
    xen.check("mkdir -p /opt/virtscope && tar -xf /tmp/virtscope.tar -C /opt/virtscope && rm /tmp/virtscope.tar")


def start_exporter(xen: Machine) -> None:
    """Starts the exporter in Dom0 and waits until it answers; its log is /var/log/xentop-exporter there."""
    xen.check(
        "PYTHONPATH=/opt/virtscope setsid python3 -m virtscope.xentop --web.listen-address=0.0.0.0:10290"
        " >/var/log/xentop-exporter 2>&1 & echo $! >/run/xentop-exporter.pid"
    )
    deadline = time.monotonic() + EXPORTER_SECONDS
    while time.monotonic() < deadline:
        try:
            requests.get(f"http://{xen.exporter}/-/healthy", timeout=5).raise_for_status()
        except requests.RequestException:
            time.sleep(0.5)
        else:
            return
    raise MachineError(f"the exporter did not answer: {xen.check('cat /var/log/xentop-exporter')}")
