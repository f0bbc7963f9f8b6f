"""KVM's own metrics: each guest's computing and overhead, its vCPUs, caps and devices.

kvm-exporter's series, not the vocabulary, which only covers metrics of every platform (see the page Host).
"""

from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, native, on_host
from dashboards.signals.native import HOST, described, latest

_GUEST, _VCPU, _DEVICE = "guest, pid", "guest, pid, vcpu", "guest, pid, device"
_PER_SECOND = "suffix:/s"
_CHOSEN = {"guest": "$vserver"}


def _value(metric: str, by: str = _GUEST) -> str:
    """The value for each chosen guest."""
    return latest(metric, by, **_CHOSEN)


def _rate(counter: str, by: str = _GUEST, **labels: str) -> str:
    """The counter's rate per second for each chosen guest; it continues for a while after a guest has ended."""
    return native.rate(counter, by, **_CHOSEN, **labels)


def _of_name(expr: str, *labels: str) -> str:
    """The same by name, for a graph: a restarted guest has a new process and continues as the same line."""
    return f"sum by ({', '.join(['guest', *labels])}) ({expr})"


def _now(expr: str) -> str:
    """The same, only for guests that exist now."""
    return native.there_now(f"({expr})", _GUEST, "kvm_guest_start_time_seconds")


_NO_DATA = "Not a KVM host, or no values from kvm-exporter: see Monitoring and docs/kvm-exporter.md."
_NO_SPLIT = 'Guest time is not known of the chosen guests: the table "Guest time not known" says why.'
_NO_NAMES = "The threads of the chosen guests have no names: docs/kvm-exporter.md."
_NO_LIBVIRT = "Only libvirt tells this, for guests of its own: docs/kvm-exporter.md."
_NO_IO_STAT = "The chosen guests are libvirt's, or the controller io isn't enabled: docs/proxmox.md."
_NO_QUOTA = "No chosen guest has a quota."
_NO_TAP = "The chosen guests have no tap device, or kvm-exporter may not see whose it is: docs/kvm-exporter.md."
_number = partial(Signal, unit=units.NoUnit)

# Overhead of a guest

_USED = _rate("kvm_guest_cpu_seconds_total")
_COMPUTED = _rate("kvm_guest_guest_seconds_total")
_VCPUS_RAN = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_run_seconds_total', _VCPU)})"
_VCPUS_COMPUTED = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_guest_seconds_total', _VCPU)})"
_VCPUS_SYSTEM = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_system_seconds_total', _VCPU)})"
_POLLED = _rate("kvm_guest_halt_poll_seconds_total", f"{_GUEST}, result")

GUESTS = _number(
    "Guests on the host", latest("kvm_host_guests", "host"), description="Guests that run on the host.", absent=_NO_DATA
)
OVERHEAD = Signal(
    "Overhead",
    on_host("vserver:overhead_cpu:rate", role="guest", vserver="$vserver"),
    CPUS,
    "CPU used for a guest beside what it computes: exits handled by KVM and QEMU on its vCPUs, polling, QEMU's other "
    "threads, vhost.",
    _NO_SPLIT,
    legend="{{vserver}}",
)
OVERHEAD_OF_ALL = replace(
    OVERHEAD,
    name="Overhead of guests",
    query=f"sum({OVERHEAD.expr})",
    description=f"Of all chosen guests. {OVERHEAD.description}",
)
OVERHEAD_OF_NONE = replace(
    OVERHEAD,
    name="Host without guests",
    query=on_host("vserver:overhead_cpu:rate", role="host"),
    description=(
        "CPU that the host uses for no guest in particular: its services, the kernel's threads, interrupts, bridges."
    ),
    absent=_NO_DATA,
)
EXITS = Signal(
    "Exits",
    _of_name(_rate("kvm_vcpu_exits_total", _VCPU)),
    _PER_SECOND,
    "Times that a guest's vCPUs left its code, for KVM or QEMU to do something.",
    _NO_LIBVIRT,
    legend="{{guest}}",
    decimals=0,
)
EXITS_OF_ALL = replace(EXITS, query=f"sum({EXITS.expr})")
HALT_POLLING = Signal(
    "Halt polling",
    _of_name(_POLLED, "result"),
    CPUS,
    "CPU time in which KVM polled for an idle vCPU to wake up, by whether it did in time. What failed is wasted: a "
    "lower halt_poll_ns (module kvm) saves it.",
    _NO_LIBVIRT,
    legend="{{guest}} {{result}}",
)

