"""What is a guest, by its command line, and what that says of it."""

from __future__ import annotations

import pytest

from tests.unit.kvm.captured import DEBIAN_12, FIXTURES, command_line
from virtscope.kvm.command_line import CommandLine, pairs, parse, size

MIB = 1 << 20


def parsed(*words: str, program: str = "/usr/bin/qemu-system-x86_64", exe: str = "") -> CommandLine:
    found = parse(command_line(*words, program=program), exe)
    assert found
    return found


def test_libvirt_s() -> None:
    assert parse((FIXTURES / DEBIAN_12 / "cmdline-db_1.prod.bin").read_bytes()) == CommandLine(
        name="db_1.prod",
        uuid="40697e82-503c-4ff6-97de-4ba6261da4c9",
        id="2",
        manager="libvirt",
        accelerator="kvm",
        vcpus=2,
        memory_bytes=16 * MIB,
        taps=(),
        tap_descriptors=(36,),
        hugetlb=False,
    )


def test_proxmox_s() -> None:
    line = parsed(
        *("-id", "100", "-name", "web,debug-threads=on", "-no-shutdown", "-daemonize"),
        *("-smbios", "type=1,uuid=6325B343-01a5-47ab-b796-afc750348cfe", "-smp", "4,sockets=1,cores=4,maxcpus=4"),
        *("-netdev", "type=tap,id=net0,ifname=tap100i0,script=/usr/libexec/qemu-server/pve-bridge,vhost=on"),
        *("-m", "size=2048,slots=255,maxmem=4194304M", "-machine", "hpet=off,type=pc+pve0"),
        program="/usr/bin/kvm",
    )
    assert line == CommandLine(
        name="web",
        uuid="6325b343-01a5-47ab-b796-afc750348cfe",
        id="100",
        manager="proxmox",
        accelerator="",  # not named: the threads tell
        vcpus=4,
        memory_bytes=2048 * MIB,
        taps=("tap100i0",),
        tap_descriptors=(),
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


def test_what_is_a_guest() -> None:
    """By its program, too, whatever it calls itself, and whose file is gone after an upgrade of QEMU."""
    for program, words, exe in (
        ("/usr/bin/qemu-system-aarch64", (), ""),
        ("/usr/libexec/qemu-kvm", ("-name", "guest=rhel"), ""),
        ("kvm", ("-m", "16"), ""),
        ("web", ("-name", "a"), "/usr/bin/qemu-system-x86_64 (deleted)"),
    ):
        assert parse(command_line(*words, program=program), exe), program
    assert parse(command_line("-name", "a", program="web"), "/usr/bin/web") is None


def test_what_is_none() -> None:
    for program, words in (
        ("/usr/bin/qemu-system-x86_64", ("-version",)),
        # Libvirt asks what it can.
        ("/usr/bin/qemu-system-x86_64", ("-S", "-nodefaults", "-machine", "none,accel=kvm:tcg", "-daemonize")),
        ("/usr/bin/qemu-system-x86_64", ("-M", "help")),
        ("/usr/bin/qemu-img", ("convert", "-m", "16", "a", "b")),
        ("/usr/bin/qemu-x86_64", ("-cpu", "max", "/bin/ls")),
        ("qemu-ga", ("-m", "virtio-serial")),
        ("kvm", ()),
        ("sudo", ("-E", "/usr/bin/qemu-system-x86_64", "-name", "a", "-m", "16", "-smp", "2")),
        ("timeout", ("10", "qemu-system-x86_64", "-name", "a", "-m", "16", "-smp", "2")),
        ("ip", ("netns", "exec", "a", "nice", "qemu-system-x86_64", "-name", "a", "-m", "16", "-smp", "2")),
        ("vim", ("qemu-system-x86_64.txt",)),
        ("bash", ("-c", "qemu-system-x86_64 -name a -m 16 -smp 2")),
        ("", ()),
    ):
        assert parse(command_line(*words, program=program)) is None, program


def test_the_accelerator_where_it_is_certain() -> None:
    for words, accelerator in (
        (("-accel", "kvm"), "kvm"),
        (("-enable-kvm",), "kvm"),
        (("-machine", "q35,accel=tcg"), "tcg"),
        (("-accel", "tcg,thread=single"), "tcg"),
        (("-machine", "q35,accel=kvm:tcg"), ""),  # whichever works
        (("-accel", "kvm", "-accel", "tcg"), ""),
        ((), ""),
    ):
        assert parsed(*words).accelerator == accelerator, words


def test_vcpus() -> None:
    for smp, vcpus in (
        ("2", 2),
        ("cpus=3,maxcpus=8", 3),
        ("sockets=2,cores=4,threads=1", 8),
        ("maxcpus=4", None),
        ("x", None),
    ):
        assert parsed("-smp", smp).vcpus == vcpus, smp


def test_sizes() -> None:
    for text, expected in (("16", 16 * MIB), ("16384k", 16 * MIB), ("2G", 2048 * MIB), ("1T", 1 << 40), ("-1", None)):
        assert size(text) == expected, text


def test_taps_by_name_and_as_open_files() -> None:
    line = parsed(
        *("-netdev", '{"type":"tap","fds":"40:41","vhost":true,"id":"hostnet0"}'),
        *("-netdev", "tap,id=n1,ifname=vnet7", "-netdev", "user,id=n2", "-netdev", "{not JSON"),
        *("-nic", "tap,ifname=vnet8"),
    )
    assert (line.taps, line.tap_descriptors) == (("vnet7", "vnet8"), (40, 41))


def test_values_of_an_option_in_either_form() -> None:
    assert pairs("a,,b,c=d,e", "name") == {"name": "a,b", "c": "d", "e": "on"}
    assert pairs('{"a": true, "b": 1}', "name") == {"a": "true", "b": "1"}


XP = (("-name", "xp"), ("-m", "512"), ("-smp", "2"))


@pytest.mark.parametrize("first", range(3))
@pytest.mark.parametrize(
    "option",
    [
        "localtime",
        "sdl",
        "no-kvm-irqchip",
        "enable-fips",
        "async-teardown",
        "perfmap",
        "xen-create",
        "option-of-qemu-15",
    ],
)
def test_an_option_without_a_value_takes_no_other_s_place(option: str, first: int) -> None:
    words = [word for place in range(3) for word in XP[(first + place) % 3]]
    for line in (parsed(f"-{option}", *words), parsed(*words, f"--{option}")):
        assert (line.name, line.memory_bytes, line.vcpus) == ("xp", 512 * MIB, 2)


def test_a_value_may_look_like_an_option() -> None:
    line = parsed("-name", "-web", "-serial", "-m", "-append", "-smp", "-m", "16")
    assert (line.name, line.memory_bytes, line.vcpus) == ("-web", 16 * MIB, None)


def test_what_a_command_line_says_is_bounded() -> None:
    """Any user may start a process of any command line."""
    line = parsed(
        *("-name", "n" * 5000, "-accel", "A" * 6000, "-m", "99999t", "-smp", "99999", "-id", "1" * 5000),
        *[word for number in range(9000) for word in ("-netdev", f"tap,ifname=t{number},fd=7")],
    )
    assert line == CommandLine(
        "n" * 200,
        "",
        "",
        "qemu",
        "",
        None,
        None,
        tuple(f"t{number}" for number in range(256)),
        (7,) * 128,
        hugetlb=False,
    )
    assert parsed("-smp", "sockets=99999,cores=99999,threads=99999").vcpus is None
    assert parsed("-smp", "4096").vcpus == 4096


def test_names_can_be_shown() -> None:
    for name, shown in (
        ('{"guest": "\\ud800"}', "\\ud800"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("\u202eevil", "\\u202eevil"),
        ("Gr\xfcn \u6771\u4eac", "Gr\xfcn \u6771\u4eac"),
        ('{"guest": ' + "9" * 5000 + "}", ""),
    ):
        assert parsed("-name", name).name == shown, name


def test_what_other_monitors_are_started_with() -> None:
    line = parse(
        command_line(
            *("--cpus", "boot=2,max=4", "--memory", "size=1G,shared=on", "--net", "tap=vm7,mac=52:54:00:00:00:01")
        ),
        "/usr/bin/cloud-hypervisor",
    )
    assert line
    assert (line.vcpus, line.memory_bytes, line.taps) == (2, 1024 * MIB, ("vm7",))
    line = parse(
        command_line("run", "-c", "3", "--mem", "size=512", "--net", "tap-name=vm8", "-s", "/a/b.sock"), "crosvm"
    )
    assert line
    assert (line.name, line.vcpus, line.memory_bytes, line.taps) == ("b", 3, 512 * MIB, ("vm8",))
