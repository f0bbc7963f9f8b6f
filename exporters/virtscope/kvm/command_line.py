"""QEMU's command line: whether a process is a guest, and what it says of it.

Options: `man qemu-system`, the formats of their values docs/qemu-option-wiki and util/qemu-option.c in QEMU's source:
key=value, separated by commas, a comma within a value doubled, the first key of some options implied. Since 6.0 some
take JSON instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

# Debian's and Fedora's, RHEL's, Proxmox's. A user-mode emulator (qemu-x86_64) and tools (qemu-img) are none of them.
_PROGRAM = re.compile(r"(?:qemu-system-[\w.-]+|qemu-kvm|kvm|qemu)(?: \(deleted\))?", re.ASCII)
# Options that a guest has, whoever starts it, and that together no other program has.
_TYPICAL = frozenset(
    re.findall(
        r"\S+",
        "accel blockdev boot cdrom chardev cpu daemonize device display drive enable-kvm global hda id incoming kernel "
        "m M machine mon monitor msg name netdev nic no-shutdown no-user-config nodefaults nographic object overcommit "
        "pidfile qmp rtc S sandbox serial smbios smp uuid vga vnc",
    )
)
_LEAST_TYPICAL = 3  # of a program of another name
# Of these the value is not the next word.
_WITHOUT_VALUE = frozenset(
    re.findall(
        r"\S+",
        "daemonize enable-kvm full-screen h help mem-prealloc no-acpi no-fd-bootchk no-hpet no-quit no-reboot "
        "no-shutdown no-user-config nodefaults nographic only-migratable preconfig S s semihosting singlestep snapshot "
        "usb version win2k-hack xen-attach xen-domid-restrict",
    )
)
_NO_GUEST = frozenset(["version", "help", "h"])
_UNITS = {"b": 1, "": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18})([bkmgtBKMGT]?)(?:i?[bB])?")
_DOMAIN_FILES = re.compile(r"/domain-([0-9]{1,9})-")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class CommandLine(NamedTuple):
    """What the command line of a guest says; "" and None: nothing."""

    name: str
    uuid: str
    id: str  # Proxmox's VMID, libvirt's number of the domain
    manager: str  # "libvirt", "proxmox" or "qemu"
    accelerator: str  # where it is certain: "kvm", "tcg"...
    vcpus: int | None
    memory_bytes: int | None
    taps: tuple[str, ...]  # interfaces by name
    tap_descriptors: tuple[int, ...]  # and those that QEMU was given as open files
    hugetlb: bool  # its memory may be in huge pages, which the process's resident size lacks


def parse(content: bytes, exe: str = "") -> CommandLine | None:
    """Return what /proc/PID/cmdline says; None where the process is no guest. `exe` is its program's path, if known.

    Libvirt also runs QEMU without a guest, to ask what it can (-machine none).
    """
    words = content.decode("utf-8", "backslashreplace").split("\0")
    program, arguments = words[0], words[1:]
    if not _is_qemu(program, arguments, exe):
        return None
    options = list(_options(arguments))
    by_name: dict[str, list[str]] = {}
    for option, value in options:
        by_name.setdefault(option, []).append(value)
    machines = [pairs(value, "type") for option in ("machine", "M") for value in by_name.get(option, [])]
    if _NO_GUEST & by_name.keys() or any(machine.get("type") in {"none", "help", "?"} for machine in machines):
        return None
    name = pairs(_last(by_name, "name"), "guest").get("guest", "")
    vmid = _last(by_name, "id")  # an option that Proxmox has added
    manager = _manager(by_name, vmid)
    netdevs = [pairs(value, "type") for option in ("netdev", "nic", "net") for value in by_name.get(option, [])]
    taps = [netdev for netdev in netdevs if netdev.get("type") == "tap"]
    return CommandLine(
        name=name,
        uuid=_uuid(by_name),
        id=vmid if manager == "proxmox" else _domain_id(options) if manager == "libvirt" else "",
        manager=manager,
        accelerator=_accelerator(by_name, machines),
        vcpus=_vcpus(_last(by_name, "smp")),
        memory_bytes=size(pairs(_last(by_name, "m"), "size").get("size", "")),
        taps=tuple(tap["ifname"] for tap in taps if tap.get("ifname")),
        tap_descriptors=tuple(
            int(number)
            for tap in taps
            for number in f"{tap.get('fd', '')}:{tap.get('fds', '')}".split(":")
            if number.isascii() and number.isdigit() and len(number) < 9
        ),
        hugetlb=any("hugepages" in value or "hugetlb" in value for _, value in options),
    )


def _is_qemu(program: str, arguments: Sequence[str], exe: str) -> bool:
    given = {word.lstrip("-") for word in arguments if word.startswith("-")}
    typical = given & _TYPICAL
    if any(_PROGRAM.fullmatch(path.rpartition("/")[2]) for path in (exe, program)):
        # "kvm" and "qemu" may be anything; what is called qemu-system-x86_64 needs no options.
        return bool(typical) or "qemu-system" in exe + program
    # Another name, as a build of one's own may have. But no program that runs one (sudo, timeout, ip netns).
    first = arguments[0] if arguments else ""
    runs_another = any(_PROGRAM.fullmatch(word.rpartition("/")[2]) for word in arguments if word[:1] == "/")
    return (
        first.startswith("-") and first.lstrip("-") in _TYPICAL and not runs_another and len(typical) >= _LEAST_TYPICAL
    )


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option and its value; words that belong to none, as a disk's image may stand, are passed over."""
    words = iter(arguments)
    for word in words:
        if word[:1] != "-" or word == "-":
            continue
        option = word[2:] if word[:2] == "--" else word[1:]
        yield option, "" if option in _WITHOUT_VALUE else next(words, "")


