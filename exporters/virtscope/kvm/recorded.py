"""kvm-exporter's readings in a recording: encoding with pseudonyms, and decoding.

Source "procfs": guests' files below /proc and in their cgroups, by path; none of other processes.

    {"proc/stat": "cpu  ...", "proc/390/cmdline": "/usr/bin/qemu-system-x86_64\\u0000-name\\u0000...",
     "proc/390/task/394/stat": "...", "sys/fs/cgroup/machine.slice/.../cpu.max": "max 100000"}

Source "libvirt": output of virsh; source "proxmox": the files of guests and containers,
by VMID and "lxc/CTID", and user.cfg.

    {"asked": 1752300000.0, "domstats": "Domain: 'web'\\n ...", "domains": "...", "titles": [["6325b343-...", "web01"]]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from virtscope.kvm import command_line, libvirt, proxmox, taps, threads
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import many, named, pair, real, record, text, word

files = named(text)
libvirt_answer = record(libvirt.Raw, asked=real, domstats=text, domains=text, titles=many(pair(word, text)))


# --- Pseudonyms -------------------------------------------------------------------------------------------------------

# Names of interfaces that reveal nothing.
_PLAIN_INTERFACE = re.compile(
    r"lo|(?:vnet|tap|macvtap|eth|en[opsx]|bond|br|virbr|vmbr|fwbr|fwln|fwpr)[0-9][0-9ipnofs]*"
)
_PLAIN_CGROUP = re.compile(
    r"(?:machine|system|user|qemu|init|virtualmachines)\.(?:slice|scope|partition)|machine|libvirt|emulator|"
    r"(?:vcpu|iothread)[0-9]+|[0-9]+\.scope|user-[0-9]+\.slice"
)
_OF_DOMAIN = re.compile(r"(machine-qemu\\x2d[0-9]+\\x2d|qemu-[0-9]+-)(.+?)(\.scope|\.libvirt-qemu|)")
_PLAIN_THREAD = re.compile(
    r"qemu[\w.-]*|kvm[\w./-]*|call_rcu|IO mon_iothread|vnc_worker|worker|iou-.*|vhost-.*|(?:CPU|ALL) .*|"
    r"firecracker[\w.-]*|fc_.*|cloud-hyperviso[\w.-]*|vcpu[0-9]+|vmm|crosvm\w*"
)
_FILE_OF_CGROUP = re.compile(r"(?:cpu|cgroup|io|memory)\.[\w.]+")
_DOMSTATS_KEY = re.compile(
    r"state\..*|balloon\..*|cpu\.haltpoll\..*|vcpu\.[0-9]+\.exits\.sum|block\.[0-9]+\.(?:name|(?:rd|wr|fl)\..*)"
)


_NUL = b"\0"


class _Names:
    """Pseudonyms for text."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins

    def __call__(self, name: str) -> str:
        stand_in = self._stand_ins(name.encode("utf-8", "surrogateescape"))
        return stand_in.decode("utf-8", "surrogateescape")

    def interface(self, name: str) -> str:
        return name if _PLAIN_INTERFACE.fullmatch(name) else self(name)

    def cgroup(self, path: str) -> str:
        return "/".join(map(self._of_cgroup, path.split("/")))

    def _of_cgroup(self, name: str) -> str:
        if not name or _PLAIN_CGROUP.fullmatch(name):
            return name
        of_domain = _OF_DOMAIN.fullmatch(name)
        return f"{of_domain[1]}{self(of_domain[2])}{of_domain[3]}" if of_domain else self(name)

    def thread(self, comm: str) -> str:
        if _PLAIN_THREAD.fullmatch(comm):
            return comm
        return f"IO {self(comm[3:])}" if comm.startswith("IO ") else self(comm)


def anonymised_files(recorded: Mapping[str, bytes], stand_ins: StandIns) -> Mapping[str, bytes]:
    """Replace names and uuids in the files by pseudonyms; command lines keep only the parsed parts."""
    names = _Names(stand_ins)
    found: dict[str, bytes] = {}
    for path, content in recorded.items():
        shown, text = path, content.decode("utf-8", "surrogateescape")
        folder, _, file = path.rpartition("/")
        if "/root/" in path:  # the command line then includes its parsed parts
            continue
        if path.startswith("sys/dev/"):  # a device's name is the kernel's
            text = "/".join(text.split("/")[-2:])
        elif path.startswith("sys/"):
            shown = _cgroup_path(folder, file, names)
        elif file == "cmdline":
            text = _command_line(content, names, folder, recorded)
        elif file == "stat" and folder != "proc":
            opened, closed = text.find("(") + 1, text.rfind(")")
            text = text[:opened] + names.thread(text[opened:closed]) + text[closed:]
        elif file == "cgroup":
            parts = [line.rpartition(":") for line in text.split("\n")]
            text = "\n".join(head + colon + (names.cgroup(of) if colon else of) for head, colon, of in parts)
        elif file == "dev":
            counted = [f"{names.interface(name)}: {' '.join(map(str, of))}" for name, of in taps.parse(content).items()]
            text = "\n".join([*text.split("\n")[:2], *counted, ""])
        elif "/fdinfo/" in path:
            interface = taps.IFF.search(content)
            text = f"iff:\t{names.interface(interface[1].decode('utf-8', 'replace'))}\n" if interface else ""
        elif file == "status":
            text = "".join(f"{key.decode()}:\t{kib.decode()} kB\n" for key, kib in threads.MEMORY.findall(content))
        elif file == "exe":
            text = "/usr/bin/" + _plain_program(text)
        elif "/fd/" in path and not text.startswith("anon_inode:kvm-v"):
            continue
        found[shown] = text.encode("utf-8", "surrogateescape")
    return found


