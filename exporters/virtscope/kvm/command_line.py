"""Parses command lines of virtual machine monitors: the program, and the guest's configuration.

QEMU's options: `man qemu-system`, the formats of their values docs/qemu-option-wiki and util/qemu-option.c in QEMU's
source: key=value, separated by commas, a comma within a value doubled, the first key of some options implied. Since 6.0
some take JSON instead. Firecracker: docs/jailer.md; Cloud Hypervisor and crosvm: `--help`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from virtscope.kvm.model import clean

# Programs by name, or its first 15 characters, which the kernel keeps. User-mode emulators (qemu-x86_64) and tools
# (qemu-img, qemu-storage-daemon) run no guest. "qemu:NAME" is libvirt's set_process_name.
_PROGRAMS = {
    "qemu": re.compile(r"\.?qemu-system-[\w.-]+|qemu-kvm|kvm|qemu|qemu:.*", re.ASCII),
    "firecracker": re.compile(r"firecracker[\w.-]*", re.ASCII),
    "cloud-hypervisor": re.compile(r"cloud-hyperviso[\w.-]*", re.ASCII),
    "crosvm": re.compile(r"crosvm"),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options of every guest; no other program has several of them.
_TYPICAL = _words(
    "accel blockdev boot cdrom chardev cpu daemonize device display drive enable-kvm global hda id incoming kernel "
    "m M machine mon monitor msg name netdev nic no-shutdown no-user-config nodefaults nographic object overcommit "
    "pidfile qmp readconfig rtc S sandbox serial smbios smp uuid vga vnc"
)
_MIN_TYPICAL = 3  # of a program of another name
# Options of QEMU 0.9 to 10 and of qemu-kvm without a value.
_WITHOUT_VALUE = _words(
    "alt-grab async-teardown audio-help cirrusvga ctrl-grab curses daemonize enable-fips enable-hax enable-kvm "
    "enable-nesting enable-sync-profile full-screen h help jitdump kernel-kqemu localtime mem-prealloc no-acpi "
    "no-fd-bootchk no-frame no-hpet no-kqemu no-kvm no-kvm-irqchip no-kvm-pit no-kvm-pit-reinjection no-quit "
    "no-reboot no-shutdown no-user-config nodefaults nodefconfig nographic old-param only-migratable perfmap "
    "portrait preconfig rtc-td-hack S s sdl semihosting show-cursor singlestep snapshot std-vga tdf usb version "
    "vmwarevga win2k-hack xen-attach xen-create xen-domid-restrict"
)
# Options with a value, which may begin with "-".
_WITH_VALUE = _words(
    "accel acpitable action add-fd append audio audiodev balloon bios blockdev boot bt cdrom chardev chroot clock "
    "compat cpu D d debugcon device dfilter display drive dtb dump-vmstate echr fda fdb fsdev fw_cfg g "
    "gdb global hda hdachs hdb hdc hdd icount id incoming initrd iscsi k kernel kvm-shadow-memory L loadvm M m "
    "machine mem-path mon monitor msg mtdblock name net netdev nic numa nvram object option-rom overcommit "
    "parallel pcidevice pflash pidfile plugin prom-env qmp qmp-pretty qtest qtest-log readconfig realtime redir "
    "rotate rtc run-with runas sandbox sd seed semihosting-config serial set shim smb smbios smp soundhw spice "
    "startdate tb-size tftp tpmdev trace usbdevice uuid vga virtfs virtioconsole vnc watchdog watchdog-action "
    "writeconfig xen-domid xen-mode"
)
_SECTION = re.compile(r"\s*\[\s*([\w-]*)")
_CONFIGURED = re.compile(r"\s*([\w.-]+)\s*=\s*\"([^\"]*)\"")
_OF_SECTIONS = {"memory": "m", "smp-opts": "smp"}
_NO_GUEST = frozenset(["version", "help", "h"])
_UNITS = {"b": 1, "": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18})([bkmgtBKMGT]?)(?:i?[bB])?")
_DOMAIN_FILES = re.compile(r"/domain-([0-9]{1,9})-")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DESCRIPTOR = re.compile(r"[0-9]{1,8}")
_ACCELERATORS = frozenset(["kvm", "mshv", "nitro", "qtest", "tcg", "xen"])
# No guest has more: KVM's maximum of vCPUs, x86's address space, and network interfaces.
_MAX_VCPUS = 4096
_MAX_MEMORY = 1 << 52
_MAX_TAPS = 256


class CommandLine(NamedTuple):
    """A guest's configuration by its command line; "" and None: not given."""

    name: str
    uuid: str
    id: str  # Proxmox's VMID, libvirt's number of the domain
    manager: str  # "libvirt", "proxmox", otherwise the program: "qemu", "firecracker"...; "": another one
    accelerator: str  # if certain: "kvm", "tcg"...
    vcpus: int | None
    memory_bytes: int | None
    taps: tuple[str, ...]  # interfaces by name
    tap_descriptors: tuple[int, ...]  # whether QEMU got interfaces as open files
    hugetlb: bool  # memory may be in huge pages, which aren't in the resident size
    config: str = ""  # absolute path of a file with more options (-readconfig, used by Incus)


