"""Where a study runs a program: on the machine itself, in a cgroup with limits, or in a guest over ssh.

`ready` prepares it while the block lasts, with programs on these CPUs (a list for taskset, such as "1") unless it is a
guest; it raises `LabError`.
"""

import contextlib
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from deploy.documents import Model
from deploy.programs import CHECKOUT
from lab import LabError, guard
from lab.cgroups import Cgroup, TierLimits, mounted
from lab.keys import Cap, Weight
from lab.processes import CONNECT_SECONDS, Process, output, over_ssh

NONE = "none"
Platform = Literal["xen", "openvz", "kvm"]
Runs = Callable[[Sequence[str], float], str]
"""Runs a program for at most this many seconds; returns its standard output and error. Raises `ProgramError`."""
_WATCHED = Path(__file__).with_name("watched.sh").read_text()
FOLDER = CHECKOUT / ".stack" / "lab" / "instances" / "environment"  # of the cgroup


@dataclass(frozen=True)
class Base:
    """The machine itself."""

    name: str = "base"
    virtualization: str = NONE
    emulated: bool = False

    @contextlib.contextmanager
    def ready(self, cpus: str | None = None) -> Iterator[Runs]:
        pinned = ["taskset", "--cpu-list", cpus] if cpus else []
        yield lambda command, timeout: output(_named(self.name, command), [*pinned, *command], timeout)


class Limited(Model):
    """A cgroup of this machine with limits, which exists while it is `ready`."""

    name: Annotated[str, Field(min_length=1)]
    cap: Cap | None = None
    weight: Weight = TierLimits.cpu_weight

    virtualization = property(lambda _: "cgroup")
    emulated = property(lambda _: False)

    @contextlib.contextmanager
    def ready(self, cpus: str | None = None) -> Iterator[Runs]:
        cgroup = Cgroup("environment", mounted())
        with guard.guarded(FOLDER, [(cgroup, TierLimits(self.weight, self.cap, cpus))]):
            yield lambda command, timeout: output(_named(self.name, command), cgroup.joining(command), timeout)


class Guest(Model):
    """A guest that the user's own ssh reaches without a password; `ssh` is a destination for ssh(1)."""

    name: Annotated[str, Field(min_length=1)]
    ssh: Annotated[str, Field(min_length=1)]
    platform: Platform
    emulated: bool = False

    virtualization = property(lambda self: self.platform)

    @contextlib.contextmanager
    def ready(self, _cpus: str | None = None) -> Iterator[Runs]:
        """Raises `LabError` if the guest is unreachable, or lacks timeout(1)."""
        self.run(["true"], timeout=CONNECT_SECONDS)
        yield self.run

    def run(self, command: Sequence[str], timeout: float) -> str:
        """The guest itself ends the program if the lab or the connection is gone."""
        there, seconds = self._ssh(command, timeout), timeout + 2 * CONNECT_SECONDS
        return output(_named(self.name, command), there, seconds, fed=True)

    def address(self) -> str:
        """Its own address, at which ssh reaches it."""
        said = self.run(["sh", "-c", 'echo "$SSH_CONNECTION"'], timeout=CONNECT_SECONDS)
        words = said.split()[-4:]  # sshd's: the client's address and port, and the server's
        if len(words) != 4:
            raise LabError(f"{self.name}: its sshd doesn't say at which address it was reached, but {said.strip()!r}")
        return words[2]

    @contextlib.contextmanager
    def serving(self, command: Sequence[str], ready: str, timeout: float, called: str) -> Iterator[None]:
        """Run a server in the guest while the block lasts, which begins after the server has printed `ready`.

        The guest itself ends the server with the block, after `timeout` seconds, and if the lab or the connection is
        gone. If it ends before it is ready, raises `LabError` with its output; `called` is its name in the message.
        """
        with Process(f"{self.name}: {called}", self._ssh(command, timeout), fed=True) as process:
            process.await_log(ready, 2 * CONNECT_SECONDS)
            try:
                yield
            finally:
                process.end_input()
                with contextlib.suppress(subprocess.TimeoutExpired):  # or the next one could meet it
                    process.popen.wait(CONNECT_SECONDS)

    def _ssh(self, command: Sequence[str], timeout: float) -> list[str]:
        there = shlex.join(["sh", "-c", _WATCHED, "watched", "timeout", f"{timeout:g}", *command])
        return over_ssh(self.ssh, there)


def _named(where: str, command: Sequence[str]) -> str:
    return f"{where}: {shlex.join(command)}"


def _base(given: Any) -> Any:
    if given != "base":
        raise ValueError(f"{given!r} is not base; others have keys, such as {{name: capped, cap: 0.5}}")
    return Base()


def _kind(given: Any) -> str:
    if not isinstance(given, dict):
        return "base"
    return "a guest" if "ssh" in given else "a cgroup"


Environment = Base | Limited | Guest
Listed = Annotated[
    Annotated[Base, BeforeValidator(_base), Tag("base")]
    | Annotated[Limited, Tag("a cgroup")]
    | Annotated[Guest, Tag("a guest")],
    Discriminator(_kind),
]
"""An entry of a scenario's list."""
