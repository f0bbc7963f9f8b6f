"""libvirt, by virsh: block devices, exits, balloon, state and titles, which /proc lacks.

One call returns all guests. It runs in the background, because one hanging guest blocks it for all: `--nowait` skips
only guests for which another call already waits. So calls time out after some seconds. The daemon keeps waiting, and
the next call skips that guest. If calls still hang, they back off, because each one blocks a thread of the daemon.

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
from html import unescape
from typing import Callable, NamedTuple

from prometheus_client import Metric

from virtscope.kvm.model import A_USERS, MAX_CHARACTERS, VOUCHED_FOR, Block, Domain, Guest, Requests, clean, owners
from virtscope.toolkit.bounded import Commands, Finished, Programs
from virtscope.toolkit.collect import Background, SourceError, SourceTimeout, SourceUnavailable
from virtscope.toolkit.families import family

INTERVAL = 15.0  # seconds
TIMEOUT = 10.0  # seconds per call; with 100 guests it takes less than one
MAX_PAUSE = 600.0  # seconds; the longest back-off after hanging calls

# The system's daemon, read-only, allowed for any user.
_CONNECT = ("-q", "-r", "-c", "qemu:///system")
# From Wallaby on, and from Juno to Victoria: an instance keeps its original one.
_NOVA = ("http://openstack.org/xmlns/libvirt/nova/1.1", "http://openstack.org/xmlns/libvirt/nova/1.0")
_TITLES_AGAIN = 600.0  # seconds; people change titles rarely
_TITLES_AT_ONCE = 200  # guests per call

# virDomainState
_STATES = ("", "running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")
_DOMAIN = re.compile(r"Domain: '(.*)'")
_LISTED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) +(.*)")
_NOVA_NAME = re.compile(r"<(?:\w+:)?name>([^<]*)</")
_MAX_TITLE = 4 * MAX_CHARACTERS  # bytes


class Raw(NamedTuple):
    """libvirt's raw answer."""

    asked: float  # Unix time
    domstats: bytes
    domains: bytes  # uuids and names
    titles: tuple[tuple[str, bytes], ...]  # by uuid: nova's name where there is one, else the title


class Answer(NamedTuple):
    """The parsed answer."""

    asked: float
    domains: Mapping[str, Domain]  # by name
    names: Mapping[str, str]  # by uuid: names aren't unique
    refused: int  # malformed lines


def understand(raw: Raw) -> Answer:
    """Parse libvirt's answer; never fails."""
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
    """Return each domain's values by name and key, and the number of malformed lines; never fails."""
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
    """Return a domain's metrics."""
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
    """Return the devices without their backing files, which have the same name and a "backingIndex"."""
    found: dict[str, Block] = {}
    for number in _numbers(values, "block"):
        key = f"block.{number}"
        name = clean(values.get(f"{key}.name", ""))
        # Entries without counters are layers of another device, or the guest's monitor was skipped.
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
    """Parse uuid and name of each domain in `virsh list --uuid --name`; skips other lines."""
    lines = output.decode("utf-8", "backslashreplace").split("\n")
    return [(found[1], found[2].rstrip()) for line in lines if (found := _LISTED.fullmatch(line))]


def parse_titles(output: bytes, secret: str) -> dict[str, bytes]:
    """Parse each domain's title by uuid in the output of title_commands(); b"" if it has none."""
    found: dict[str, bytes] = {}
    parts = re.split(rb"== %s ([0-9a-f-]{36}) (metadata|title) ==" % re.escape(secret.encode()), output)
    for uuid, what, printed in zip(parts[1::3], parts[2::3], parts[3::3]):
        title = printed.strip()
        if what == b"metadata":
            name = _NOVA_NAME.search(title.decode("utf-8", "backslashreplace"))
            title = unescape(name[1]).strip().encode() if name else b""
        key = uuid.decode()
        found[key] = found.get(key) or title[:_MAX_TITLE]
    return found