def _cgroup_path(folder: str, file: str, names: _Names) -> str:
    roots = ("sys/fs/cgroup/unified", "sys/fs/cgroup/cpu", "sys/fs/cgroup")
    root = next(each for each in roots if f"{folder}/".startswith(f"{each}/") or each == roots[-1])
    below = folder[len(root) :]
    return f"{root}{names.cgroup(below)}/{file if _FILE_OF_CGROUP.fullmatch(file) else names(file)}"


def _plain_program(path: str) -> str:
    """Return the name of a virtual machine monitor, or a pseudonym for other programs."""
    name = path.rpartition("/")[2].replace(" (deleted)", "")
    return name if command_line.program(name) else "monitor"


def _program(folder: str, recorded: Mapping[str, bytes]) -> str:
    """Return the program of this folder's process, as far as recorded."""
    exe = recorded.get(f"{folder}/exe", b"") or threads.thread_name(recorded.get(f"{folder}/stat", b""))
    name = exe.decode("utf-8", "replace")
    return name if command_line.program(name) else ""


def _command_line(content: bytes, names: _Names, folder: str, recorded: Mapping[str, bytes]) -> str:
    """Return a command line with only what command_line.parse() reads."""
    program = _program(folder, recorded)
    line = command_line.parse(content, program, runs_kvm=True)
    if line and line.config:
        config = recorded.get(f"{folder}/root{line.config}", b"")
        line = command_line.parse(content, program, runs_kvm=True, config=config)
    if line is None:
        return ""
    words = [f"/usr/bin/{_plain_program(program or content.partition(_NUL)[0].decode('utf-8', 'replace'))}"]
    if line.manager not in {"libvirt", "proxmox", "qemu"}:
        words += ["--id", names(line.name)] if line.name else []
        words += ["--cpus", f"boot={line.vcpus}"] if line.vcpus is not None else []
        words += ["--memory", f"size={line.memory_bytes}b"] if line.memory_bytes is not None else []
        words += [word for tap in line.taps for word in ("--net", f"tap={names.interface(tap)}")]
        return "\0".join([*words, ""])
    monitor = "chardev=charmonitor" + (f",path=/domain-{line.id}-/" if line.id else "")
    options = {
        "-name": line.name and "guest=" + names(line.name).replace(",", ",,"),
        "-uuid": line.uuid and names(line.uuid),
        "-mon": monitor if line.manager == "libvirt" else "",
        "-id": line.id if line.manager != "libvirt" else "",
        "-accel": line.accelerator,
        "-smp": "" if line.vcpus is None else str(line.vcpus),
        "-m": "" if line.memory_bytes is None else f"{line.memory_bytes}b",
    }
    words += [word for option, value in options.items() if value for word in (option, value)]
    for tap in line.taps:
        words += ["-netdev", f"tap,ifname={names.interface(tap)}".replace(",,", ",")]
    for descriptor in line.tap_descriptors:
        words += ["-netdev", f"tap,fd={descriptor}"]
    return "\0".join([*words, ""])


def anonymised_libvirt(raw: Any, stand_ins: StandIns) -> Any:
    """Replace names, uuids and titles in virsh's output by pseudonyms; keeps only parsed values of the rest."""
    names = _Names(stand_ins)
    stats, _ = libvirt.parse_domstats(raw.domstats)
    lines: list[str] = []
    for name, values in stats.items():
        lines.append(f"Domain: '{names(name)}'")
        for key, value in values.items():
            if _DOMSTATS_KEY.fullmatch(key):
                lines.append(f"  {key}={value}")
            elif re.fullmatch(r"net\.[0-9]+\.name", key):
                lines.append(f"  {key}={names.interface(value)}")
    listed = [f"{names(uuid)} {names(name)}" for uuid, name in libvirt.parse_list(raw.domains)]
    return raw._replace(
        domstats="\n".join([*lines, ""]).encode("utf-8", "backslashreplace"),
        domains="\n".join([*listed, ""]).encode("utf-8", "backslashreplace"),
        titles=tuple((names(uuid), stand_ins(title)) for uuid, title in raw.titles),
    )


def anonymised_proxmox(configured: Mapping[str, bytes], stand_ins: StandIns) -> Mapping[str, bytes]:
    """Return the configuration with only pseudonyms of names, titles, tags and pools."""
    names = _Names(stand_ins)

    def anonymised(file: str, content: bytes) -> str:
        if file == proxmox.POOLS:
            return "".join(f"pool:{names(pool)}::{vmid}::\n" for vmid, pool in proxmox.parse_pools(content).items())
        found = proxmox.parse(content)
        title = f"#{names(found.title)}\n" if found.title else ""
        name = f"name: {names(found.name)}\n" if found.name else ""
        tags = f"tags: {';'.join(map(names, found.tags.split(';')))}\n" if found.tags else ""
        return title + name + tags

    return {file: anonymised(file, content).encode("utf-8", "backslashreplace") for file, content in configured.items()}
