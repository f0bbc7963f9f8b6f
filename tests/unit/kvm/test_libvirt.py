"""libvirt's values of guests, and the effect of a libvirt that hangs, fails or is old."""

from collections.abc import Callable, Sequence

import pytest

from tests.unit.kvm.captured import BOOTED, DEBIAN_12, FIXTURES, files, recorded
from tests.unit.kvm.test_guests import Machine
from virtscope.kvm import libvirt
from virtscope.kvm.guests import Guests
from virtscope.kvm.libvirt import MAX_PAUSE, Answer, Raw, Virsh, domain, joined, understand
from virtscope.kvm.model import Guest
from virtscope.toolkit.bounded import Finished
from virtscope.toolkit.collect import SourceError, SourceTimeout, SourceUnavailable

UUID = "6325b343-01a5-47ab-b796-afc750348cfe"
OTHER, SYSTEM_S = UUID.replace("6325b343", "00000000"), UUID.replace("6325b343", "99999999")
NOVA = b"<instance>\n  <name>web &amp; shop</name>\n</instance>\n"
DOMSTATS = (FIXTURES / DEBIAN_12 / "domstats-t0.txt").read_bytes()


def test_a_guest_whose_monitor_was_not_asked_lacks_what_it_tells() -> None:
    """--nowait, while another caller waits for it."""
    known = domain({"state.state": "3", "block.count": "1", "block.0.name": "vda", "net.0.name": "vnet0"})
    assert (known.state, known.blocks, known.exits, known.balloon_bytes) == ("paused", (), {}, None)
    assert known.interfaces == ("vnet0",)


def test_names_may_hold_anything_and_can_be_shown() -> None:
    stats, refused = libvirt.parse_domstats(b"Domain: 'it's \xe4'\n  state.state=1\n\nDomain: 'b'\nmalformed\n")
    assert (stats, refused) == ({"it's \\xe4": {"state.state": "1"}, "b": {}}, 1)
    (block,) = domain({"block.0.name": "v\x1b" + "d" * 999, "block.0.rd.reqs": "1"}).blocks
    assert (len(block.device), block.device[:6]) == (200, "v\\x1bd")


def test_titles_are_nova_s_names_where_there_are_some() -> None:
    of_both = f"== 5e {UUID} title ==own title\n== 5e {OTHER} metadata ==== 5e {OTHER} title ==only a title\n".encode()
    printed = f"== 5e {UUID} metadata ==".encode() + NOVA + of_both
    asked = libvirt.title_commands([UUID], "5e")
    assert [asked.count(f"/libvirt/nova/{version}") for version in ("1.0", "1.1")] == [1, 1]
    assert libvirt.parse_titles(printed, "5e") == {UUID: b"web & shop", OTHER: b"only a title"}


def test_a_tenant_names_no_other_guest() -> None:
    spoofing = NOVA.replace(b"web", f"== {OTHER} title ==mine".encode())
    printed = f"== 5e {UUID} metadata ==".encode() + spoofing + f"== 5e {OTHER} title ==its own\n".encode()
    titles = libvirt.parse_titles(printed, "5e")
    assert titles[OTHER] == b"its own"
    assert b"mine" in titles[UUID]
    programs = Programs(fine)
    for _ in range(2):
        Virsh(programs, lambda: 5.0).read()
    first, second = (words[0] for words in programs.asked if words[0].startswith("echo"))
    assert first != second, "what is between titles is another each time"


def test_guests_are_joined_by_uuid_and_one_started_since_is_another() -> None:
    guests = Guests(recorded(files(DEBIAN_12)), every_time=True).read(0).guests
    domains = "".join(f"{guest.uuid} {guest.name}\n" for guest in guests).encode()
    for asked, expected in (
        (2e9, {"instance-0000002a": "web01", "db_1.prod": "", "capped": ""}),
        (BOOTED + 120, {"instance-0000002a": "web01", "db_1.prod": "", "capped": None}),
    ):
        found = joined(guests, understand(Raw(asked, DOMSTATS, domains, ((UUID, b"web01"),))))
        assert {guest.name: guest.domain.title if guest.domain else None for guest in found} == expected


class Programs:
    def __init__(self, answer: Callable[[Sequence[str]], Finished]) -> None:
        self.cpu_seconds = 0.0
        self.asked: list[Sequence[str]] = []
        self._answer = answer

    def find(self, name: str, _folders: Sequence[str] = ()) -> str:
        return f"/usr/bin/{name}"

    def run(self, _program: str, *arguments: str) -> Finished:
        self.asked.append(arguments[4:])
        return self._answer(arguments[4:])

    def close(self) -> None:
        pass


