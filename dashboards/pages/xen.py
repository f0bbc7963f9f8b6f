"""Xen: a Xen host's own metrics, in the hypervisor's terms."""

from dashboards import marks, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import xen

PAGE = page(
    uid="virtscope-xen",
    title="Xen",
    question="What does Xen itself report of this host's domains?",
    answer=(
        "Their vCPUs, scheduler parameters, virtual interfaces and block devices, in Xen's own words. Overhead and "
        "CPU wait, which all platforms have, are on the page Host."
    ),
    variables=variables.of_platform("xen", "Domain", "domain:vserver:info", "vserver"),
    annotations=[marks.changes()],
    rows=[
        Row(
            "",
            *panels.tiles(xen.DOMAINS, xen.FREE_MEMORY, xen.PACKETS_LOST, xen.OUT_OF_REQUESTS),
            tables.columns(
                "Domains",
                "Every domain chosen, those with most vCPUs first. A dash: neither the toolstack nor the guest says.",
                {"domain": "Name", "domid": "ID", "type": "Type", "os": "OS", "cpupool": "CPU pool"} | {"uuid": "UUID"},
                xen.DOMAIN,
                height=9,
            ),
            tables.columns(
                "vCPUs",
                "Each vCPU, the busiest first: the physical CPU it was last on, those it may run on (hard "
                "affinity) and is best run on (soft affinity).",
                {"domain": "Name", "vcpu": "vCPU", "hard": "Hard", "soft": "Soft"},
                xen.VCPU,
                height=10,
            ),
        ),
        Row(
            "Scheduler and CPU pools",
            tables.columns(
                "Scheduler parameters",
                "Weight and cap (credit, credit2) and their changes in the time shown, or budget and period (rtds). "
                "A dash: not set, or not a parameter of the scheduler. Missed states: changes that Xen didn't "
                "record; CPU wait is less exact.",
                {"domain": "Name", "domid": "ID"},
                xen.SCHEDULING,
            ),
            tables.columns(
                "CPU pools of the host",
                "The scheduler of each CPU pool, its physical CPUs, how long a vCPU runs while others wait, "
                "and at least.",
                {"cpupool": "CPU pool", "scheduler": "Scheduler"},
                xen.POOLS,
            ),
            panels.lines(xen.TRACED).span(12).height(7),
            panels.lines(xen.TRACE_LOST).axis_soft_max(1).span(12).height(7),
            collapsed=True,
        ),
        Row(
            "Network, block devices and caches",
            tables.columns(
                "Virtual interfaces",
                "Each virtual interface: packets to the guest (in) and from it (out), per second; dropped ones "
                "were too many for the guest, or for Dom0's back end.",
                {"domain": "Name", "vif": "Interface"},
                xen.INTERFACES,
            ),
            tables.columns(
                "Virtual block devices",
                "Each device with its back end and its number in hex (major:minor), those first that ran out "
                "of requests.",
                {"domain": "Name", "vbd": "Device", "type": "Back end", "device": "Number"},
                xen.DEVICES,
            ),
            tables.columns(
                "Cache and memory bandwidth",
                "Bytes of each socket's last-level cache (LLC) that hold the domain's data; its bandwidth in a "
                "recent 10 ms to all memory, and to that of the socket itself (local).",
                {"domain": "Name", "socket": "Socket"},
                xen.CACHE,
            ),
            collapsed=True,
        ),
        Row(
            "Hypervisor",
            tables.columns(
                "Hypervisor of the host",
                "Version of Xen, and what it manages.",
                {"host": "Host", "version": "Version"},
                xen.HYPERVISOR,
                height=4,
            ),
            collapsed=True,
        ),
    ],
)