_cpus = partial(Signal, unit=CPUS, absent=_NO_NAMES)
GUEST_TIME = _cpus("Guest time", _COMPUTED, legend="guest time", absent=_NO_SPLIT)
_IN_KVM = _cpus("In KVM", _VCPUS_SYSTEM, legend="vCPUs in KVM")
_IN_QEMU = _cpus("In QEMU", f"clamp_min({_VCPUS_RAN} - {_VCPUS_COMPUTED} - {_VCPUS_SYSTEM}, 0)", legend="vCPUs in QEMU")
_ROLES = [
    _cpus(name, _rate("kvm_guest_thread_cpu_seconds_total", role=role), legend=name)
    for name, role in {
        "Emulator": "emulator",
        "iothread": "iothread",
        "Workers": "worker",
        "vhost": "vhost",
        "KVM threads": "kvm",
    }.items()
]
COSTS = [GUEST_TIME, _IN_KVM, _IN_QEMU, *_ROLES]
"""Stacked from guest code outwards; polling is a part of KVM's time."""

OF_EACH = [
    replace(signal, query=_now(signal.expr))
    for signal in (
        GUEST_TIME,
        _cpus("Overhead", f"{_USED} - {_COMPUTED}"),
        Signal("Ratio", f"({_USED} - {_COMPUTED}) / ({_COMPUTED} > 0.01)", units.PercentUnit, decimals=1),
        _IN_KVM,
        _cpus("Polling", f"sum by ({_GUEST}) ({_POLLED})"),
        _IN_QEMU,
        *_ROLES[:-1],
        Signal("Exits", f"sum by ({_GUEST}) ({_rate('kvm_vcpu_exits_total', _VCPU)})", _PER_SECOND, decimals=0),
    )
]

# Guests

_INFO = HOST("kvm_guest_info", **_CHOSEN)
INFO = [
    _number(
        "vCPUs",
        described(_value("kvm_guest_vcpus"), _GUEST, _INFO, "title, tags, pool, manager, accelerator, id, uuid"),
        absent=_NO_DATA,
    ),
    Signal("Up", f"time() - {_value('kvm_guest_start_time_seconds')}", units.Seconds, decimals=1),
    *(
        Signal(name, _value(f"kvm_guest_memory_{kind}_bytes"), units.BytesIEC, decimals=1)
        for name, kind in {"Resident": "resident", "Balloon": "balloon", "Given": "limit"}.items()
    ),
]
STATE = _number(
    "Guests in it",
    f"count by (guest, state) ({_value('kvm_guest_state', 'guest, pid, state')} == 1)",
    absent=_NO_LIBVIRT,
)
NO_GUEST_TIME = _number(
    "Guests",
    f"count by (guest, reason) ({_value('kvm_guest_time_absent', 'guest, pid, reason')})",
    absent="Guest time is known of all chosen guests.",
)

# vCPUs and quotas

VCPU_RAN = Signal(
    "CPU used by vCPU",
    _of_name(_rate("kvm_vcpu_run_seconds_total", _VCPU), "vcpu"),
    CPUS,
    "CPU time of each vCPU's thread, exits included: 1 CPU is busy all the time.",
    _NO_NAMES,
    legend="{{guest}} vCPU {{vcpu}}",
)
VCPU_WAITED = replace(
    VCPU_RAN,
    name="CPU wait by vCPU",
    query=_of_name(_rate("kvm_vcpu_wait_seconds_total", _VCPU), "vcpu"),
    unit=units.PercentUnit,
    description=(
        "Time per second that each vCPU could run and had no CPU: since others had it, or since its quota was used up."
    ),
)
THROTTLED = Signal(
    "Throttled",
    _of_name(_rate("kvm_guest_throttled_seconds_total", f"{_GUEST}, part"), "part"),
    units.PercentUnit,
    "Time per second that a quota throttled the guest (all), its vCPUs one by one (vcpu), QEMU's emulator or I/O "
    "threads, summed over CPUs. If CPU wait rises with it, that is the quota; if alone, the neighbours.",
    _NO_QUOTA,
    legend="{{guest}} {{part}}",
)
_PERIODS, _THROTTLED_PERIODS = (
    _of_name(_rate(f"kvm_guest_{periods}_total", f"{_GUEST}, part"), "part")
    for periods in ("periods", "throttled_periods")
)
THROTTLED_PERIODS = replace(
    THROTTLED,
    name="Throttled periods",
    query=f"{_THROTTLED_PERIODS} / ({_PERIODS} > 0)",
    description="Share of the quota's periods in which it throttled something, by what it is for.",
)

