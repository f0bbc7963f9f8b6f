"""demo-openvz's kernel files, for a recording of vestat-exporter.

Containers' ids are names, as the kernel of Virtuozzo 7 allows, so alerts/objectives/rubis.yml, which maps Xen's guests
to applications, also maps them. A restarted container keeps its name, and its counters start from 0.
"""

from demo.model import HOST, Counters, Work, memory
from demo.study import CHOSEN

_HZ = 1000
_PAGE = 4096
_NO_LIMIT = 2**63 - 1
_CALL, _SYNCED = 4096, 16384  # bytes of a read() or write(), and bytes written between two fsync()
_NONE = (  # in ioacct: no sync(), each fsync() returns at once, and there are no FUSE file systems
    *("cancel", "missed", "fuse_requests", "fuse_bytes"),
    *("syncs_total", "fdatasyncs_total", "range_syncs_total"),
    *("syncs_active", "fsyncs_active", "fdatasyncs_active", "range_syncs_active"),
)
_WRITEBACK = 5  # seconds until a change in memory is written to disk
_KERNEL, _FILES = 65536, 12  # per process: kernel memory in bytes, and files
_KERNEL_BARRIER, _KERNEL_LIMIT = 32 << 20, 36 << 20
_MAX_PROCESSES = 240
_TURN, _LONGEST = 10**6, 2 * 10**6  # nanoseconds of each wait of a process: usual, and the recent maximum
_COLUMNS = "VEID user nice system uptime idle strv uptime used maxlat totlat numsched"


def files(counters: Counters, seconds: float) -> dict[str, bytes]:
    """The files below /proc at this Unix time, by path."""
    work = {name: work for name, work in sorted(counters.at(seconds).work.items()) if name != HOST}
    before = counters.at(seconds - _WRITEBACK).work
    rows = [_row(name, of, seconds - counters.life(name, seconds).began) for name, of in work.items()]
    vestat = "\n".join(["Version: 2.2", _COLUMNS, *rows, ""])
    waited = int(counters.machine_at(seconds).wait * 1e9)
    found = {
        "vz/version": "3.10.0-1160.90.1.vz7.200.7\n",
        "vz/stats": f"Version: 2.6\ncycles_per_jiffy: {10**9 // _HZ}\njiffies_per_second: {_HZ}\n",
        "vz/vestat": vestat,
        "vz/veinfo": "".join(f"{name} 0 {_processes(name)} 192.0.2.{10 + at}\n" for at, name in enumerate(work)),
        "vz/latency": _latency(waited),
        "bc/resources": _resources(list(work)),
        **{f"bc/{name}/ioacct": _ioacct(of, before.get(name, of)) for name, of in work.items()},
    }
    return {path: content.encode() for path, content in found.items()}


def _row(name: str, work: Work, up: float) -> str:
    used = int(work.cpu * 1e9)
    user, system = int(work.cpu * 0.7 * _HZ), int(work.cpu * 0.3 * _HZ)
    idle = max(int(up * 1e9) - used, 0)
    waits = int(work.wait * 1e9)
    turns = waits // _TURN
    return f"{name} {user} 0 {system} {int(up * _HZ)} {idle} 0 {int(up * 1e9)} {used} {_LONGEST} {waits} {turns}"


def _processes(name: str) -> int:
    return int(CHOSEN["processes"][name.rpartition("-")[2]])


def _latency(waited: int) -> str:
    """Waits of all processes on the host; memory is allocated at once."""
    rows = [f"scheduling: {_LONGEST} {waited} {waited // _TURN}", "alocatomic: 0 0 0", "aloclow: 0 0 0"]
    return "\n".join(["Version: 2.6", "", "Latencies:", "Type Lat Total_lat Calls", *rows, "", ""])


def _resources(names: list[str]) -> str:
    lines = ["Version: 2.5", "uid resource held maxheld barrier limit failcnt"]
    for name in names:
        held = memory(name) // _PAGE
        lines.append(f"{name}: physpages {held} {held} 0 {_NO_LIMIT} 0")
        lines.append(f"privvmpages {held} {held} {_NO_LIMIT} {_NO_LIMIT} 0")
        processes = _processes(name)
        lines += [
            f"kmemsize {processes * _KERNEL} {processes * _KERNEL} {_KERNEL_BARRIER} {_KERNEL_LIMIT} 0",
            f"numproc {processes} {processes + 2} {_MAX_PROCESSES} {_MAX_PROCESSES} 0",
            f"numfile {processes * _FILES} {processes * _FILES} {_NO_LIMIT} {_NO_LIMIT} 0",
        ]
    return "\n".join([*lines, ""])


def _ioacct(work: Work, before: Work) -> str:
    read, written = int(work.read), int(work.written)
    dirty = max(written - int(before.written), 0) // _PAGE  # negative after a restart of the container
    lines = [
        f"read {read}",
        f"write {written}",
        f"dirty {written + dirty * _PAGE}",
        f"io_pbs {dirty}",
        f"fsyncs_total {written // _SYNCED}",
        f"vfs_reads {read // _CALL}",
        f"vfs_read_chars {read}",
        f"vfs_writes {written // _CALL}",
        f"vfs_write_chars {written}",
    ]
    return "\n".join([*lines, *(f"{name} 0" for name in _NONE), ""])
