"""The owner of a cgroup by its path, for every kind of container and guest; the rules have the same table."""

import re
from pathlib import Path

from virtscope.toolkit import layouts

RULES = Path(__file__).resolve().parents[3] / "prometheus/rules/cgroup.yml"
ID = "4f2c" * 16
UUID = "1f2e3d4c-0a1b-4c2d-8e3f-001122334455"
SCOPE = r"machine-qemu\x2d1\x2dweb.scope"
KUBELET = "/kubelet.slice/kubelet-kubepods.slice"
USER = "/user.slice/user-1000.slice/user@1000.service"

# The path of a container or guest, with " " before the nested part.
CONTAINERS = f"""
/docker/{ID} /system.slice/cron.service
/system.slice/docker-{ID}.scope /init
{USER}/user.slice/docker-{ID}.scope
/ecs/0a1b/{ID}
/system.slice/balena-engine-{ID}.scope
/machine.slice/libpod-{ID}.scope /container
/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope
/libpod_parent/libpod-{ID}
/system.slice/web.service/libpod-payload-{ID}
{USER}/app.slice/web.service/libpod-payload-{ID} /init.scope
/system.slice/nerdctl-{ID}.scope
/k8s.io/{ID}
/default/web /init
/lxc/101 /ns/user.slice
/lxc.payload.web /init.scope
/lxc.payload/web
{USER}/app.slice/run-r1.scope/lxc.payload.web
/machine.slice/machine-web.scope /payload
/foo.slice/foo-bar.slice/machine-web.scope /payload
/machine.slice/systemd-nspawn@a.service /payload
/machine.slice/systemd-vmspawn@a.service
/machine.slice/{SCOPE} /libvirt/vcpu0
/machine.slice/machine-rt.slice/{SCOPE} /libvirt
/prod.slice/{SCOPE}
/machine/qemu-1-web.libvirt-qemu /vcpu0
/machine/rt.partition/low.partition/qemu-1-web.libvirt-qemu /emulator
/machine/lxc-7-web.libvirt-lxc
/libvirt/qemu/web /vcpu0
/qemu.slice/100.scope
/firecracker/vm1
/firecracker-containerd/vm1
/kubepods/pod7a2e /0a1b
/kubepods/burstable/pod7a2e /{ID}
/kubelet/kubepods/besteffort/pod7a2e
/kubepods.slice/kubepods-pod7.slice /cri-containerd-{ID}.scope
/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice /crio-{ID}.scope/lxc/a
{KUBELET}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod7.slice /cri-containerd-{ID}.scope
/nomad.slice/share.slice/{UUID}.web.scope
/nomad/share/{UUID}.web
/system.slice/slurmstepd.scope/job_12 /step_0/user/task_0
/system.slice/n1_slurmstepd.scope/job_12
/slurm/uid_1000/job_12 /step_0
/garden/0a1b2c3d
/garden/good/0a1b2c3d /init
{USER}/user.slice/apptainer-4711.scope
/mesos/0a1b2c3d /mesos/4e5f
/hadoop-yarn/container_1700_01_000001
/htcondor/condor_execute_slot1@a
/machine.slice/101 /init
/machine.slice/{UUID} /system.slice
/virtscope/shop-web
"""
NONE = f"""
/ /system.slice/nginx.service /lxc.monitor.web /lxc.monitor/101 /lxc
/machine.slice/libpod-conmon-{ID}.scope /machine.slice/machine-libpod_pod_{ID}.slice /machine.slice/machine-rt.slice
/machine/rt.partition /kubepods/burstable /kubepods.slice/kubepods-besteffort.slice
{KUBELET}/kubelet-kubepods-burstable.slice /nomad.slice/share.slice /system.slice/slurmstepd.scope/system
/slurm/uid_1000 /garden/good /system.slice/firecracker.service/api /srv/default/web {USER}/app.slice/qemu.service
{USER}/app.slice/machine-1.scope /user.slice/user-1000.slice/app.slice/machine-1.scope
"""


def test_a_container_begins_at_its_path_holds_what_is_inside_and_is_no_other() -> None:
    for line in CONTAINERS.split("\n")[1:-1]:
        path, _, inside = line.partition(" ")
        whole, within = (re.fullmatch(layouts.OUTERMOST, each) for each in (path, path + inside))
        assert whole, path
        assert within, path
        assert (whole[1] or "", within[1] or "") == ("", inside), path
        vcpu = layouts.VCPU.fullmatch(path + inside)
        assert (vcpu and vcpu[1]) == (path if re.fullmatch("(/libvirt)?/vcpu[0-9]+", inside) else None), path
        assert bool(layouts.GUEST.fullmatch(path)) == bool(re.search("qemu|vmspawn|firecracker", path)), path
        names = path.split("/")
        begins = [layouts.begins("/".join(names[: depth + 1])) for depth in range(1, len(names))]
        assert [bool(each) for each in begins] == [False] * (len(begins) - 1) + [True], path
    for path in NONE.split():
        assert not re.fullmatch(layouts.OUTERMOST, path), path
        assert not layouts.begins(path), path


def test_the_rules_have_the_same_table() -> None:
    """So that names of sched-exporter and kvm-exporter match those of cAdvisor and perf-exporter in joins."""
    rules = RULES.read_text()
    (written,) = re.findall(r"'part', 'container\$1', 'id',\s*'(/.*?)'\), 'cgroup'", rules, re.DOTALL)
    assert re.sub(r"\\\n\s*", "", written) == layouts.OUTERMOST
    assert re.findall(r"'\$1', 'inside',\s*'(.*kubepods.*)'", rules) == [layouts.IN_A_POD]
