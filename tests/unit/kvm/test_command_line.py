"""Guests recognised by their command line, and the values read from it."""

from tests.unit.kvm.captured import command_line
from virtscope.kvm.command_line import CommandLine, parse

MIB = 1 << 20


def parsed(*words: str, program: str = "/usr/bin/qemu-system-x86_64", exe: str = "") -> CommandLine:
    found = parse(command_line(*words, program=program), exe)
    assert found
    return found


def test_proxmox_s() -> None:
    line = parsed(
        *("-id", "100", "-name", "web,debug-threads=on", "-no-shutdown", "-daemonize"),
        *("-smbios", "type=1,uuid=6325B343-01a5-47ab-b796-afc750348cfe", "-smp", "4,sockets=1,cores=4,maxcpus=4"),
        *("-netdev", "type=tap,id=net0,ifname=tap100i0,script=/usr/libexec/qemu-server/pve-bridge,vhost=on"),
        *("-m", "size=2048,slots=255,maxmem=4194304M", "-machine", "hpet=off,type=pc+pve0"),
        program="/usr/bin/kvm",
    )
    # Thread names show the accelerator.
    assert line == CommandLine(
        *("web", "6325b343-01a5-47ab-b796-afc750348cfe", "100", "proxmox", "", 4, 2048 * MIB, ("tap100i0",), ()),
        hugetlb=False,
    )


def test_names() -> None:
    for value, name in (
        ("web", "web"),
        ("guest=web,debug-threads=on", "web"),
        ("web shop,process=web", "web shop"),
        ('guest=Grün, 30 "%"'.replace(",", ",,"), 'Grün, 30 "%"'),
        ("debug-threads=on,guest=a=b", "a=b"),
        ("", ""),
    ):
        assert parsed("-name", value).name == name, value
        assert parsed("-name", "first", "--name", value).name == name, "the last of two counts as for QEMU"


def test_what_is_none() -> None:
    for program, words in (
        ("/usr/bin/qemu-system-x86_64", ("-version",)),
        # libvirt's capability probes.
        ("/usr/bin/qemu-system-x86_64", ("-S", "-nodefaults", "-machine", "none,accel=kvm:tcg", "-daemonize")),
        ("/usr/bin/qemu-system-x86_64", ("-M", "help")),
        ("/usr/bin/qemu-img", ("convert", "-m", "16", "a", "b")),
        ("sudo", ("-E", "/usr/bin/qemu-system-x86_64", "-name", "a", "-m", "16", "-smp", "2")),
        ("bash", ("-c", "qemu-system-x86_64 -name a -m 16 -smp 2")),
        ("kvm", ()),
        ("", ()),
    ):
        assert parse(command_line(*words, program=program)) is None, program


def test_the_accelerator_where_it_is_certain() -> None:
    certain = {"-accel kvm": "kvm", "-enable-kvm": "kvm", "-machine q35,accel=tcg": "tcg", "-accel tcg,thread=a": "tcg"}
    whichever_works = dict.fromkeys(("-machine q35,accel=kvm:tcg", "-accel kvm -accel tcg", ""), "")
    for words, accelerator in (certain | whichever_works).items():
        assert parsed(*words.split()).accelerator == accelerator, words


def test_vcpus_and_memory() -> None:
    smp = {"2": 2, "cpus=3,maxcpus=8": 3, "sockets=2,cores=4,threads=1": 8, "maxcpus=4": None, "x": None}
    assert {value: parsed("-smp", value).vcpus for value in smp} == smp
    sizes = {"16": 16 * MIB, "16384k": 16 * MIB, "2G": 2048 * MIB, "1T": 1 << 40, "-1": None}
    assert {value: parsed("-m", value).memory_bytes for value in sizes} == sizes


def test_taps_by_name_and_as_open_files() -> None:
    line = parsed(
        *("-netdev", '{"type":"tap","fds":"40:41","vhost":true,"id":"hostnet0"}'),
        *("-netdev", "tap,id=n1,ifname=vnet7", "-netdev", "user,id=n2", "-netdev", "{not JSON"),
        *("-nic", "tap,ifname=vnet8"),
    )
    assert (line.taps, line.tap_descriptors) == (("vnet7", "vnet8"), (40, 41))


def test_an_option_without_a_value_takes_no_other_s_place() -> None:
    words = [("-name", "xp"), ("-m", "512"), ("-smp", "2")]
    for option in (
        *("localtime", "sdl", "curses", "no-frame", "show-cursor", "alt-grab", "ctrl-grab", "tdf", "enable-fips"),
        *("nodefconfig", "no-kvm-irqchip", "portrait", "enable-sync-profile", "xen-create", "option-of-qemu-15"),
    ):
        for first in range(3):
            rest = [word for place in range(3) for word in words[(first + place) % 3]]
            for line in (parsed(f"-{option}", *rest), parsed(*rest, f"--{option}")):
                assert (line.name, line.memory_bytes, line.vcpus) == ("xp", 512 * MIB, 2), (option, first)


def test_a_value_may_look_like_an_option() -> None:
    line = parsed("-name", "-web", "-serial", "-m", "-append", "-smp", "-m", "16")
    assert (line.name, line.memory_bytes, line.vcpus) == ("-web", 16 * MIB, None)


def test_what_a_command_line_says_is_bounded() -> None:
    """Any user may start a process with any command line."""
    line = parsed(
        *("-name", "n" * 5000, "-accel", "A" * 6000, "-m", "99999t", "-smp", "99999", "-id", "1" * 5000),
        *[word for number in range(9000) for word in ("-netdev", f"tap,ifname=t{number},fd=7")],
    )
    assert line == CommandLine(
        *("n" * 200, "", "", "qemu", "", None, None, tuple(f"t{number}" for number in range(256)), (7,) * 128),
        hugetlb=False,
    )
    assert parsed("-smp", "sockets=99999,cores=99999,threads=99999").vcpus is None
    assert parsed("-smp", "4096").vcpus == 4096


def test_names_can_be_shown() -> None:
    names = {'{"guest": "\\ud800"}': "\\ud800", "a\nb\x1b[31m": "a\\nb\\x1b[31m", "\u202eevil": "\\u202eevil"}
    names |= {"Gr\xfcn \u6771\u4eac": "Gr\xfcn \u6771\u4eac", '{"guest": ' + "9" * 5000 + "}": ""}
    assert {name: parsed("-name", name).name for name in names} == names


def test_what_other_monitors_are_started_with() -> None:
    words = ("--cpus", "boot=2,max=4", "--memory", "size=1G,shared=on", "--net", "tap=vm7,mac=52:54:00:00:00:01")
    line = parse(command_line(*words), "/usr/bin/cloud-hypervisor")
    assert line
    assert (line.vcpus, line.memory_bytes, line.taps) == (2, 1024 * MIB, ("vm7",))
    others = ("run", "-c", "3", "--mem", "size=512", "--net", "tap-name=vm8", "-s", "/a/b.sock")
    line = parse(command_line(*others), "crosvm")
    assert line
    assert (line.name, line.vcpus, line.memory_bytes, line.taps) == ("b", 3, 512 * MIB, ("vm8",))