# Devices

INTERFACES = [
    Signal(name, _now(_rate(f"kvm_guest_network_{metric}_total", _DEVICE)), _PER_SECOND, absent=_NO_TAP)
    for name, metric in {
        "Drops (in)": "receive_drops",
        "Drops (out)": "transmit_drops",
        "Errors (in)": "receive_errors",
        "Errors (out)": "transmit_errors",
        "Packets in": "receive_packets",
        "Packets out": "transmit_packets",
    }.items()
]

DISKS = [
    Signal(name, _now(_rate(f"kvm_guest_disk_{metric}_total", _DEVICE)), unit, absent=_NO_IO_STAT)
    for name, metric, unit in (
        ("Reads", "read_requests", _PER_SECOND),
        ("Writes", "write_requests", _PER_SECOND),
        ("Read", "read_bytes", units.BytesPerSecondSI),
        ("Written", "write_bytes", units.BytesPerSecondSI),
    )
]


def _of_block(kind: str, what: str) -> str:
    return _rate(f"kvm_guest_block_{kind}_{what}_total", _DEVICE)


BLOCK_DEVICES = [
    *(
        Signal(name, _now(_of_block(kind, "requests")), _PER_SECOND, absent=_NO_LIBVIRT)
        for name, kind in {"Reads": "read", "Writes": "write", "Flushes": "flush"}.items()
    ),
    *(
        Signal(name, _now(f"{_of_block(kind, 'seconds')} / ({_of_block(kind, 'requests')} > 0)"), units.Seconds)
        for name, kind in {"A read": "read", "A write": "write", "A flush": "flush"}.items()
    ),
]

# By prometheus-pve-exporter, if it is scraped as in docs/proxmox.md: what virtscope doesn't have. Only its info metrics
# have the host.

_NO_PVE = "No prometheus-pve-exporter is scraped: docs/proxmox.md."
_STORAGE, _PVE_GUEST = HOST("pve_storage_info"), HOST("pve_guest_info", name="$vserver")


def _of_storage(expr: str) -> str:
    """The value for each storage of the host."""
    joined = f"{expr} * on (instance, id) group_left (storage, plugintype) {_STORAGE}"
    return f"max by (storage, plugintype) ({joined})"


def _of_pve_guest(expr: str, *labels: str) -> str:
    """The chosen guests and containers for which `expr` has a series, by name."""
    joined = f"{expr} * on (instance, id) group_left (name) {_PVE_GUEST}"
    return f"count by ({', '.join(['name', 'id', *labels])}) ({joined})"


STORAGES = [
    Signal("Used", _of_storage("pve_disk_usage_bytes / (pve_disk_size_bytes > 0)"), units.PercentUnit, absent=_NO_PVE),
    Signal("Bytes", _of_storage("pve_disk_usage_bytes"), units.BytesIEC),
    Signal("Size", _of_storage("pve_disk_size_bytes"), units.BytesIEC),
]
HA_STATE = _number(
    "Guests in it", _of_pve_guest("(pve_ha_state == 1)", "state"), absent=f"No guest has HA, or: {_NO_PVE}"
)
NOT_BACKED_UP = _number(
    "Not in a job", _of_pve_guest("pve_not_backed_up_info"), absent=f"All guests are in a backup job, or: {_NO_PVE}"
)