UNREAD = CommandLine("", "", "", "", "", None, None, (), (), hugetlb=False)


def program(path: str) -> str:
    """Return the virtual machine monitor of this path or name; "" if unknown."""
    name = path.rpartition("/")[2].replace(" (deleted)", "")
    return next((known for known, names in _PROGRAMS.items() if names.fullmatch(name)), "")


def parse(content: bytes, exe: str = "", *, runs_kvm: bool = False, config: bytes = b"") -> CommandLine | None:
    """Parse /proc/PID/cmdline; None if the process is no guest.

    `exe` is the program's path or name by the kernel; without it the command line's counts. `runs_kvm`: it is a guest,
    whatever its name. `config` is the content of its file `config`. QEMU with -machine none is no guest: libvirt probes
    its capabilities.
    """
    words = content.decode("utf-8", "backslashreplace").split("\0")
    arguments = words[1:]
    monitor = program(exe or words[0])
    typical = {word.lstrip("-") for word in arguments if word.startswith("-")} & _TYPICAL
    # "kvm" and "qemu" may be anything, so they need a guest's options; qemu-system-x86_64 doesn't.
    if monitor == "qemu" and not typical and "qemu-system" not in exe + words[0]:
        return None
    if not monitor and not runs_kvm:
        return None
    if monitor == "qemu" or (not monitor and len(typical) >= _MIN_TYPICAL):
        return _qemu([*_configured(config), *_options(arguments)])
    return _another(monitor, arguments)


def _qemu(options: Sequence[tuple[str, str]]) -> CommandLine | None:
    last = dict(options)  # QEMU takes the last of several values

    def every(*names: str) -> list[str]:
        return [value for option, value in options if option in names]

    machines = [pairs(value, "type") for value in every("machine", "M")]
    if _NO_GUEST & last.keys() or any(machine.get("type") in {"none", "help", "?"} for machine in machines):
        return None
    vmid = last.get("id", "")  # an option of Proxmox's QEMU only
    if vmid.isascii() and vmid.isdigit() and len(vmid) < 10:
        manager = "proxmox"
    else:
        # libvirt gives every guest its secrets' master key, and this name to its monitor.
        of_libvirt = any("masterKey0" in value or "charmonitor" in value for value in every("object", "mon"))
        manager = "libvirt" if of_libvirt else "qemu"
    netdevs = [pairs(value, "type") for value in every("netdev", "nic", "net")]
    taps = [netdev for netdev in netdevs if netdev.get("type") == "tap"][:_MAX_TAPS]
    descriptors = [number for tap in taps for number in f"{tap.get('fd', '')}:{tap.get('fds', '')}".split(":")]
    uuids = [last.get("uuid", ""), *[pairs(value, "type").get("uuid", "") for value in every("smbios")]]
    domain_id = next((found[1] for _, value in options if (found := _DOMAIN_FILES.search(value))), "")
    accelerators = [pairs(value, "accel").get("accel", "") for value in every("accel")]
    accelerators += [each for machine in machines for each in machine.get("accel", "").split(":")]
    accelerators += ["kvm"] if "enable-kvm" in last else []
    known = _ACCELERATORS.intersection(accelerators)  # of several, QEMU takes the first that works
    return CommandLine(
        name=clean(pairs(last.get("name", ""), "guest").get("guest", "")),
        uuid=next((uuid.lower() for uuid in uuids if _UUID.fullmatch(uuid)), ""),
        id={"proxmox": vmid, "libvirt": domain_id}.get(manager, ""),
        manager=manager,
        accelerator="".join(known) if len(known) == 1 else "",
        vcpus=_vcpus(last.get("smp", "")),
        memory_bytes=_memory(pairs(last.get("m", ""), "size").get("size", "")),
        taps=tuple(clean(tap["ifname"]) for tap in taps if tap.get("ifname")),
        tap_descriptors=tuple(int(number) for number in descriptors[:_MAX_TAPS] if _DESCRIPTOR.fullmatch(number)),
        hugetlb=any("hugepages" in value or "hugetlb" in value for _, value in options),
        config=path if (path := last.get("readconfig", "")).startswith("/") else "",
    )


