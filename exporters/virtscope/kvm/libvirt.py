"""libvirt, by its program virsh: block devices, exits, balloon, state and titles, which /proc doesn't know.

One call answers for all guests. It is made in the background, as a guest that hangs holds it up, and with it what is
known of every other guest, for as long as that takes: `--nowait` skips only a guest for which somebody waits already.
So a call is ended after some seconds; the daemon goes on waiting, the next call skips that guest, and if calls hang
nevertheless they are made less and less often, as each one holds up a thread of the daemon's.

    Domain: 'db_1.prod'
      state.state=1
      balloon.current=16384              KiB
      vcpu.0.exits.sum=266758            where kernel and libvirt have binary statistics
      net.0.name=vnet1
      block.0.name=vda
      block.0.rd.reqs=5061
      block.0.rd.times=4490330390        ns

Format: virConnectGetAllDomainStats() in libvirt's reference, `virsh domstats --raw` by hand. Nova's metadata:
https://docs.openstack.org/nova/latest/reference/libvirt-distro-support-matrix.html and `virsh dumpxml`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.kvm.model import A_USERS, MAX_CHARACTERS, VOUCHED_FOR, Block, Domain, Guest, Requests, clean, owners
from virtscope.toolkit.bounded import Commands, Finished, Programs
from virtscope.toolkit.collect import Background, SourceError, SourceTimeout, SourceUnavailable
from virtscope.toolkit.families import family

INTERVAL = 15.0  # seconds
TIMEOUT = 10.0  # seconds for each call; one for 100 guests takes less than one
MAX_PAUSE = 600.0  # seconds between two calls that hang

# The system's daemon, read only: any user may.
_CONNECT = ("-q", "-r", "-c", "qemu:///system")
# From Wallaby on, and from Juno to Victoria: an instance keeps what it was made with.
_NOVA = ("http://openstack.org/xmlns/libvirt/nova/1.1", "http://openstack.org/xmlns/libvirt/nova/1.0")
_TITLES_AGAIN = 600.0  # seconds; they are changed by people
_TITLES_AT_ONCE = 200  # guests to a call

# virDomainState
_STATES = ("", "running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")
_DOMAIN = re.compile(r"Domain: '(.*)'")
_LISTED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) +(.*)")
_NOVA_NAME = re.compile(r"<(?:\w+:)?name>([^<]*)</")
_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}
_MAX_TITLE = 4 * MAX_CHARACTERS  # bytes


class Raw(NamedTuple):
    """What libvirt answered."""

    asked: float  # Unix time
    domstats: bytes
    domains: bytes  # uuids and names
    titles: tuple[tuple[str, bytes], ...]  # by uuid: nova's name where there is one, else the title


class Answer(NamedTuple):
    """The same, understood."""

    asked: float
    domains: Mapping[str, Domain]  # by name
    names: Mapping[str, str]  # by uuid: who is called as a domain need not be it
    refused: int  # lines that are malformed


def understand(raw: Raw) -> Answer:
    """Return what libvirt answered; never fails."""
    stats, refused = parse_domstats(raw.domstats)
    titles = dict(raw.titles)
    names = dict(parse_list(raw.domains))
    named = {name: titles[uuid] for uuid, name in names.items() if uuid in titles}
    domains = {
        name: domain(values)._replace(title=clean(named.get(name, b"").decode("utf-8", "backslashreplace")))
        for name, values in stats.items()
    }
    return Answer(raw.asked, domains, names, refused)


def parse_domstats(output: bytes) -> tuple[dict[str, dict[str, str]], int]:
    """Return the values of each domain, by name and key, and how many lines were malformed; never fails."""
    found: dict[str, dict[str, str]] = {}
    values: dict[str, str] | None = None
    refused = 0
    for line in output.decode("utf-8", "backslashreplace").split("\n"):
        key, equals, value = line.strip().partition("=")
        started = _DOMAIN.fullmatch(line)
        if started:
            values = found[started[1]] = {}
        elif equals and values is not None:
            values[key] = value
        elif line.strip():
            refused += 1
    return found, refused


def domain(values: Mapping[str, str]) -> Domain:
    """Return what the values of a domain say."""
    balloon = _number(values, "balloon.current")
    state = _number(values, "state.state")
    polled = {result: _seconds(values, f"cpu.haltpoll.{result}.time") for result in ("success", "fail")}
    return Domain(
        state=_STATES[state] if state is not None and state < len(_STATES) else "",
        balloon_bytes=None if balloon is None else balloon * 1024,
        blocks=_blocks(values),
        interfaces=tuple(
            clean(values[key]) for number in _numbers(values, "net") if (key := f"net.{number}.name") in values
        ),
        exits={
            str(number): exits
            for number in _numbers(values, "vcpu")
            if (exits := _number(values, f"vcpu.{number}.exits.sum")) is not None
        },
        halt_poll_seconds={result: seconds for result, seconds in polled.items() if seconds is not None},
    )


def _blocks(values: Mapping[str, str]) -> tuple[Block, ...]:
    """Return the devices; what lies below one (a backing file, with the same name and "backingIndex") only once."""
    found: dict[str, Block] = {}
    for number in _numbers(values, "block"):
        key = f"block.{number}"
        name = clean(values.get(f"{key}.name", ""))
        # Those that aren't counted are layers of another one, or the guest's monitor was not asked.
        if name and name not in found and f"{key}.rd.reqs" in values:
            found[name] = Block(name, *(_requests(values, f"{key}.{kind}") for kind in ("rd", "wr", "fl")))
    return tuple(found.values())


def _requests(values: Mapping[str, str], key: str) -> Requests:
    return Requests(_number(values, f"{key}.reqs"), _number(values, f"{key}.bytes"), _seconds(values, f"{key}.times"))


def _numbers(values: Mapping[str, str], group: str) -> list[int]:
    """Return the numbers of a group's members, such as 0 and 2 of vcpu.0 and vcpu.2."""
    found = {key.split(".")[1] for key in values if key.startswith(f"{group}.")}
    return sorted(int(number) for number in found if number.isascii() and number.isdigit() and len(number) < 6)