def title_commands(uuids: Sequence[str], secret: str) -> str:
    """Return virsh commands that print these domains' titles; they don't use the guests' monitors.

    `secret` separates them, so that an instance's name can't forge another guest's title.
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
        self.expected = False  # there are libvirt guests
        self.commands = programs or Commands(TIMEOUT)
        self._clock = clock
        self._nowait = True  # this virsh supports it
        self._hung = 0  # consecutive calls
        self._not_before = 0.0
        self._titles: dict[str, bytes] = {}
        self._titles_due = 0.0

    def read(self) -> Raw:
        """Query libvirt.

        Raises SourceUnavailable without virsh or without libvirt guests, SourceTimeout if it hangs, SourceError if it
        fails.
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
            if self._hung > 1:  # the second call usually succeeds
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
        """Query the titles of new domains, and sometimes of all."""
        if self._clock() >= self._titles_due:
            self._titles, self._titles_due = {}, self._clock() + _TITLES_AGAIN
        self._titles = {uuid: self._titles[uuid] for uuid in uuids if uuid in self._titles}
        new = [uuid for uuid in uuids if uuid not in self._titles]
        for place in range(0, len(new), _TITLES_AT_ONCE):
            some = new[place : place + _TITLES_AT_ONCE]
            # Ignore the status: it is the last command's, and fails without metadata.
            secret = secrets.token_hex(8)
            finished = self.commands.run(virsh, *_CONNECT, title_commands(some, secret))
            self._titles.update(parse_titles(finished.output, secret))


def joined(guests: Sequence[Guest], answer: Answer) -> tuple[Guest, ...]:
    """Add libvirt's values to the guests, except those started after the query.

    Guests are matched by uuid: other daemons, of users or in pods, may use the same names.
    """
    of_uuids = owners((each.uuid, each) for each in guests if each.manager == "libvirt" and each.standing > A_USERS)

    def known(guest: Guest) -> Domain | None:
        if of_uuids.get(guest.uuid) != guest.pid or guest.start_time > answer.asked:
            return None
        found = answer.domains.get(answer.names.get(guest.uuid, ""))
        if found and found.state == "shutoff":
            return None  # a running guest is another one
        # Only KVM does halt polling; for others libvirt reports 0.
        return found._replace(halt_poll_seconds={}) if found and guest.accelerator != "kvm" else found

    return tuple([guest._replace(domain=known(guest)) for guest in guests])


def families(answer: Answer) -> list[Metric]:
    """Return the metrics of no guest."""
    return [family("kvm_libvirt_refused_lines", "Malformed lines of virsh domstats.", [({}, answer.refused)])]


class Libvirt:
    """Polls libvirt in the background."""

    def __init__(self, interval: float, virsh: Virsh | None = None) -> None:
        """Poll each `interval` seconds, earlier for new guests; `virsh` replaces this machine's."""
        self._virsh = virsh or Virsh()
        self._its_own: set[str] = set()  # uuids of running guests, and of listed ones
        self.background = Background("libvirt", lambda: understand(self._virsh.read()), interval, self._virsh.commands)

    def origin(self) -> str:
        """Return the program's path."""
        return self._virsh.commands.find("virsh") or "virsh"

    def read(self) -> list[Metric]:
        """Return the metrics of no guest; raises like Background.latest()."""
        return families(self.background.latest())

    def add_to(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        """Add libvirt's values to the guests, if they aren't too old."""
        managed = [guest for guest in guests if guest.manager == "libvirt"]
        answer = self.background.peek()
        listed = self._its_own.union(answer.names if answer else ())
        self._its_own = {guest.uuid for guest in managed if guest.uuid in listed and guest.standing > A_USERS}
        self._virsh.expected = bool(self._its_own) or any(guest.standing == VOUCHED_FOR for guest in managed)
        if answer is None:
            return tuple(guests)
        found = joined(guests, answer)
        unknown = {(guest.pid, guest.name) for guest in found if guest.manager == "libvirt" and not guest.domain}
        self.background.wake_for(unknown)
        return found
