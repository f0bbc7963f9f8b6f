"""demo-kvm's files and libvirt's answers, for a recording of kvm-exporter; and its page of sched-exporter.

Debian 13: libvirt's guests below machine.slice, cgroups of version 2, vhost among QEMU's threads.
"""

import uuid

from demo import shop
from demo.model import CAP, HOST, Counters, State, Work
from virtscope.kvm.libvirt import Raw

INTERVAL = 2.5  # seconds between two readings of a hundred files; Prometheus scrapes every 5 s
LIBVIRT_INTERVAL = 15  # seconds; the exporter's own interval
_HZ = 100
_BOOTED = 86400  # seconds; the host booted this long before its counters were 0
_FIRST_PID = 2000
_RUN = "/var/lib/libvirt/qemu"
_CPUS = int(shop.CHOSEN["cpus"])
_PERIOD = 0.1  # seconds: the period of a quota
_THROTTLED = 0.08  # seconds per throttled period, for each vCPU
# Shares of a guest's overhead by origin: on the vCPUs, `exits` are KVM's and `emulated` is QEMU's.
_PARTS = {"exits": 0.55, "emulated": 0.05, "emulator": 0.1, "iothread": 0.1, "vhost": 0.19, "kvm": 0.01}
_THREADS = {"emulator": "qemu-system-x86", "iothread": "IO iothread1", "vhost": "vhost", "kvm": "kvm-nx-lpage-re"}
_EXIT = 3e-6  # seconds
_POLLING = {"success": 0.07, "fail": 0.03}  # shares of the time of exits
_PACKET = 1000  # bytes, approximate
_READ, _WRITE, _FLUSHED = 16384, 8192, 65536  # bytes of a request, and between two flushes
_REQUEST = 0.0004  # seconds
_RESIDENT = 0.9  # share of a guest's memory
_A_WAIT = 0.004  # seconds, on average
_SWITCHES = 12000  # per second
_CHARGED = 0.995  # share of the wait in the kernel's own counter


def cgroup(counters: Counters, vserver: str, seconds: float) -> str:
    """A guest's cgroup, as named by systemd and libvirt."""
    number = counters.life(vserver, seconds).number
    escaped = vserver.replace("-", r"\x2d")
    return rf"/machine.slice/machine-qemu\x2d{number}\x2d{escaped}.scope"