def _number(values: Mapping[str, str], key: str) -> int | None:
    text = values.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _seconds(values: Mapping[str, str], key: str) -> float | None:
    nanoseconds = _number(values, key)
    return None if nanoseconds is None else nanoseconds / 1e9


def parse_list(output: bytes) -> list[tuple[str, str]]:
    """Return uuid and name of each domain that `virsh list --uuid --name` printed; other lines are passed over."""
    lines = output.decode("utf-8", "backslashreplace").split("\n")
    return [(found[1], found[2].rstrip()) for line in lines if (found := _LISTED.fullmatch(line))]


def parse_titles(output: bytes, secret: str) -> dict[str, bytes]:
    """Return each domain's title by uuid, as the commands of title_commands() printed it; b"" where there is none."""
    found: dict[str, bytes] = {}
    parts = re.split(rb"== %s ([0-9a-f-]{36}) (metadata|title) ==" % re.escape(secret.encode()), output)
    for uuid, what, printed in zip(parts[1::3], parts[2::3], parts[3::3]):
        title = printed.strip()
        if what == b"metadata":
            title = _nova_name(title)
        key = uuid.decode()
        found[key] = found.get(key) or title[:_MAX_TITLE]
    return found


def _nova_name(metadata: bytes) -> bytes:
    found = _NOVA_NAME.search(metadata.decode("utf-8", "backslashreplace"))
    if not found:
        return b""
    return re.sub("&([a-z]+);", lambda entity: _ENTITIES.get(entity[1], entity[0]), found[1]).strip().encode()


def title_commands(uuids: Sequence[str], secret: str) -> str:
    """Return virsh's commands for the titles of these domains; neither needs the guest's monitor.

    `secret` is between them, so that no tenant can give his instance a name that ends in another guest's title.
    """
    return "; ".join(
        command
        for uuid in uuids
        for command in (
            *[f"echo '== {secret} {uuid} metadata =='; metadata {uuid} --uri {namespace}" for namespace in _NOVA],
            f"echo '== {secret} {uuid} title =='; desc {uuid} --title",
        )
    )


