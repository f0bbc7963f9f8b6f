"""demo-xen's libxenstat, run states and xl, for a recording of xentop-exporter."""

import json
import uuid

from demo.model import HOST, Counters, Life, Work, memory
from demo.study import CHOSEN
from virtscope.xen.libxenstat import RawDomain, RawNode, RawVbd, RawVcpu
from virtscope.xen.netdev import RawNetwork
from virtscope.xen.recorded import Snapshot
from virtscope.xen.runstate import RawRunstate
from virtscope.xen.xl import Answer, RawToolstack

_SECTOR = 512
_PACKET = 1000  # bytes, approximate
_XVDA = 202 << 8


def snapshot(counters: Counters, seconds: float) -> Snapshot:
    """The host at this Unix time."""
    domains = _domains(counters, seconds)
    given = sum(memory(name) for _, name, _ in domains)
    node = RawNode(
        domains=tuple(_domain(life.number, name, work) for life, name, work in domains),
        xen_version=b"3.0.3",
        num_cpus=CHOSEN["cpus"],
        cpu_hz=CHOSEN["clock_hertz"],
        tot_mem=CHOSEN["memory_bytes"],
        free_mem=CHOSEN["memory_bytes"] - given,
    )
    return Snapshot(node, tuple(_runstate(life.number, work, seconds - life.began) for life, _, work in domains))


def toolstack(counters: Counters, seconds: float) -> RawToolstack:
    """xl's output at this Unix time: the domains, the scheduler, weights, no caps, vCPUs."""
    listed = ["Name                                        ID   Mem VCPUs\tState\tTime(s)"]
    shares = ["Cpupool Pool-0: tslice=30ms ratelimit=1000us migration-delay=0us", "Name ID Weight  Cap"]
    vcpus = ["Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)"]
    details: list[dict[str, object]] = []
    for life, name, work in _domains(counters, seconds):
        shown = name or "Domain-0"
        listed.append(f"{shown:<40} {life.number:>5} {memory(name) >> 20:>5} {1:>5}     ------  {work.cpu:>8.1f}")
        shares.append(f"{shown:<33} {life.number:>4} {CHOSEN['xen_scheduler_weight']:>6} {0:>4}")
        number = life.number
        details.append({"domid": number, "config": {"c_info": {"type": "pv", "name": shown, "uuid": _uuid(shown)}}})
        cpu = number % CHOSEN["cpus"]
        vcpus.append(f"{shown:<33} {number:>4} {0:>5} {cpu:>4}   ---  {work.cpu:>8.1f}  all / all")
    answers = {
        "list": listed,
        "info": ["xen_scheduler          : credit"],
        "cpupool-list": ["Name CPUs Sched Active Domain count", f"Pool-0 {CHOSEN['cpus']} credit y {len(details)}"],
        "list -l": [json.dumps(details)],
        "vcpu-list": vcpus,
        "sched-credit": shares,
    }
    given = (Answer(command, "\n".join([*lines, ""]).encode(), "", False) for command, lines in answers.items())
    return RawToolstack("xl", tuple(given))


def _uuid(name: str) -> str:
    """A guest's UUID, which it keeps when restarted."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) if name != "Domain-0" else str(uuid.UUID(int=0))


def _domains(counters: Counters, seconds: float) -> list[tuple[Life, str, Work]]:
    """Domains by id: each life of a guest is a domain of its own."""
    return sorted((counters.life(name, seconds), name, work) for name, work in counters.at(seconds).work.items())


def _domain(domid: int, name: str, work: Work) -> RawDomain:
    nanoseconds = int(work.cpu * 1e9)
    guest = name != HOST
    # libxenstat reports Dom0's end of an interface: its received bytes are the guest's sent bytes.
    network = RawNetwork(
        0, int(work.sent), int(work.sent) // _PACKET, 0, 0, int(work.received), int(work.received) // _PACKET, 0, 0, 0
    )
    read, written = int(work.read), int(work.written)
    disk = RawVbd(2, _XVDA, 0, read >> 12, written >> 12, read // _SECTOR, written // _SECTOR, False)
    return RawDomain(
        vcpus=(RawVcpu(1, nanoseconds),),
        networks=(network,) if guest else (),
        vbds=(disk,) if guest else (),
        id=domid,
        name=name.encode() if guest else b"Domain-0",
        cpu_ns=nanoseconds,
        cur_mem=memory(name),
        max_mem=memory(name),
        ssid=0,
        dying=0,
        crashed=0,
        shutdown=0,
        paused=0,
        blocked=0,
        running=1,
    )


def _runstate(domid: int, work: Work, up: float) -> RawRunstate:
    running, runnable = int(work.cpu * 1e9), int(work.wait * 1e9)
    blocked = max(int(up * 1e9) - running - runnable, 0)
    # A domain with one vCPU runs, waits (full contention) or is blocked.
    return RawRunstate(domid, 0, 0, (running, runnable, 0, blocked, 0, 0), runnable)
