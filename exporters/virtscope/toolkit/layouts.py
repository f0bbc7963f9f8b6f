"""Maps cgroup paths to containers and guests: one table for exporters and rules, so that names agree everywhere.

prometheus/rules/cgroup.yml repeats OUTERMOST and IN_A_POD; tests/unit/toolkit/test_layouts.py compares them. Patterns
must be valid in both Python and RE2. By hand: `systemd-cgls`.
"""

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

# A path with a container or guest; group 1 is the rest. The lazy "??" finds the outermost one.
OUTERMOST = rf"/(?:{'|'.join(_AT_TOP)}|(?:.*?/)??(?:{_ANYWHERE}))(/.*)?"
IN_A_POD = rf"(/(?:.*?/)??(?:{_POD}))/.+"  # the pod is the group 1
_OUTERMOST = re.compile(OUTERMOST, re.DOTALL)
_IN_A_POD = re.compile(IN_A_POD, re.DOTALL)
_MAX_NAMES = 5  # enough for a pattern

# A guest's own cgroup.
GUEST = re.compile(rf"/(?:.*/)?(?:{'|'.join(_GUESTS)})", re.DOTALL)
# A vCPU's cgroup by libvirt; since 7.1, or with cgroups v2 and systemd, one level deeper.
VCPU = re.compile(rf"(/(?:.*/)?(?:{_OF_LIBVIRT}))(?:/libvirt)?/vcpu[0-9]+", re.DOTALL)


def pod_of(path: str) -> str:
    """Return the path of a cgroup's pod; "" if it has none."""
    found = _IN_A_POD.fullmatch(path)
    return found[1] if found else ""


def begins(path: str) -> bool:
    """Whether this cgroup is an outermost container or guest. The cost is bounded even for paths of 4,000 bytes."""
    if path.count("/") > _MAX_NAMES:
        path = f"/-/{'/'.join(path.rsplit('/', _MAX_NAMES)[1:])}"
    found = _OUTERMOST.fullmatch(path)
    return found is not None and not found[1]