def fine(words: Sequence[str]) -> Finished:
    if words[0] == "domstats":
        return Finished(0, DOMSTATS, b"")
    if words[0] == "list":
        return Finished(0, f"{UUID} instance-0000002a\n".encode(), b"")
    secret = words[0].split()[2]
    return Finished(0, f"== {secret} {UUID} metadata ==".encode() + NOVA + f"== {secret} {UUID} title ==".encode(), b"")


def test_titles_are_asked_once_of_each_guest() -> None:
    programs = Programs(fine)
    virsh = Virsh(programs, lambda: 5.0)
    first, second = virsh.read(), virsh.read()
    assert first.titles == second.titles == ((UUID, b"web & shop"),)
    assert [words[0].partition(" ")[0] for words in programs.asked] == ["domstats", "list", "echo", "domstats", "list"]
    assert "--nowait" in programs.asked[0]


def test_an_old_virsh_is_asked_without_nowait() -> None:
    def old(words: Sequence[str]) -> Finished:
        refusal = Finished(1, b"", b"error: command 'domstats' doesn't support option --nowait")
        return refusal if "--nowait" in words else fine(words)

    programs = Programs(old)
    virsh = Virsh(programs, lambda: 5.0)
    assert virsh.read().domstats == virsh.read().domstats == DOMSTATS
    assert ["--nowait" in words for words in programs.asked if words[0] == "domstats"] == [True, False, False]


def test_one_that_hangs_is_asked_less_and_less_often() -> None:
    """Each call that hangs blocks a thread of the daemon. The second is made at once: it skips the hanging guest."""

    def hang(_words: Sequence[str]) -> Finished:
        raise SourceTimeout("hangs")

    now = 0.0
    programs = Programs(hang)
    virsh = Virsh(programs, lambda: now)
    for _ in range(1000):
        with pytest.raises(SourceTimeout):
            virsh.read()
        now += 15
    assert 5 < len(programs.asked) < 15 + 1000 * 15 / MAX_PAUSE


def test_a_daemon_that_is_gone_is_a_failure_only_where_guests_are_its_own() -> None:
    gone = Finished(1, b"", b"error: failed to connect to the hypervisor\n")
    for cgroup, error in ((SYSTEMS, SourceError), (USERS, SourceUnavailable), ("kubepods.slice/a", SourceUnavailable)):
        virsh = Virsh(Programs(lambda _words: gone))
        libvirt.Libvirt(60, virsh).add_to(fedora((SYSTEM_S, cgroup)))
        with pytest.raises(SourceError, match="failed to connect") as raised:
            virsh.read()
        assert type(raised.value) is error, cgroup


USERS, SYSTEMS = "user.slice/user-1000.slice", "machine.slice/machine-qemu\\x2d1\\x2dfedora.scope"


def fedora(*running: tuple[str, str]) -> tuple[Guest, ...]:
    """Guests with this name and libvirt's number 1, by uuid and cgroup."""
    machine = Machine()
    for pid, (uuid, cgroup) in enumerate(running, 9):
        words = ("-name", "fedora", "-uuid", uuid, "-mon", "chardev=charmonitor,path=/domain-1-fedora/")
        machine.starts(pid, *words, cgroup=f"/{cgroup}")
    return machine.look().guests


def titles(guests: tuple[Guest, ...], state: int) -> list[str | None]:
    """The system libvirt's answer about guests; its domain fedora is in this state."""
    stats = f"Domain: 'fedora'\n  state.state={state}\n  balloon.current=1024\n".encode()
    answer: Answer = understand(Raw(2e9, stats, f"{SYSTEM_S} fedora\n".encode(), ((SYSTEM_S, b"payroll"),)))
    return [each.domain.title if each.domain else None for each in joined(guests, answer)]


def test_a_user_s_guest_gets_nothing_of_a_domain_of_its_name() -> None:
    for cgroup in (USERS, "kubepods.slice/a.scope"):
        assert [titles(fedora((OTHER, cgroup)), state) for state in (1, 5)] == [[None], [None]]


def test_a_forged_uuid_takes_nothing_of_the_domain_s() -> None:
    assert titles(fedora((SYSTEM_S, "")), 5) == [None], "it is shut off"
    claims = (SYSTEM_S, USERS), (SYSTEM_S, SYSTEMS), (SYSTEM_S, "system.slice/cron.service")
    assert titles(fedora(*claims), 1) == [None, "payroll", None]
    assert titles(fedora((SYSTEM_S, USERS)), 1) == [None], "also while the domain's own process is not there"
