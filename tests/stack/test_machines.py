"""`make up` on several machines: Dom0, a Xen guest, an OpenVZ or KVM host, one with an unusual name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import targets
from deploy.exporters import PLATFORM_OF
from deploy.parts import DOCKER_PARTS, EXPORTERS, PARTS, ports
from deploy.targets import Machine
from tests.stack.conftest import ROOT, Checkout
from tests.support.privileges import UNITS, capabilities
from tests.support.waiting import wait_for

# `make up` on a machine that a user declares to be of a platform.
UP_ON = """
import os
from deploy import stack, targets
targets.this_machine = lambda: targets.Machine({host!r}, {platform!r}, "a test says so")
os.geteuid = lambda: {user}
raise SystemExit(stack.main())
"""
KVM = {"sys/module/kvm/refcnt": "0\n"}  # most machines have loaded only the module
MACHINES: dict[str, tuple[dict[str, str], str]] = {
    "no Xen, no KVM guests and no OpenVZ found": ({}, "base"),
    "says kvm": ({"sys/hypervisor/type": "kvm\n"}, "base"),
    "capabilities is absent": ({"sys/hypervisor/type": "xen\n"}, "base"),
    "a Xen guest, not Dom0": ({"sys/hypervisor/type": "xen\n", "proc/xen/capabilities": ""}, "base"),
    "Dom0 of a Xen host": ({"sys/hypervisor/type": "xen\n", "proc/xen/capabilities": "control_d\n"}, "xen"),
    "no Xen, no KVM guests": (KVM, "base"),
    "Proxmox manages guests": ({**KVM, "etc/pve/qemu-server/100.conf": ""}, "kvm"),
    "libvirt manages guests": ({**KVM, "run/libvirt/qemu/driver.pid": ""}, "kvm"),
    "proc/390 runs a guest's CPU": ({**KVM, "proc/390/task/394/comm": "CPU 0/KVM\n"}, "kvm"),
    # A container has /proc/vz like its host, but only with itself in it.
    "an OpenVZ container, not the host": ({"proc/vz/vestat": ""}, "base"),
}


def machine_in(root: Path) -> Machine:
    return targets.this_machine(sysfs=root / "sys", procfs=root / "proc", root=root)


def test_the_platform_is_known_by_what_is_there(tmp_path: Path) -> None:
    for number, (why, (files, platform)) in enumerate(MACHINES.items()):
        for name, content in files.items():
            file = tmp_path / str(number) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        machine = machine_in(tmp_path / str(number))
        assert (machine.platform, why in machine.why) == (platform, True), machine
    openvz = ROOT / "tests/fixtures/openvz/virtuozzo7-uuids/proc"
    assert targets.this_machine(sysfs=tmp_path, procfs=openvz).platform == "openvz"


def groups(folder: Path, job: str) -> list[Any]:
    found: list[Any] = yaml.safe_load((folder / f"{job}.yml").read_text())
    return found


def test_host_label_is_the_machine_s_name_whatever_it_holds(tmp_path: Path) -> None:
    for host in ("vm", 'a "quoted" name', "back\\slash", "größe", "a: b # c", "😀", "-", "null"):
        targets.write(Machine(host, "xen", ""), ports({}), tmp_path)
        for job in ("prometheus", "alertmanager", "node", "xentop"):
            [group] = groups(tmp_path, job)
            assert group["labels"] == {"host": host, "platform": "xen"}


def test_each_platform_has_its_own_exporter_as_a_target(tmp_path: Path) -> None:
    for job, platform in [*PLATFORM_OF.items(), (None, "base")]:
        targets.write(Machine("vm", platform, ""), ports({}), tmp_path)
        # The host's own usage is computed from both, so they must use the same host name.
        labels = {"host": "vm", "platform": platform}
        of_host = {name: [group["labels"] for group in groups(tmp_path, name)] for name in (*PLATFORM_OF, "node")}
        assert of_host == {name: [labels] if name in {"node", job} else [] for name in of_host}
        for name, port in (("perf", 10292), ("sched", 10298)):  # every machine has processors and waits
            assert groups(tmp_path, name) == [{"targets": [f"127.0.0.1:{port}"], "labels": labels}]


def test_what_runs_only_in_docker_is_scraped_only_there(tmp_path: Path) -> None:
    # Containers are virtual servers; on other machines without virtualisation, applications run in containers.
    labels = {"host": "vm", "platform": "cgroup"}
    for chosen in (ports({}, DOCKER_PARTS), {}):  # `make up` after `make compose-down`
        targets.write(Machine("vm", "base", ""), chosen, tmp_path)
        for job, port in (("cadvisor", 10293), ("telegraf", 9273)):
            in_docker = [{"targets": [f"127.0.0.1:{port}"], "labels": labels}]
            assert groups(tmp_path, job) == (in_docker if chosen else [])


def test_an_exporter_has_the_capabilities_of_its_unit() -> None:
    for part in PARTS:
        unit = UNITS / f"{part.name}.service"
        assert set(part.capabilities) == (capabilities(part.name) if unit.exists() else set()), part.name


@pytest.mark.system
def test_a_hypervisor_s_host_is_watched_by_its_own_exporter(stopped: Checkout) -> None:
    for host, platform, exporter in (("vz1", "openvz", "vestat"), ("dom0", "xen", "xentop")):
        up = stopped.python("-c", UP_ON.format(host=host, platform=platform, user=0), "up")
        assert up.returncode == 0, up.stdout
        assert f"Watching this machine, {host}, as platform {platform}" in up.stdout
        assert stopped.url(f"{exporter.upper()}_PORT") in up.stdout
        wait_for(lambda: stopped.query(f'up{{job="{exporter}", host="{host}", platform="{platform}"}} == 1'))  # noqa: B023
        # There is no such hypervisor here, and the exporter reports that.
        assert f"{exporter}-exporter doesn't get data from all its sources" in up.stdout
    assert stopped.pids("virtscope.openvz") == []  # the platform has changed


@pytest.mark.system
def test_a_hypervisor_s_host_needs_root(stopped: Checkout) -> None:
    for part in EXPORTERS:
        if part.platform and part.capabilities:
            up = stopped.python("-c", UP_ON.format(host="h", platform=part.platform, user=1000), "up")
            assert (up.returncode, f"only root may start {part.name}" in up.stdout) == (1, True), up.stdout
            assert stopped.processes() == {}
