"""demo-openvz as its kernel's files would show it, for a recording of vestat-exporter.

Containers are called by name, as the kernel of Virtuozzo 7 allows: so the file that maps Xen's guests to applications,
alerts/objectives/rubis.yml, maps them as well. One that is started again has its name again, and counters from 0; one
that comes from another host brings its counters and its uptime.
"""

from __future__ import annotations

from demo.model import HOST, Counters, Work, memory

_HZ = 1000
_PAGE = 4096
_NO_LIMIT = 2**63 - 1
_COLUMNS = "VEID user nice system uptime idle strv uptime used maxlat totlat numsched"


def files(counters: Counters, seconds: float) -> dict[str, bytes]:
    """What there is below /proc at this Unix time, by path."""
    work = {name: work for name, work in sorted(counters.at(seconds).work.items()) if name != HOST}
    rows = [_row(name, of, seconds - counters.life(name, seconds).began) for name, of in work.items()]
    vestat = "\n".join(["Version: 2.2", _COLUMNS, *rows, ""])
    found = {
        "vz/version": "3.10.0-1160.90.1.vz7.200.7\n",
        "vz/stats": f"Version: 2.6\ncycles_per_jiffy: {10**9 // _HZ}\njiffies_per_second: {_HZ}\n",
        "vz/vestat": vestat,
        "bc/resources": _resources(list(work)),
        **{f"bc/{name}/ioacct": _ioacct(of) for name, of in work.items()},
    }
    return {path: content.encode() for path, content in found.items()}


def _row(name: str, work: Work, up: float) -> str:
    used = int(work.cpu * 1e9)
    user, system = int(work.cpu * 0.7 * _HZ), int(work.cpu * 0.3 * _HZ)
    idle = max(int(up * 1e9) - used, 0)
    waits = int(work.wait * 1e9)
    return f"{name} {user} 0 {system} {int(up * _HZ)} {idle} 0 {int(up * 1e9)} {used} 2000000 {waits} {waits // 10**6}"


def _resources(names: list[str]) -> str:
    lines = ["Version: 2.5", "uid resource held maxheld barrier limit failcnt"]
    for name in names:
        held = memory(name) // _PAGE
        lines.append(f"{name}: physpages {held} {held} 0 {_NO_LIMIT} 0")
        lines.append(f"privvmpages {held} {held} {_NO_LIMIT} {_NO_LIMIT} 0")
    return "\n".join([*lines, ""])


def _ioacct(work: Work) -> str:
    return f"read {int(work.read)}\nwrite {int(work.written)}\ndirty {int(work.written)}\ncancel 0\nmissed 0\n"
