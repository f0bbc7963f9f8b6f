"""KVM in its own words: what each guest computes and what it costs beside that, its vCPUs, caps and devices.

kvm-exporter's own series, not the vocabulary: that has what every platform has, and the page Host shows it.
"""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import CPUS, Signal, native, on_host
from dashboards.signals.native import described, latest

_GUEST, _VCPU, _DEVICE = "guest, pid", "guest, pid, vcpu", "guest, pid, device"
_PER_SECOND = "suffix:/s"
_CHOSEN = {"guest": "$vserver"}


def _value(metric: str, by: str = _GUEST) -> str:
    """The value of each of the chosen guests."""
    return latest(metric, by, **_CHOSEN)


def _rate(counter: str, by: str = _GUEST, **labels: str) -> str:
    """How fast the counter of each of the chosen guests grows, per second: for a while after a guest has ended."""
    return native.rate(counter, by, **_CHOSEN, **labels)


def _of_name(expr: str, *labels: str) -> str:
    """The same by name, for a graph: a guest that is started again gets a new process and goes on as the same line."""
    return f"sum by ({', '.join(['guest', *labels])}) ({expr})"


def _of_guests_now(expr: str) -> str:
    return native.there_now(f"({expr})", _GUEST, "kvm_guest_start_time_seconds")


_NO_DATA = "Not a KVM host, or no values from kvm-exporter: see Monitoring and docs/kvm-exporter.md."
_NO_SPLIT = 'Guest time is not known of the chosen guests: the table "Guest time not known" says why.'
_NO_NAMES = "The threads of the chosen guests have no names: docs/kvm-exporter.md."
_NO_LIBVIRT = "Only libvirt tells this, for guests of its own: docs/kvm-exporter.md."
_NO_QUOTA = "No chosen guest has a quota."
_NO_TAP = "The chosen guests have no tap device, or kvm-exporter may not see whose it is: docs/kvm-exporter.md."

# What a guest costs beside what it computes

_USED = _rate("kvm_guest_cpu_seconds_total")
_COMPUTED = _rate("kvm_guest_guest_seconds_total")
_VCPUS_RAN = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_run_seconds_total', _VCPU)})"
_VCPUS_COMPUTED = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_guest_seconds_total', _VCPU)})"
_VCPUS_SYSTEM = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_system_seconds_total', _VCPU)})"
_EXITS = f"sum by ({_GUEST}) ({_rate('kvm_vcpu_exits_total', _VCPU)})"

GUESTS = Signal(
    name="Guests on the host",
    query=latest("kvm_host_guests", "host"),
    unit=units.NoUnit,
    description="Guests that run on the host.",
    absent=_NO_DATA,
    decimals=0,
)

