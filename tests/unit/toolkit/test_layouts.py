"""Whose a cgroup is, by its path, for every kind of container and guest; and the rules have the same table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtscope.toolkit import layouts

RULES = Path(__file__).resolve().parents[3] / "prometheus/rules/cgroup.yml"
ID = "4f2c" * 16
UUID = "1f2e3d4c-0a1b-4c2d-8e3f-001122334455"
SCOPE = r"machine-qemu\x2d1\x2dweb.scope"
USER = "/user.slice/user-1000.slice/user@1000.service"

# A container's or guest's path, and what may be inside.
CONTAINERS = (
    (f"/docker/{ID}", "/system.slice/cron.service"),
    (f"/system.slice/docker-{ID}.scope", "/init"),
    (f"{USER}/user.slice/docker-{ID}.scope", ""),
    (f"/ecs/0a1b/{ID}", ""),
    (f"/system.slice/balena-engine-{ID}.scope", ""),
    (f"/machine.slice/libpod-{ID}.scope", "/container"),
    (f"/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope", ""),
    (f"/libpod_parent/libpod-{ID}", ""),
    (f"/system.slice/web.service/libpod-payload-{ID}", ""),
    (f"{USER}/app.slice/web.service/libpod-payload-{ID}", "/init.scope"),
    (f"/system.slice/nerdctl-{ID}.scope", ""),
    (f"/k8s.io/{ID}", ""),
    ("/default/web", "/init"),
    ("/lxc/101", "/ns/user.slice"),
    ("/lxc.payload.web", "/init.scope"),
    ("/lxc.payload/web", ""),
    (f"{USER}/app.slice/run-r1.scope/lxc.payload.web", ""),
    ("/machine.slice/machine-web.scope", "/payload"),
    ("/foo.slice/foo-bar.slice/machine-web.scope", "/payload"),
    ("/machine.slice/systemd-nspawn@a.service", "/payload"),
    ("/machine.slice/systemd-vmspawn@a.service", ""),
    (f"/machine.slice/{SCOPE}", "/libvirt/vcpu0"),
    (f"/machine.slice/machine-rt.slice/{SCOPE}", "/libvirt"),
    (f"/prod.slice/{SCOPE}", ""),
    ("/machine/qemu-1-web.libvirt-qemu", "/vcpu0"),
    ("/machine/rt.partition/low.partition/qemu-1-web.libvirt-qemu", "/emulator"),
    ("/machine/lxc-7-web.libvirt-lxc", ""),
    ("/libvirt/qemu/web", "/vcpu0"),
    ("/qemu.slice/100.scope", ""),
    ("/firecracker/vm1", ""),
    ("/firecracker-containerd/vm1", ""),
    ("/kubepods/pod7a2e", "/0a1b"),
    ("/kubepods/burstable/pod7a2e", f"/{ID}"),
    ("/kubelet/kubepods/besteffort/pod7a2e", ""),
    ("/kubepods.slice/kubepods-pod7.slice", f"/cri-containerd-{ID}.scope"),
    ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice", f"/crio-{ID}.scope/lxc/a"),
    (
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod7.slice",
        f"/cri-containerd-{ID}.scope",
    ),
    (f"/nomad.slice/share.slice/{UUID}.web.scope", ""),
    (f"/nomad/share/{UUID}.web", ""),
    ("/system.slice/slurmstepd.scope/job_12", "/step_0/user/task_0"),
    ("/system.slice/n1_slurmstepd.scope/job_12", ""),
    ("/slurm/uid_1000/job_12", "/step_0"),
    ("/garden/0a1b2c3d", ""),
    ("/garden/good/0a1b2c3d", "/init"),
    (f"{USER}/user.slice/apptainer-4711.scope", ""),
    ("/mesos/0a1b2c3d", "/mesos/4e5f"),
    ("/hadoop-yarn/container_1700_01_000001", ""),
    ("/htcondor/condor_execute_slot1@a", ""),
    ("/machine.slice/101", "/init"),
    (f"/machine.slice/{UUID}", "/system.slice"),
    ("/virtscope/shop-web", ""),
)
NONE = (
    "/",
    "/system.slice/nginx.service",
    "/lxc.monitor.web",
    "/lxc.monitor/101",
    "/lxc",
    f"/machine.slice/libpod-conmon-{ID}.scope",
    f"/machine.slice/machine-libpod_pod_{ID}.slice",
    "/machine.slice/machine-rt.slice",
    "/machine/rt.partition",
    "/kubepods/burstable",
    "/kubepods.slice/kubepods-besteffort.slice",
    "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice",
    "/nomad.slice/share.slice",
    "/system.slice/slurmstepd.scope/system",
    "/slurm/uid_1000",
    "/garden/good",
    "/system.slice/firecracker.service/api",
    "/srv/default/web",
    f"{USER}/app.slice/qemu.service",
    f"{USER}/app.slice/machine-1.scope",
    "/user.slice/user-1000.slice/app.slice/machine-1.scope",
)


def parents(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(2, len(names))]


@pytest.mark.parametrize(("path", "inside"), CONTAINERS)
def test_a_container_begins_at_its_path_and_holds_what_is_inside(path: str, inside: str) -> None:
    whole, within = (re.fullmatch(layouts.OUTERMOST, each) for each in (path, path + inside))
    assert whole
    assert within
    assert (whole[1] or "", within[1] or "") == ("", inside)
    assert layouts.begins(path)
    assert not any(layouts.begins(parent) for parent in parents(path))


@pytest.mark.parametrize("path", NONE)
def test_what_is_in_no_container(path: str) -> None:
    assert not re.fullmatch(layouts.OUTERMOST, path)
    assert not layouts.begins(path)


def test_the_rules_have_the_same_table() -> None:
    """So that what sched-exporter and kvm-exporter name is joined with what cAdvisor and perf-exporter have."""
    rules = RULES.read_text()
    (written,) = re.findall(r"'part', 'container\$1', 'id',\s*'(/.*?)'\n", rules, re.DOTALL)
    assert re.sub(r"\\\n\s*", "", written) == layouts.OUTERMOST
    assert set(re.findall(r'"\$1", "id",\s*"(.*kubepods.*)"', rules)) == {layouts.IN_A_POD}


@pytest.mark.parametrize(
    ("path", "guest"),
    [
        (f"/machine.slice/{SCOPE}/libvirt/vcpu0", f"/machine.slice/{SCOPE}"),
        (f"/prod.slice/{SCOPE}/vcpu12", f"/prod.slice/{SCOPE}"),
        ("/machine/rt.partition/qemu-1-web.libvirt-qemu/vcpu0", "/machine/rt.partition/qemu-1-web.libvirt-qemu"),
        ("/libvirt/qemu/web/vcpu0", "/libvirt/qemu/web"),
    ],
)
def test_a_vcpu_is_its_guest_s(path: str, guest: str) -> None:
    found = layouts.VCPU.fullmatch(path)
    assert found
    assert found[1] == guest
    assert layouts.GUEST.fullmatch(guest)


@pytest.mark.parametrize("path", ["/machine.slice/machine-web.scope", "/lxc/a", f"/docker/{ID}", "/kubepods/pod7"])
def test_a_container_may_have_more_in_it_than_a_guest(path: str) -> None:
    assert not layouts.GUEST.fullmatch(path)


@pytest.mark.parametrize("path", ["/machine.slice/machine-web.scope/vcpu0", f"/docker/{ID}/vcpu0", "/lxc/a/vcpu0"])
def test_what_a_container_calls_a_vcpu_is_none(path: str) -> None:
    assert not layouts.VCPU.fullmatch(path)
