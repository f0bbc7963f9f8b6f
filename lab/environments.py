"""Where a study runs a program: on the machine itself, in a cgroup with limits, or in a guest over ssh.

In a scenario's file:

    environments:
      - base
      - {name: capped, cap: 0.5}
      - {name: a guest, ssh: root@web1, platform: xen, emulated: true}
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import yaml

from alerts.generator.document import Value
from deploy.programs import CHECKOUT
from lab import LabError, guard, ssh
from lab.cgroups import SMALLEST_CAP, Cgroup, TierLimits, mounted
from lab.keys import one_of, whole, yes
from lab.ssh import CONNECT_SECONDS

NONE = "none"
PLATFORMS = ("xen", "openvz", "kvm")
FOLDER = CHECKOUT / ".stack" / "lab" / "instances" / "environment"  # of the cgroup; a killed lab's guard removes both
_TIMED_OUT = 124  # the status of timeout(1)
LINES = 5  # of what a program says before it fails


class ProgramError(LabError):
    """A program that failed, or wasn't done in time; the message ends with the last lines of what it said.

    Attributes:
        how: in words, such as "ended with status 1".
        said: all that it has printed.
        end: the last lines of that, each on a line of its own below what stands before it; "" if there is none.
    """

    def __init__(self, name: str, how: str, said: str) -> None:
        self.how, self.said = how, said
        self.end = "".join(f"\n  {line}" for line in said.splitlines()[-LINES:])
        super().__init__(f"{name} {how}{_end(said)}")


class Environment(Protocol):
    """Where programs run. `emulated`: what is measured there is no more than a proof that it works."""

    @property
    def name(self) -> str:
        """As the report calls it."""

    @property
    def virtualization(self) -> str:
        """`NONE`, "cgroup", or one of `PLATFORMS`."""

    @property
    def emulated(self) -> bool:
        """Whether the machine below is emulated."""

    def ready(self) -> contextlib.AbstractContextManager[None]:
        """What it needs, as long as it is used. Raises `LabError`."""

    def run(self, command: Sequence[str], timeout: float) -> str:
        """Return what a program prints, on standard output and error, in the order in which it does.

        Raises `ProgramError` if it fails or isn't done after `timeout` seconds, `LabError` if it can't be started.
        """


@dataclass(frozen=True)
class Base:
    """The machine itself, on these CPUs (a list for taskset, such as "1"); on all if None."""

    cpus: str | None = None
    name: str = "base"
    virtualization: str = NONE
    emulated: bool = False

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Needs nothing."""
        yield

    def run(self, command: Sequence[str], timeout: float) -> str:
        """As `Environment.run`."""
        pinned = ["taskset", "--cpu-list", self.cpus, *command] if self.cpus else command
        return _output(pinned, timeout, self.name, command)