OVERHEAD = Signal(
    name="Overhead",
    query=on_host("vserver:overhead_cpu:rate", role="guest", vserver="$vserver"),
    unit=CPUS,
    description=(
        "CPU used for a guest beside what it computes: exits handled by KVM and QEMU on its vCPUs, polling, QEMU's "
        "other threads, vhost."
    ),
    legend="{{vserver}}",
    absent=_NO_SPLIT,
    decimals=2,
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

EXITS_OF_ALL = Signal(
    name="Exits",
    query=f"sum({on_host('vserver:exits:rate', vserver='$vserver')})",
    unit=_PER_SECOND,
    description="Times that vCPUs of the chosen guests left the guest's code, for KVM or QEMU to do something.",
    absent=_NO_LIBVIRT,
    decimals=0,
)

EXITS = replace(
    EXITS_OF_ALL,
    query=on_host("vserver:exits:rate", vserver="$vserver"),
    description="Times that a guest's vCPUs left its code, for KVM or QEMU to do something.",
    legend="{{vserver}}",
)

OVERHEAD_RATIO = Signal(
    name="Overhead / guest time",
    query=f"{_of_name(f'{_USED} - {_COMPUTED}')} / ({_of_name(_COMPUTED)} > 0.01)",
    unit=units.PercentUnit,
    description=(
        "CPU used for a guest beside what it computes, per CPU that it computes: 50 % is half a second more for each "
        "second. Absent while it is nearly idle."
    ),
    legend="{{guest}}",
    absent=_NO_SPLIT,
    decimals=1,
)

GUEST_TIME = Signal(
    name="Guest time",
    query=_COMPUTED,
    unit=CPUS,
    description="CPU time in which the guest's own code ran.",
    legend="guest time",
    absent=_NO_SPLIT,
    decimals=2,
)

VCPU_SYSTEM = Signal(
    name="In KVM",
    query=_VCPUS_SYSTEM,
    unit=CPUS,
    description=(
        "CPU time of vCPU threads in the kernel: exits that KVM handles, and its polling. Where the kernel can't tell "
        "guest time, the guest's own code as well."
    ),
    legend="vCPUs in KVM",
    absent=_NO_NAMES,
    decimals=2,
)

VCPU_USER = Signal(
    name="In QEMU",
    query=f"clamp_min({_VCPUS_RAN} - {_VCPUS_COMPUTED} - {_VCPUS_SYSTEM}, 0)",
    unit=CPUS,
    description="CPU time of vCPU threads in QEMU: exits that it emulates a device for.",
    legend="vCPUs in QEMU",
    absent=_NO_SPLIT,
    decimals=2,
)

THREADS = Signal(
    name="Other threads",
    query=_rate("kvm_guest_thread_cpu_seconds_total", f"{_GUEST}, role"),
    unit=CPUS,
    description="CPU time of the guest's other threads, by role.",
    legend="{{role}}",
    absent=_NO_NAMES,
    decimals=2,
)


def _thread(role: str, name: str, what: str) -> Signal:
    return replace(
        THREADS, name=name, query=_rate("kvm_guest_thread_cpu_seconds_total", role=role), description=what, legend=name
    )


ROLES = [
    _thread("emulator", "Emulator", "CPU time of QEMU's main loop, monitor, VNC and the like."),
    _thread("iothread", "iothread", "CPU time of QEMU's I/O threads, for block devices."),
    _thread(
        "worker", "Workers", "CPU time of QEMU's pool of workers, for block devices, and of threads that have ended."
    ),
    _thread("vhost", "vhost", "CPU time of the kernel's threads for the guest's network."),
    _thread("kvm", "KVM threads", "CPU time of KVM's own threads for the guest."),
]

HALT_POLL = Signal(
    name="Polling",
    query=f"sum by ({_GUEST}) ({_rate('kvm_guest_halt_poll_seconds_total', f'{_GUEST}, result')})",
    unit=CPUS,
    description=(
        "CPU time in which KVM polled for an idle vCPU to wake up, a part of the vCPUs' time in KVM (halt_poll_ns)."
    ),
    legend="polling",
    absent=_NO_LIBVIRT,
    decimals=2,
)

HALT_POLL_BY_RESULT = replace(
    HALT_POLL,
    name="Halt polling",
    query=_of_name(_rate("kvm_guest_halt_poll_seconds_total", f"{_GUEST}, result"), "result"),
    description=(
        "CPU time in which KVM polled for an idle vCPU to wake up, by whether it did in time. What failed is wasted: "
        "a lower halt_poll_ns (module kvm) saves it."
    ),
    legend="{{guest}} {{result}}",
)

POLL_FAILED = replace(
    HALT_POLL,
    name="Polled in vain",
    query=f"sum({_rate('kvm_guest_halt_poll_seconds_total', _GUEST, result='fail')})",
    description="CPU time in which KVM polled for idle vCPUs of the chosen guests that did not wake up in time.",
)

# One below the other, from what is computed to what is furthest from it; polling is a part of what KVM uses.
COSTS = [GUEST_TIME, VCPU_SYSTEM, VCPU_USER, *ROLES]

OF_EACH = [
    replace(GUEST_TIME, query=_of_guests_now(_COMPUTED)),
    replace(
        OVERHEAD,
        query=_of_guests_now(f"{_USED} - {_COMPUTED}"),
        description="CPU time used for the guest beside its guest time.",
    ),
    *(
        replace(signal, query=_of_guests_now(signal.expr))
        for signal in (VCPU_SYSTEM, HALT_POLL, VCPU_USER, *ROLES[:-1])
    ),
    replace(EXITS, name="Exits", query=_of_guests_now(_EXITS)),
]

# Guests

INFO = [
    Signal(
        name="vCPUs",
        query=described(
            _value("kvm_guest_vcpus"),
            _GUEST,
            on_host("kvm_guest_info", **_CHOSEN),
            "title, manager, accelerator, id, uuid",
        ),
        unit=units.NoUnit,
        description="vCPUs of the guest.",
        absent=_NO_DATA,
        decimals=0,
    ),
    Signal(
        name="Up",
        query=f"time() - {_value('kvm_guest_start_time_seconds')}",
        unit=units.Seconds,
        description="Time since the guest's process was started.",
        absent=_NO_DATA,
        decimals=0,
    ),
]

STATE = Signal(
    name="Guests in it",
    query=f"count by (guest, state) ({_value('kvm_guest_state', 'guest, pid, state')} == 1)",
    unit=units.NoUnit,
    description="The state of the guest as libvirt knows it.",
    absent=_NO_LIBVIRT,
    decimals=0,
)

NO_GUEST_TIME = Signal(
    name="Guests",
    query=f"count by (guest, reason) ({_value('kvm_guest_time_absent', 'guest, pid, reason')})",
    unit=units.NoUnit,
    description="Why guest time is not known: the guest is emulated (tcg), or this kernel can't tell it (kernel).",
    absent="Guest time is known of all chosen guests.",
    decimals=0,
)

RESIDENT = Signal(
    name="Resident",
    query=_value("kvm_guest_memory_resident_bytes"),
    unit=units.BytesIEC,
    description="Memory of the host that the guest's QEMU holds.",
    absent=_NO_DATA,
    decimals=1,
)

BALLOON = replace(
    RESIDENT,
    name="Balloon",
    query=_value("kvm_guest_memory_balloon_bytes"),
    description="Memory that the guest has now: what its balloon took is taken off.",
    absent=_NO_LIBVIRT,
)

GIVEN = replace(
    RESIDENT,
    name="Given",
    query=_value("kvm_guest_memory_limit_bytes"),
    description="Memory that QEMU was started to give the guest.",
)

# vCPUs

VCPU_RAN = Signal(
    name="CPU used by vCPU",
    query=_of_name(_rate("kvm_vcpu_run_seconds_total", _VCPU), "vcpu"),
    unit=CPUS,
    description="CPU time of each vCPU's thread, exits included: 1 CPU is busy all the time.",
    legend="{{guest}} vCPU {{vcpu}}",
    absent=_NO_NAMES,
    decimals=2,
)

VCPU_WAITED = replace(
    VCPU_RAN,
    name="CPU wait by vCPU",
    query=_of_name(_rate("kvm_vcpu_wait_seconds_total", _VCPU), "vcpu"),
    unit=units.PercentUnit,
    description=(
        "Time per second that each vCPU could run and had no CPU: since others had it, or since its quota was used up."
    ),
    decimals=1,
)

# Quotas

THROTTLED = Signal(
    name="Throttled",
    query=_of_name(_rate("kvm_guest_throttled_seconds_total", f"{_GUEST}, part"), "part"),
    unit=units.PercentUnit,
    description=(
        "Time per second that a quota throttled the guest (all), its vCPUs one by one (vcpu), QEMU's emulator or I/O "
        "threads, summed over CPUs. If CPU wait rises with it, that is the quota; if alone, the neighbours."
    ),
    legend="{{guest}} {{part}}",
    absent=_NO_QUOTA,
    decimals=1,
)

THROTTLED_PERIODS = replace(
    THROTTLED,
    name="Throttled periods",
    query=(
        f"{_of_name(_rate('kvm_guest_throttled_periods_total', f'{_GUEST}, part'), 'part')}"
        f" / ({_of_name(_rate('kvm_guest_periods_total', f'{_GUEST}, part'), 'part')} > 0)"
    ),
    description="Share of the quota's periods in which it throttled something, by what it is for.",
)

# Devices


def _network(direction: str, what: str, name: str, description: str, unit: str = _PER_SECOND) -> Signal:
    return Signal(
        name=name,
        query=_of_name(_rate(f"kvm_guest_network_{direction}_{what}_total", _DEVICE), "device"),
        unit=unit,
        description=description,
        legend="{{guest}} {{device}}",
        absent=_NO_TAP,
        decimals=1,
    )


PACKETS_RECEIVED = _network("receive", "packets", "Packets received", "Packets that the guest received.")
PACKETS_SENT = _network("transmit", "packets", "Packets sent", "Packets that the guest sent.")
DROPS_RECEIVED = _network(
    "receive", "drops", "Received packets dropped", "Packets for the guest that it did not fetch in time."
)
DROPS_SENT = _network(
    "transmit", "drops", "Sent packets dropped", "Packets of the guest that nothing on the host took, such as a bridge."
)
ERRORS_RECEIVED = _network("receive", "errors", "Receive errors", "Errors of the host's interface to the guest.")
ERRORS_SENT = _network("transmit", "errors", "Send errors", "Errors of the host's interface from the guest.")


def _requests(kind: str, name: str) -> Signal:
    return Signal(
        name=name,
        query=_of_name(_rate(f"kvm_guest_block_{kind}_requests_total", _DEVICE), "device"),
        unit=_PER_SECOND,
        description=f"{name} of the guest's block devices per second.",
        legend="{{guest}} {{device}}",
        absent=_NO_LIBVIRT,
        decimals=1,
    )


def _duration(kind: str, name: str, what: str) -> Signal:
    requests = _requests(kind, name)
    spent = _of_name(_rate(f"kvm_guest_block_{kind}_seconds_total", _DEVICE), "device")
    return replace(
        requests,
        query=f"{spent} / ({requests.expr} > 0)",
        unit=units.Seconds,
        description=f"Mean time that a {what} takes, as QEMU sees it.",
    )


READS, WRITES, FLUSHES = (_requests(kind, f"{kind.capitalize()} requests") for kind in ("read", "write", "flush"))
READ_TIME = _duration("read", "Time of a read", "read request")
WRITE_TIME = _duration("write", "Time of a write", "write request")
FLUSH_TIME = _duration("flush", "Time of a flush", "flush")
