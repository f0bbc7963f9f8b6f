"""Hosts as their exporters show them: a Xen host with a busy Dom0, one whose sources fail, a bare machine, and of Xen,
KVM and OpenVZ one each that has every metric there is."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.dashboards import golden
from tests.support import Exposition

# CPUs that each domain keeps busy. Dom0 takes 6 of 18 (a third), so HostOverheadHigh is soon pending: a rate over a
# minute rises from 0 during the first one, and 6 CPUs get past the alert's half a CPU within seconds.
DOMAINS = {"Domain-0": 6.0, "web 1": 7.0, "db": 4.0, 'größer "quoted"': 1.0}
CAPS = {"web 1": 12.0, "db": 4.2}  # CPUs
WAITS = 0.1  # vCPUs of each domain, waiting all the time
BUSIEST = (1, "web 1"), (2, "db")  # domid and name of those that run meanwhile


def xen(seconds: float) -> str:
    """What xentop-exporter says of a 24-CPU host that has been up for so long: Dom0 and three guests."""
    lines = ["xentop_up 1", "xen_host_cpus 24", "xen_host_vcpus 30", f"process_cpu_seconds_total {seconds * 0.004}"]
    for domid, (name, cpus) in enumerate(DOMAINS.items()):
        escaped = name.replace('"', r"\"")
        labels = f'domid="{domid}",domain="{escaped}"'
        if name in CAPS:
            lines.append(f"xen_domain_cpu_limit_cpus{{{labels}}} {CAPS[name]}")
        lines += [
            f'xen_domain_wait_estimated_seconds_total{{{labels},running_domid="{other}",running="{running}"}} '
            f"{seconds * WAITS / 2}"
            for other, running in BUSIEST
        ]
        lines += [
            f"xen_domain_scheduler_weight{{{labels}}} 256",
            f'xen_domain_scheduler_changes_total{{{labels},what="cap"}} {seconds // 30}',
            f"xen_domain_runnable_seconds_total{{{labels}}} {seconds * WAITS}",
            f"xen_domain_cpu_seconds_total{{{labels}}} {seconds * cpus}",
            f'xen_domain_network_receive_bytes_total{{{labels},vif="0"}} {seconds * 1e6 * cpus}',
            f'xen_domain_network_transmit_bytes_total{{{labels},vif="0"}} {seconds * 9e6 * cpus}',
            f'xen_domain_block_read_bytes_total{{{labels},vbd="0"}} {seconds * 2e5}',
            f'xen_domain_block_write_bytes_total{{{labels},vbd="0"}} {seconds * 3e5}',
            f"xen_domain_memory_bytes{{{labels}}} {(domid + 1) * 2**29}",
            f'xen_domain_state{{{labels},state="running"}} 1',
            f'xen_domain_state{{{labels},state="dying"}} 0',
        ]
    return "\n".join(lines) + "\n"


def every_metric_of_xen(seconds: float) -> str:
    """What xentop-exporter says where each source has all that it can have."""
    return golden.page("xentop", ("xentop", "xen-4.17", "xen-every-source"), seconds)


def every_metric_of_kvm(seconds: float) -> str:
    """What kvm-exporter says of guests of libvirt on old and new kernels, and of emulated ones."""
    hosts = ("kvm-libvirt9-cgroup1", "kvm-debian12-linux6.1-libvirt9.0-qemu7.2")
    return golden.page("kvm", (*hosts, "kvm-debian13-linux6.12-libvirt11.3-qemu10.0"), seconds)


def every_metric_of_openvz(seconds: float) -> str:
    """What vestat-exporter says of containers with and without names, of old and new kernels."""
    kernels = ("openvz-i386-2.6.18-cycles", "openvz-x86_64-2.6.32-nanoseconds", "openvz-virtuozzo7-uuids")
    return golden.page("vestat", (*kernels, "openvz-names"), seconds)


def ssh_exporter(seconds: float) -> str:
    """What ssh-exporter says of itself."""
    return golden.page("ssh", ("ssh",), seconds)


def parts_of_the_stack(seconds: float) -> str:
    """What liveness says of a stack whose Prometheus fails each five minutes."""
    failures = f'stack_part_failures_total{{part="prometheus",reason="ended"}} {seconds // 300}'
    return f'stack_part_up{{part="prometheus"}} 1\nstack_part_up{{part="alertmanager"}} 1\n{failures}\n'


def mute_xen(seconds: float) -> str:
    """What xentop-exporter says of a host whose sources all fail."""
    errors = f'xentop_source_errors_total{{source="libxenstat",reason="timeout"}} {int(seconds)}'
    ups = 'xentop_up 0\nxentop_source_up{source="libxenstat"} 0'
    return f"{ups}\n{errors}\nprocess_cpu_seconds_total {seconds * 0.004}\n"


def base(seconds: float) -> str:
    """What node_exporter says of a 2-CPU machine of which a quarter is used."""
    lines = [
        f"process_cpu_seconds_total {seconds * 0.01}",
        f"node_memory_MemTotal_bytes {2**32}",
        f"node_memory_MemAvailable_bytes {3 * 2**30}",
        f'node_network_receive_bytes_total{{device="eth0"}} {seconds * 2e6}',
        f'node_network_transmit_bytes_total{{device="eth0"}} {seconds * 8e6}',
        f'node_disk_read_bytes_total{{device="sda"}} {seconds * 1e5}',
        f'node_disk_written_bytes_total{{device="sda"}} {seconds * 4e5}',
    ]
    for cpu in range(2):
        for mode, share in {"user": 0.2, "system": 0.05, "idle": 0.74, "iowait": 0.01, "steal": 0.0}.items():
            lines.append(f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds * share}')
    return "\n".join(lines) + "\n"


class Ticking(Exposition):
    """An exporter whose counters keep counting: its page is a function of the seconds since it was made."""

    def __init__(self, text_after: Callable[[float], str]) -> None:
        start = time.monotonic()
        super().__init__(lambda: text_after(time.monotonic() - start))