def pairs(value: str, implied: str) -> Mapping[str, str]:
    """Return the keys and values of an option; what stands first without a key has the `implied` one."""
    if value.startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(parsed, dict):
            return {}
        return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in parsed.items()}
    found: dict[str, str] = {}
    # A doubled comma stands for one; NUL is in no command line's word.
    for number, part in enumerate(value.replace(",,", "\0").split(",")):
        key, equals, rest = part.replace("\0", ",").partition("=")
        if equals:
            found[key] = rest
        elif number == 0:
            found[implied] = key
        else:
            found[key] = "on"
    return found


def size(text: str) -> int | None:
    """Return the bytes of a size such as "16", which is of MiB, or "16384k"; None where it is none."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def _last(by_name: Mapping[str, Sequence[str]], option: str) -> str:
    """Return the value of an option given last, as QEMU takes it."""
    return by_name[option][-1] if option in by_name else ""


def _uuid(by_name: Mapping[str, Sequence[str]]) -> str:
    given = [_last(by_name, "uuid"), *[pairs(value, "type").get("uuid", "") for value in by_name.get("smbios", [])]]
    return next((uuid.lower() for uuid in given if _UUID.fullmatch(uuid)), "")


def _manager(by_name: Mapping[str, Sequence[str]], vmid: str) -> str:
    if vmid.isascii() and vmid.isdigit():
        return "proxmox"
    # Libvirt gives the master key of its secrets to every guest; and its monitor has this name.
    given = (*by_name.get("object", ()), *by_name.get("mon", ()))
    return "libvirt" if any("masterKey0" in value or "charmonitor" in value for value in given) else "qemu"


def _domain_id(options: Iterable[tuple[str, str]]) -> str:
    """Return libvirt's number of the domain, which is in the path of the files that it makes for it."""
    return next((found[1] for _, value in options if (found := _DOMAIN_FILES.search(value))), "")


def _accelerator(by_name: Mapping[str, Sequence[str]], machines: Sequence[Mapping[str, str]]) -> str:
    """Return the accelerator where only one is named; of several QEMU takes the first that works."""
    named = [pairs(value, "accel").get("accel", "") for value in by_name.get("accel", [])]
    named += [each for machine in machines for each in machine.get("accel", "").split(":")]
    if "enable-kvm" in by_name:
        named.append("kvm")
    found = {name for name in named if name}
    return found.pop() if len(found) == 1 else ""


def _vcpus(value: str) -> int | None:
    given = pairs(value, "cpus")
    if "cpus" in given:
        return _count(given["cpus"])
    # Without a number of CPUs, those of its topology.
    parts = [_count(given[part]) for part in ("sockets", "dies", "clusters", "cores", "threads") if part in given]
    product = 1
    for part in parts:
        product *= part or 0
    return product or None if parts else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 else None
