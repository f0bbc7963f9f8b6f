"""The families of a host: unique guest names, and values that are absent instead of 0."""

import re

from prometheus_client import Metric

from tests.unit.kvm.captured import command_line
from tests.unit.kvm.test_guests import Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.metrics import families
from virtscope.toolkit.exposition import Encoder

DOMAIN_1 = ("-name", "fedora", "-mon", "chardev=charmonitor,path=/domain-1-fedora/")


def host(*guests: tuple[tuple[str, ...], str]) -> Machine:
    """A host with these guests, by command line and cgroups; their ids start at 9."""
    machine = Machine()
    for pid, (words, cgroup) in enumerate(guests, 9):
        machine.starts(pid, *words, cgroup=cgroup)
    return machine


def labels(made: list[Metric], name: str, label: str) -> list[str]:
    return [sample.labels[label] for family in made for sample in family.samples if sample.name == name]


def test_guests_of_one_name_are_kept_apart() -> None:
    """Two libvirts have a domain 1 each; a name may equal another one with its id."""
    web = ("-name", "web")
    ids = [("-id", str(number)) for number in (100, 101, 102, 103)]
    like = ("-name", "web (101)")
    for words, shown in (
        (
            [ids[0] + web, ids[1] + web, web, ("-name", "db"), ("-m", "1")],
            ["web (100)", "web (101)", "web (11)", "db", "qemu-13"],
        ),
        ([ids[1] + web, ids[2] + web, ids[3] + like], ["web (101) (9)", "web (102)", "web (101) (11)"]),
        ([DOMAIN_1, DOMAIN_1], ["fedora (9)", "fedora (10)"]),
    ):
        machine = host(*((each, f"/user.slice/user-{number}.slice") for number, each in enumerate(words)))
        assert labels(families(machine.look()), "kvm_guest_cpu_seconds_total", "guest") == shown


def test_who_takes_a_guest_s_name_gets_another_one() -> None:
    """Its command line claims to be libvirt's domain 1, but it can't enter that cgroup."""
    own, other = r"/machine.slice/machine-qemu\x2d1\x2dfedora.scope/libvirt/emulator", "/user.slice/session-1.scope"
    made = families(host((DOMAIN_1, own), (DOMAIN_1, other)).look())
    assert labels(made, "kvm_guest_info", "guest") == ["fedora", "fedora (10)"]
    assert labels(made, "kvm_guest_info", "id") == ["1", ""]


def test_a_cgroup_that_two_guests_have_is_neither_s() -> None:
    pod, scope = "/kubepods/pod7/a", "/qemu.slice/100.scope"
    made = families(host((("-name", "a"), pod), (("-name", "b"), pod), (("-name", "c"), scope)).look())
    assert labels(made, "kvm_guest_cgroup_info", "guest") == ["c"]
    assert labels(made, "kvm_guest_cgroup_info", "cgroup") == [scope]


def test_a_process_of_any_command_line_changes_nothing_of_a_guest_s() -> None:
    """Prometheus refuses a scrape with a label of more than 4,096 bytes, and a page with a label that isn't UTF-8."""
    machine = Machine()

    def page(now: float) -> list[str]:
        return Encoder().text(families(machine.look(now))).decode().splitlines()

    machine.runs(9, command_line("-name", "honest", "-m", "16", "-smp", "2"), stat("qemu", 5), _10=stat("CPU 0/KVM", 5))
    alone = page(0)
    hostile = [
        ("-name", "n" * 5000, "-accel", "A" * 6000, "-uuid", "u" * 6000, "-id", "1" * 6000),
        ("-name", "\u6771" * 5000, "-m", "9" * 18 + "t", "-smp", "99999"),
        ("-name", '{"guest": "\\ud800"}'),
        ("-name", "a\x01\n\x7f", "-netdev", "tap,ifname=" + "t" * 5000),
        *[("-name", f"big{number}", *["-x" + "y" * 126] * 1000) for number in range(60)],
    ]
    for pid, words in enumerate(hostile, 20):
        machine.starts(pid, *words)
    forged = {f"_{tid}": stat(f"CPU {tid}/KVM", 5) for tid in range(3000)}
    machine.runs(100, command_line("-name", "threads"), stat("qemu", 5), **forged)
    together = page(1)
    honest = [line for line in alone if '"honest"' in line]
    assert len(honest) == 9
    assert [line for line in together if '"honest"' in line] == honest
    assert max(len(value.encode()) for line in together for value in re.findall(r'="([^"]*)"', line)) <= 600
    assert "kvm_host_guests 66.0" in together
    assert len(together) < 700, "3,000 threads have no series"