def _another(monitor: str, arguments: Sequence[str]) -> CommandLine:
    """Parse another monitor's command line; Firecracker's vCPUs and memory are set by its API only."""
    given: dict[str, str] = {}
    taps: list[str] = []
    for word, following in zip(arguments, [*arguments[1:], ""]):
        if word[:1] == "-":
            option, equals, value = word.lstrip("-").partition("=")
            value = value if equals else following
            given[option] = value
            network = pairs(value, "tap") if option == "net" else {}
            taps += [name for key in ("tap", "tap-name") if (name := network.get(key))]
    socket = next((given[key] for key in ("api-sock", "api-socket", "socket", "s") if key in given), "")
    cpus = pairs(given.get("cpus", given.get("c", "")), "cpus")
    memory = pairs(given.get("memory", given.get("mem", given.get("m", ""))), "size").get("size", "")
    if monitor == "cloud-hypervisor" and memory.isdigit():
        memory += "b"
    return CommandLine(
        name=clean(given.get("id", "") or given.get("name", "") or _socket_name(pairs(socket, "path").get("path", ""))),
        uuid="",
        id="",
        manager=monitor,
        accelerator="kvm",
        vcpus=next((_count(cpus[key]) for key in ("boot", "num-cores", "cpus") if key in cpus), None),
        memory_bytes=_memory(memory),
        taps=tuple(map(clean, taps[:_MAX_TAPS])),
        tap_descriptors=(),
        hugetlb=False,
    )


def _socket_name(path: str) -> str:
    """Return a guest's name from its API socket: the file's name, or the folder's if all files have the same name."""
    folder, _, last = path.rpartition("/")
    stem = re.sub(r"\.(?:sock|socket)$", "", last)
    generic = re.fullmatch(
        r"(?:clh-)?(?:api|vmm?|control|firecracker|cloud-hypervisor|crosvm|ch)(?:[-_.]sock(?:et)?)?", stem
    )
    return folder.rpartition("/")[2] or stem if generic else stem


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option and its value; skips other words, such as a disk's image."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        place += 1
        if word[:1] != "-" or word == "-":
            continue
        option = word[2:] if word[:2] == "--" else word[1:]
        value = arguments[place] if place < len(arguments) else ""
        # For unknown options, a word like an option is not a value.
        if option in _WITHOUT_VALUE or (option not in _WITH_VALUE and value[:1] == "-" and value != "-"):
            yield option, ""
        else:
            place += 1
            yield option, value


def _configured(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the options of a file for -readconfig: sections such as [memory] with lines such as size = "1024M"."""
    option, values = "", ""
    for line in [*content.decode("utf-8", "backslashreplace").split("\n"), "[]"]:
        section, given = _SECTION.match(line), _CONFIGURED.match(line)
        if section:
            if option:
                yield _OF_SECTIONS.get(option, option), values
            option, values = section[1], ""
        elif given:
            values += ("," if values else "") + f"{given[1]}={given[2].replace(',', ',,')}"


def pairs(value: str, implied: str) -> Mapping[str, str]:
    """Return the keys and values of an option; a first value without a key has the `implied` one."""
    if value.startswith("{"):
        try:
            parsed = json.loads(value)
            if not isinstance(parsed, dict):
                return {}
            return {key: str(item).lower() if isinstance(item, bool) else str(item) for key, item in parsed.items()}
        except (ValueError, RecursionError):
            return {}
    found: dict[str, str] = {}
    # A doubled comma is a literal one; words contain no NUL.
    for number, part in enumerate(value.replace(",,", "\0").split(",")):
        key, equals, rest = part.replace("\0", ",").partition("=")
        if equals:
            found[key] = rest
        elif number == 0:
            found[implied] = key
        else:
            found[key] = "on"
    return found


def _memory(text: str) -> int | None:
    """Return the bytes of a size such as "16" (MiB) or "16384k"; None if invalid."""
    found = _SIZE.fullmatch(text)
    size = int(found[1]) * _UNITS[found[2].lower()] if found else None
    return size if size is not None and size <= _MAX_MEMORY else None


def _vcpus(value: str) -> int | None:
    given = pairs(value, "cpus")
    if "cpus" in given:
        return _count(given["cpus"])
    # Without a number of CPUs, the product of the topology.
    parts = [_count(given[part]) or 0 for part in ("sockets", "dies", "clusters", "cores", "threads") if part in given]
    product = prod(parts)
    return product if parts and 0 < product <= _MAX_VCPUS else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) <= _MAX_VCPUS else None