@dataclass
class Limited:
    """A cgroup of this machine with limits, which exists while it is `ready`."""

    name: str
    limits: TierLimits
    virtualization: str = "cgroup"
    emulated: bool = False
    _cgroup: Cgroup | None = None

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Make the cgroup; a guard removes it with its programs if the lab is killed."""
        self._cgroup = Cgroup("environment", mounted())
        with guard.guarded(FOLDER, [(self._cgroup, self.limits)]):
            yield

    def run(self, command: Sequence[str], timeout: float) -> str:
        """As `Environment.run`."""
        assert self._cgroup is not None  # it is ready
        return _output(self._cgroup.joining(command), timeout, self.name, command)


@dataclass(frozen=True)
class Guest:
    """A guest that the user's own ssh reaches without a password; `destination` is as for ssh(1)."""

    name: str
    destination: str
    virtualization: str
    emulated: bool

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Raises `LabError` if it can't be reached, or lacks timeout(1)."""
        self.run(["true"], timeout=CONNECT_SECONDS)
        yield

    def run(self, command: Sequence[str], timeout: float) -> str:
        """As `Environment.run`; the guest itself ends the program if the lab or the connection is gone."""
        ssh = self._ssh(command, timeout)
        return _output(ssh, timeout + 2 * CONNECT_SECONDS, self.name, command, holds_input=True)

    def address(self) -> str:
        """Its address, as seen by itself, at which ssh reaches it."""
        said = self.run(["sh", "-c", 'echo "$SSH_CONNECTION"'], timeout=CONNECT_SECONDS)
        words = said.split()[-4:]  # of sshd: the client's address and port, and the server's
        if len(words) != 4:
            raise LabError(f"{self.name}: its sshd doesn't say at which address it was reached, but {said.strip()!r}")
        return words[2]

    @contextlib.contextmanager
    def serving(self, command: Sequence[str], ready: str, timeout: float, called: str = "") -> Iterator[None]:
        """Run a server in the guest while the block lasts, which begins once the server has printed `ready`.

        The guest itself ends it with the block, after `timeout` seconds, and if the lab or the connection is gone.
        Raises `LabError` with what it has said if it ends before; `called` names it there, in place of the command.
        """
        name = f"{self.name}: {called or shlex.join(command)}"
        with _started(self._ssh(command, timeout), name, holds_input=True) as (process, held):
            try:
                said = _until(process, ready, 2 * CONNECT_SECONDS)
                if ready not in said:
                    raise LabError(f"{name} doesn't serve{_end(said)}")
                yield
            finally:
                held.close()
                with contextlib.suppress(subprocess.TimeoutExpired):  # else it may still be there for the next one
                    process.communicate(timeout=CONNECT_SECONDS)

    def _ssh(self, command: Sequence[str], timeout: float) -> list[str]:
        there = shlex.join(["sh", "-c", _WATCHED, "watched", "timeout", f"{timeout:g}", *command])
        return ssh.command(self.destination, there)


# The end of the standard input is the sign that nobody waits any more. Then a program has ten seconds to remove its
# files; nothing that it has started stays in any case. A script is to ignore SIGTERM while it cleans up: timeout(1) is
# in its group and passes it on, and it is sent again after five seconds, since a shell that has just forked loses it
# (the child has its handler until it executes the program, which then never hears of it).
_WATCHED = """exec 3<&0
setsid "$@" </dev/null 3<&- &
program=$!
{ cat <&3; kill -TERM "-$program"; sleep 5; kill -TERM "-$program"; sleep 5; kill -KILL "-$program"; } >/dev/null 2>&1 &
watcher=$!
wait "$program"
status=$?
kill "$watcher"
kill -KILL "-$program" 2>/dev/null
exit $status"""


def read(value: Value, cpus: str | None) -> Environment:
    """One of a scenario's environments; those of this machine use these CPUs. Raises `FileError`."""
    if isinstance(value.node, yaml.ScalarNode):
        if (text := value.text()) != "base":
            value.refuse(f"{text!r} is not base; others have keys, such as {{name: capped, cap: 0.5}}")
        return Base(cpus)
    fields = value.fields({"name": "capped"}, optional=["cap", "weight", "ssh", "platform", "emulated"])
    of_here, of_guests = ("cap", "weight"), ("platform", "emulated")
    for key in of_here if "ssh" in fields else of_guests:
        if key in fields:
            fields[key].refuse("is only for guests, which have the key ssh" if key in of_guests else _NOT_OF_GUESTS)
    name = fields["name"].text()
    return _guest(name, fields) if "ssh" in fields else Limited(name, _limits(fields, cpus))


def guests(value: Value, slug: Callable[[str], str], taken: Sequence[str] = ()) -> tuple[Guest, ...]:
    """A list of guests whose names differ, also in the names of steps, by `slug`; raises `FileError`."""
    found: list[Guest] = []
    for each in value.items():
        guest = read(each, None)
        if not isinstance(guest, Guest):
            each.refuse("is no guest: give its name, ssh and platform; this machine itself is measured in any case")
        if slug(guest.name) in {slug(name) for name in (*taken, *(other.name for other in found))}:
            each.refuse(f"the name {guest.name!r} is taken; give it another")
        found.append(guest)
    return tuple(found)


