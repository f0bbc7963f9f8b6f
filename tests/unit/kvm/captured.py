"""Captured KVM hosts from tests/fixtures/kvm: concatenated files of /proc and cgroups.

Debian 12 with KVM by kvm_amd, and a host without systemd and with cgroups of version 1. Missing files are made up here:
/proc/stat, and the second host's command lines.
"""

import re
from pathlib import Path

from virtscope.kvm.host_files import RecordedFiles

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/kvm"
DEBIAN_12 = "debian12-linux6.1-libvirt9.0-qemu7.2"
VERSION_1 = "libvirt9-cgroup1"
HOSTS = (DEBIAN_12, VERSION_1)

BOOTED = 1_600_000_000  # Unix time
# user 300 s, of which guests 200; nice 10, of which 5; system 100; idle, iowait; irq, softirq 1 each; steal 7.
STAT = (
    "cpu  30000 1000 10000 50000 900 100 100 700 20000 500\n"
    "cpu0 15000 500 5000 25000 450 50 50 350 10000 250\ncpu1 15000 500 5000 25000 450 50 50 350 10000 250\n"
    f"intr 5 0 0\nctxt 1\nbtime {BOOTED}\nprocesses 700\n"
).encode()

_PART = re.compile(rb"(?m)^--- (.+)\n")


def parts(content: bytes) -> dict[str, bytes]:
    pieces = _PART.split(content)
    return {path.decode().lstrip("/"): text for path, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def files(host: str) -> dict[str, bytes]:
    folder = FIXTURES / host
    found = {"proc/stat": STAT}
    if host == VERSION_1:
        found |= parts((folder / "proc.txt").read_bytes())
        found |= {f"sys/fs/cgroup/{path}": text for path, text in parts((folder / "cgroup.txt").read_bytes()).items()}
        for pid, name in (("712", "capped"), ("31603", "db_1.prod"), ("30856", "instance-0000002a")):
            found[f"proc/{pid}/cmdline"] = command_line("-name", f"guest={name}", "-mon", "chardev=charmonitor")
            found[f"proc/{pid}/stat"] = _process_stat(found, pid)
        return found
    for file in folder.glob("proc-*-t0.txt"):
        captured = parts(file.read_bytes())
        pid = min(path for path in captured if path.endswith("/status")).split("/")[1]
        found |= captured
        found[f"proc/{pid}/cmdline"] = (folder / f"cmdline-{file.name[5:-7]}.bin").read_bytes()
    groups = parts((folder / "cgroup-v2-t0.txt").read_bytes())
    found |= {f"sys/fs/cgroup/{path}": text for path, text in groups.items()}
    found["sys/fs/cgroup/cgroup.controllers"] = b"cpuset cpu io memory pids\n"
    found["proc/1/net/dev"] = (folder / "net-dev-t1.txt").read_bytes()
    return found


def _process_stat(found: dict[str, bytes], pid: str) -> bytes:
    """The stat of a process whose threads' stats were captured: its times are their sums."""
    threads = [text for path, text in found.items() if path.startswith(f"proc/{pid}/task/") and path.endswith("/stat")]
    times = [[int(field) for field in text.rpartition(b")")[2].split()[11:13]] for text in threads]
    before, _, after = found[f"proc/{pid}/task/{pid}/stat"].rpartition(b")")
    fields = after.split()
    fields[11:13] = [b"%d" % sum(both) for both in zip(*times, strict=True)]
    return before + b") " + b" ".join(fields) + b"\n"


def recorded(content: dict[str, bytes]) -> RecordedFiles:
    """These files as the exporter reads those of a recording."""
    made = RecordedFiles()
    made.show(content)
    return made


def command_line(*words: str, program: str = "/usr/bin/qemu-system-x86_64") -> bytes:
    return "\0".join([program, *words, ""]).encode()