class Virsh:
    """Asks libvirt."""

    def __init__(self, programs: Programs | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.expected = False  # there are guests that libvirt manages
        self.commands = programs or Commands(TIMEOUT)
        self._clock = clock
        self._nowait = True  # this virsh knows it
        self._hung = 0  # calls one after the other
        self._not_before = 0.0
        self._titles: dict[str, bytes] = {}
        self._titles_due = 0.0

    def read(self) -> Raw:
        """Return what libvirt says now.

        Raises SourceUnavailable where there is neither virsh nor a guest of libvirt's, SourceTimeout where it hangs,
        SourceError where it fails.
        """
        virsh = self.commands.find("virsh")
        if not virsh:
            raise SourceUnavailable("virsh is not in PATH; install libvirt-clients where libvirt manages the guests")
        if self._clock() < self._not_before:
            raise SourceTimeout(f"virsh hung {self._hung} times; it is called again later")
        asked = time.time()
        try:
            stats = self._domstats(virsh)
            domains = self._output(self.commands.run(virsh, *_CONNECT, "list", "--uuid", "--name"), "list")
            self._ask_titles(virsh, [uuid for uuid, _ in parse_list(domains)])
        except SourceTimeout:
            self._hung += 1
            if self._hung > 1:  # the second call knows better, as a rule
                self._not_before = self._clock() + min(INTERVAL * 2**self._hung, MAX_PAUSE)
            raise
        self._hung = 0
        return Raw(asked, stats, domains, tuple(self._titles.items()))

    def _domstats(self, virsh: str) -> bytes:
        """Return the statistics of all domains."""
        finished = self.commands.run(virsh, *_CONNECT, "domstats", "--raw", *(["--nowait"] if self._nowait else []))
        if self._nowait and "support option" in finished.problem():
            self._nowait = False  # libvirt before 4.5
            return self._domstats(virsh)
        return self._output(finished, "domstats")

    def _output(self, finished: Finished, command: str) -> bytes:
        problem = finished.problem()
        if not problem:
            return finished.output
        if not self.expected:
            raise SourceUnavailable(
                f"no guest is this host's libvirt's (users and pods have their own), and it doesn't answer: "
                f"virsh {command} {problem}"
            )
        raise SourceError(f"virsh {command} {problem}")

    def _ask_titles(self, virsh: str, uuids: Sequence[str]) -> None:
        """Ask for the titles of domains that are new, and now and then of all."""
        if self._clock() >= self._titles_due:
            self._titles, self._titles_due = {}, self._clock() + _TITLES_AGAIN
        self._titles = {uuid: self._titles[uuid] for uuid in uuids if uuid in self._titles}
        new = [uuid for uuid in uuids if uuid not in self._titles]
        for place in range(0, len(new), _TITLES_AT_ONCE):
            some = new[place : place + _TITLES_AT_ONCE]
            # Its status is that of the last one alone, and of most domains there is nothing to show.
            secret = secrets.token_hex(8)
            finished = self.commands.run(virsh, *_CONNECT, title_commands(some, secret))
            self._titles.update(parse_titles(finished.output, secret))


def joined(guests: Sequence[Guest], answer: Answer) -> tuple[Guest, ...]:
    """Return the guests with what libvirt knows of each; of one that was started since it was asked, nothing.

    It is known by its uuid: other daemons, of users and in pods, have guests of the same names.
    """
    of_uuids = owners((each.uuid, each) for each in guests if each.manager == "libvirt" and each.standing > A_USERS)

    def known(guest: Guest) -> Domain | None:
        if of_uuids.get(guest.uuid) != guest.pid or guest.start_time > answer.asked:
            return None
        found = answer.domains.get(answer.names.get(guest.uuid, ""))
        if found and found.state == "shutoff":
            return None  # a guest that runs is another one
        # Who polls for a guest is KVM; of others libvirt says 0.
        return found._replace(halt_poll_seconds={}) if found and guest.accelerator != "kvm" else found

    return tuple([guest._replace(domain=known(guest)) for guest in guests])


def families(answer: Answer) -> list[Metric]:
    """Return what belongs to no guest."""
    return [family("kvm_libvirt_refused_lines", "Malformed lines of virsh domstats.", [({}, answer.refused)])]


class Libvirt:
    """Asks libvirt in the background."""

    def __init__(self, interval: float, virsh: Virsh | None = None) -> None:
        """Ask each `interval` seconds, and early when there are new guests; by `virsh`, if it isn't this machine's."""
        self._virsh = virsh or Virsh()
        self._woken_for: set[tuple[int, str]] = set()
        self._its_own: set[str] = set()  # uuids of guests that run, of those it has listed
        self.background = Background(
            "libvirt", lambda: understand(self._virsh.read()), interval, lambda: self._virsh.commands.cpu_seconds
        )

    def close(self) -> None:
        """End asking, and what is being run."""
        self.background.close()
        self._virsh.commands.close()

    def origin(self) -> str:
        """Return the program's path."""
        return self._virsh.commands.find("virsh") or "virsh"

    def read(self) -> list[Metric]:
        """Return what belongs to no guest; raises as Background.latest() does."""
        return families(self.background.latest())

    def add_to(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        """Return the guests with what libvirt knows of them, if there is anything young enough."""
        managed = [guest for guest in guests if guest.manager == "libvirt"]
        answer = self.background.peek()
        listed = self._its_own.union(answer.names if answer else ())
        self._its_own = {guest.uuid for guest in managed if guest.uuid in listed and guest.standing > A_USERS}
        self._virsh.expected = bool(self._its_own) or any(guest.standing == VOUCHED_FOR for guest in managed)
        if answer is None:
            return tuple(guests)
        found = joined(guests, answer)
        strangers = {(guest.pid, guest.name) for guest in found if guest.manager == "libvirt" and not guest.domain}
        if strangers - self._woken_for:  # once for each
            self.background.wake()
        self._woken_for = strangers
        return found