_NOT_OF_GUESTS = "is only for cgroups of this machine; a guest has what its host gives it"


def _limits(fields: Mapping[str, Value], cpus: str | None) -> TierLimits:
    cap = fields["cap"].number() if "cap" in fields else None
    if cap is not None and cap < SMALLEST_CAP:
        fields["cap"].refuse(f"{cap:g} is less than the smallest cap, {SMALLEST_CAP:g} CPUs")
    weight = whole(1, 10_000)(fields["weight"]) if "weight" in fields else TierLimits.cpu_weight
    return TierLimits(weight, cap, cpus)


def _guest(name: str, fields: Mapping[str, Value]) -> Guest:
    destination = fields["ssh"].text()
    if "platform" not in fields:
        fields["ssh"].refuse(f"say below it what the guest runs on: platform: {' or '.join(PLATFORMS)}")
    platform = one_of(PLATFORMS)(fields["platform"])
    return Guest(name, destination, platform, "emulated" in fields and yes(fields["emulated"]))


# A program waits here until its guard is there: a lab that is killed before leaves a shell that reads its end.
_ONCE_GUARDED = 'read -r _ && exec "$@"'


def _output(
    command: Sequence[str], timeout: float, where: str, asked: Sequence[str], *, holds_input: bool = False
) -> str:
    """What a program prints. It and all that it has started have ended at the end, also after Ctrl-C.

    where, asked: the environment's name and the command without what leads there, for messages.
    holds_input: its standard input is a pipe that ends when the lab does, whatever ends that; else it is empty.
    """
    name = f"{where}: {shlex.join(asked)}"
    with _started(command, name, holds_input=holds_input) as (process, _):
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            until_then: bytes = error.output or b""  # not decoded, whatever Popen was asked
            raise ProgramError(name, f"wasn't done after {timeout:g} s", until_then.decode(errors="replace")) from None
    if process.returncode == _TIMED_OUT:
        raise ProgramError(name, "wasn't done in time", said)
    if process.returncode:
        raise ProgramError(name, f"ended with status {process.returncode}", said)
    return said


def _end(said: str) -> str:
    """The last lines that a program has printed, as the end of a message."""
    lines = said.splitlines()[-LINES:]
    return "\n  ".join([" and said:", *lines]) if lines else ""


@contextlib.contextmanager
def _started(
    command: Sequence[str], name: str, *, holds_input: bool
) -> Iterator[tuple[subprocess.Popen[str], BinaryIO]]:
    """A program while the block lasts, and the other end of its standard input if it `holds_input`.

    At the end, and after kill -9 of the lab, it and all that it has started end.
    """
    waiting = _ONCE_GUARDED if holds_input else f"{_ONCE_GUARDED} </dev/null"
    standard_input, end = os.pipe()
    held = os.fdopen(end, "wb", buffering=0)
    try:
        process = subprocess.Popen(
            ["sh", "-c", waiting, "waiting", *command],
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        held.close()
        raise LabError(f"{name} can't be started: {error.strerror}") from error
    finally:
        os.close(standard_input)
    with contextlib.ExitStack() as ending:
        ending.callback(held.close)
        ending.callback(_kill, process)
        ending.callback(guard.stop, guard.start(None, group=process.pid))
        with contextlib.suppress(BrokenPipeError):  # it has ended
            held.write(b"\n")
        yield process, held


def _until(process: subprocess.Popen[str], text: str, seconds: float) -> str:
    """What it prints until the line with this text, or until it ends or that time is over."""
    assert process.stdout is not None
    deadline, said = time.monotonic() + seconds, b""
    while text.encode() not in said:
        waiting, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(process.stdout.fileno(), 65_536) if waiting else b""
        if not more:
            break
        said += more
    return said.decode(errors="replace")


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill it, and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
