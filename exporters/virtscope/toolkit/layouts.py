"""Whose a cgroup is, by its path: one table for the exporters and for the rules, so that one name holds everywhere.

prometheus/rules/cgroup.yml has OUTERMOST and IN_A_POD, as Prometheus can't import them, and a test compares them
(tests/unit/toolkit/test_layouts.py). Patterns are what Python's regular expressions and RE2 have in common. By hand:
`systemd-cgls`.
"""

from __future__ import annotations

import re

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

# A pod, below the kubelet's --cgroup-root or without one.
_POD = r"kubepods/(?:[^/]+/)?pod[^/]+|(?:[^/]+-)?kubepods-(?:[a-z]+-)?pod[^/]+[.]slice"

# The last names of a path, below any parent: libvirt's partitions, --cgroup-parent, a user's own systemd.
_OF_LIBVIRT = r"machine-qemu[^/]+[.]scope|[^/]+[.]libvirt-qemu|libvirt/qemu/[^/]+"  # systemd, none, before 1.0.5
_GUESTS = (
    _OF_LIBVIRT,
    r"systemd-vmspawn@[^/]+[.]service",
    r"qemu[.]slice/[^/]+[.]scope",  # Proxmox
    r"firecracker(?:-[^/]*)?/[^/]+",  # Firecracker's jailer
)
_CONTAINERS = (
    r"machine-lxc[^/]+[.]scope|[^/]+[.]libvirt-[a-z]+|libvirt/lxc/[^/]+",
    r"systemd-nspawn@[^/]+[.]service",
    # Engines with ids of 64 digits; not their monitors, such as libpod-conmon-ID.scope. libpod-payload-: quadlets.
    r"(?:(?:docker|balena|balena-engine|libpod|libpod-payload|nerdctl|cri-containerd|crio)-)?[0-9a-f]{64}(?:[.]scope)?",
    r"lxc/[^/]+|lxc[.]payload[./][^/]+",  # LXC, LXD, Incus, Proxmox; not their lxc.monitor
    _POD,
    rf"{_UUID}[.][^/]+",  # Nomad: allocation and task
    r"(?:[^/]*slurmstepd[.]scope|slurm[^/]*/uid_[0-9]+|slurm[^/]*)/job_[0-9]+",  # Slurm, v2 and v1
    r"garden/(?:(?:good|bad)/)?[^/]{5,}",  # Garden, with and without entitlements
    r"(?:apptainer|singularity)-[0-9]+[.]scope",
    rf"machine[.]slice/(?:[0-9]+|{_UUID})",  # OpenVZ
    r"virtscope/[^/]+",  # a tier of the lab
)
# All names of a path: elsewhere they mean nothing.
_AT_TOP = (
    r"[^/]+[.]slice/(?:[^/]+-[^/]+[.]slice/)*machine-[^/]+[.]scope",  # nspawn and others, by systemd-machined
    r"default/[^/]+",  # containerd's default namespace, by ctr
    r"mesos/[^/]+",
    r"hadoop-yarn/container_[^/]+",
    r"htcondor/condor[^/]+",
)

_ANYWHERE = "|".join(_GUESTS + _CONTAINERS)

# A path with the outermost container or guest in it; what follows that is the group 1. The lazy "??" finds it first.
OUTERMOST = rf"/(?:{'|'.join(_AT_TOP)}|(?:.*?/)??(?:{_ANYWHERE}))(/.*)?"
IN_A_POD = rf"(/(?:.*?/)??(?:{_POD}))/.+"  # the pod is the group 1
_OUTERMOST = re.compile(OUTERMOST, re.DOTALL)
_IN_A_POD = re.compile(IN_A_POD, re.DOTALL)
_MOST_NAMES = 5  # in a pattern, as far as it matters

# The cgroup of a guest, which holds all of it and nothing else.
GUEST = re.compile(rf"/(?:.*/)?(?:{'|'.join(_GUESTS)})", re.DOTALL)
# A vCPU's, where libvirt divides a guest's: since 7.1, or with cgroups v2 and systemd, below another level.
VCPU = re.compile(rf"(/(?:.*/)?(?:{_OF_LIBVIRT}))(?:/libvirt)?/vcpu[0-9]+", re.DOTALL)


def pod_of(path: str) -> str:
    """Return the path of the pod that a cgroup is in; "": it is in none."""
    found = _IN_A_POD.fullmatch(path)
    return found[1] if found else ""


def begins(path: str) -> bool:
    """Whether this cgroup is a container or guest, where none above it is. A path of 4,000 bytes costs no more."""
    if path.count("/") > _MOST_NAMES:
        path = f"/-/{'/'.join(path.rsplit('/', _MOST_NAMES)[1:])}"
    found = _OUTERMOST.fullmatch(path)
    return found is not None and not found[1]