def files(counters: Counters, seconds: float) -> dict[str, bytes]:
    """The files below / at this Unix time, by path."""
    state, up = counters.at(seconds), seconds - counters.origin
    found: dict[str, str] = {}
    interfaces = ["Inter-|   Receive         |  Transmit", " face |bytes    packets errs |bytes    packets errs"]
    used = guest_time = 0
    for name in shop.GUESTS:
        of_guest = _Guest(counters, state, name, seconds)
        found |= of_guest.files(up)
        interfaces.append(of_guest.interface())
        used += of_guest.used
        guest_time += of_guest.computed
    used += int(state.work[HOST].cpu * _HZ)
    idle = int(_CPUS * up * _HZ) - used
    boot = int(counters.origin) - _BOOTED
    each = f"0 0 {idle // _CPUS} 0 0 0 0 0 0"
    cpus = "".join(f"cpu{number} {used // _CPUS} {each}\n" for number in range(_CPUS))
    found["proc/stat"] = f"cpu  {used} 0 0 {idle} 0 0 0 0 {guest_time} 0\n{cpus}btime {boot}\n"
    found["proc/1/net/dev"] = "\n".join([*interfaces, ""])
    found["sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory pids\n"
    return {path: content.encode() for path, content in found.items()}


def libvirt(counters: Counters, seconds: float) -> Raw:
    """virsh's output at this Unix time."""
    state = counters.at(seconds)
    guests = [_Guest(counters, state, name, seconds) for name in shop.GUESTS]
    return Raw(
        asked=seconds,
        domstats="\n".join(line for guest in guests for line in guest.domstats()).encode(),
        domains="".join(f"{guest.uuid} {guest.name}\n" for guest in guests).encode(),
        titles=tuple((guest.uuid, shop.GUESTS[guest.name]["title"].encode()) for guest in guests),
    )


class _Guest:
    """A guest at a given time, with its threads' CPU usage in ticks."""

    def __init__(self, counters: Counters, state: State, name: str, seconds: float) -> None:
        self.name = name
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        self._number = counters.life(name, seconds).number
        self._cgroup = cgroup(counters, name, seconds)
        self._chosen = shop.GUESTS[name]
        self._cap = shop.phase_at(seconds).caps.get(name)
        self._work: Work = state.work[name]
        self._throttled = state.waits.get((name, CAP), 0.0)
        self._overhead = {part: self._work.cpu * self._chosen["overhead"] * share for part, share in _PARTS.items()}
        self._vcpus = int(self._chosen["vcpus"])
        vcpu = {"guest": self._work.cpu, "user": self._work.cpu + self._overhead["emulated"]}
        vcpu["system"] = self._overhead["exits"]
        self._of_vcpu = {mode: int(cpu * _HZ / self._vcpus) for mode, cpu in vcpu.items()}
        self._others = {part: int(self._overhead[part] * _HZ) for part in _THREADS}
        self.computed = self._vcpus * self._of_vcpu["guest"]
        self._user = self._vcpus * self._of_vcpu["user"]
        self._system = self._vcpus * self._of_vcpu["system"] + sum(self._others.values())
        self.used = self._user + self._system

    def files(self, up: float) -> dict[str, str]:
        """The files of its process, threads and cgroups."""
        pid = _FIRST_PID + 100 * self._number
        process, scope = f"proc/{pid}", f"sys/fs/cgroup{self._cgroup}"
        vcpu = self._of_vcpu
        resident = int(self._chosen["memory_bytes"] * _RESIDENT) // 1024
        found = {
            f"{process}/stat": _stat(pid, "qemu-system-x86", self._user, self._system, self.computed),
            f"{process}/cmdline": "\0".join(self._command_line()),
            f"{process}/exe": "/usr/bin/qemu-system-x86_64",
            f"{process}/cgroup": f"0::{self._cgroup}/libvirt/emulator\n",
            f"{process}/status": f"VmRSS:\t{resident} kB\nHugetlbPages:\t0 kB\n",
            f"{process}/fdinfo/36": f"pos:\t0\niff:\tvnet{self._number}\n",
            f"{scope}/cpu.weight": f"{self._chosen['weight']}\n",
            f"{scope}/cpu.max": "max 100000\n",
            f"{scope}/libvirt/cpu.max": f"{'max' if self._cap is None else int(self._cap * 100000)} 100000\n",
            f"{scope}/libvirt/cpu.stat": f"nr_periods {int(up / _PERIOD)}\n"
            f"nr_throttled {int(self._throttled / self._vcpus / _THROTTLED)}\n"
            f"throttled_usec {int(self._throttled * 1e6)}\n",
            f"{scope}/libvirt/emulator/cpu.max": "max 100000\n",
        }
        for thread, (part, name) in enumerate(_THREADS.items(), start=pid):
            shown = f"vhost-{pid}" if part == "vhost" else name
            found[f"{process}/task/{thread}/stat"] = _stat(thread, shown, 0, self._others[part])
        ran = self._work.cpu + self._overhead["emulated"] + self._overhead["exits"]
        clock = f"{int(ran * 1e9) // self._vcpus} {int(self._work.wait * 1e9) // self._vcpus} {int(ran * 1000)}\n"
        for number in range(self._vcpus):
            thread = pid + 10 + number
            name = f"CPU {number}/KVM"
            found[f"{process}/task/{thread}/stat"] = _stat(thread, name, vcpu["user"], vcpu["system"], vcpu["guest"])
            found[f"{process}/task/{thread}/schedstat"] = clock
            found[f"{scope}/libvirt/vcpu{number}/cpu.max"] = "max 100000\n"
        return found

    def _command_line(self) -> list[str]:
        return [
            *("/usr/bin/qemu-system-x86_64", "-name", f"guest={self.name},debug-threads=on", "-S"),
            *("-machine", "pc-q35-10.0", "-accel", "kvm", "-cpu", "host", "-m", f"{self._chosen['memory_bytes']}b"),
            *("-smp", f"{self._vcpus}", "-uuid", self.uuid, "-no-user-config", "-nodefaults"),
            *("-chardev", f"socket,id=charmonitor,path={_RUN}/domain-{self._number}-{self.name}/monitor.sock"),
            *("-mon", "chardev=charmonitor,id=monitor,mode=control", "-netdev", "tap,fd=36,vhost=on,id=hostnet0", ""),
        ]

    def interface(self) -> str:
        """Its line in /proc/net/dev: the host receives what the guest sends."""
        received, sent = int(self._work.received), int(self._work.sent)
        return f" vnet{self._number}: {sent} {sent // _PACKET} 0 0 0 0 0 0 {received} {received // _PACKET} 0 0 0 0 0 0"

    def domstats(self) -> list[str]:
        """Values that only libvirt has."""
        exits = self._overhead["exits"]
        read, written = int(self._work.read), int(self._work.written)
        requests = {"rd": (read // _READ, read), "wr": (written // _WRITE, written), "fl": (written // _FLUSHED, 0)}
        return [
            f"Domain: '{self.name}'",
            "  state.state=1",
            *(f"  cpu.haltpoll.{result}.time={int(exits * share * 1e9)}" for result, share in _POLLING.items()),
            f"  balloon.current={self._chosen['memory_bytes'] // 1024}",
            *(f"  vcpu.{number}.exits.sum={int(exits / _EXIT / self._vcpus)}" for number in range(self._vcpus)),
            f"  net.0.name=vnet{self._number}",
            "  block.0.name=vda",
            *(
                f"  block.0.{kind}.{what}={value}"
                for kind, (count, size) in requests.items()
                for what, value in (("reqs", count), ("bytes", size), ("times", int(count * _REQUEST * 1e9)))
            ),
            "",
        ]


def _stat(number: int, name: str, user: int, system: int, guest: int = 0) -> str:
    """The stat of a process or thread that started when the counters were 0."""
    fields = ["S", "1", *["0"] * 9, str(user), str(system), *["0"] * 6, str(_BOOTED * _HZ), *["0"] * 20, str(guest)]
    return f"{number} ({name}) {' '.join([*fields, *['0'] * 9])}\n"


def waits(counters: Counters, seconds: float) -> dict[str, list[tuple[dict[str, str], float]]]:
    """sched-exporter's samples at this Unix time, by metric."""
    state, up = counters.at(seconds), seconds - counters.origin
    names = {name: cgroup(counters, name, seconds) for name in shop.GUESTS} | {HOST: "(host)"}
    waited = [
        ({"cgroup": names[waiting], "running": names.get(running, running)}, waited)
        for (waiting, running), waited in state.waits.items()
    ]
    total = sum(seconds for _, seconds in waited)
    return {
        "sched_wait_seconds_total": waited,
        "sched_waits_total": [({"cgroup": names[name]}, state.work[name].wait // _A_WAIT) for name in shop.GUESTS],
        "sched_switches_total": [({}, up * _SWITCHES // 1)],
        "sched_wait_charged_seconds_total": [({}, total)],
        "sched_wait_kernel_seconds_total": [({}, total / _CHARGED)],
        "sched_wait_lost_seconds_total": [({}, 0.0)],
    }
