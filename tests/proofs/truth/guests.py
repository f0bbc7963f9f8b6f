"""Two KVM guests with the command line and cgroup of libvirt domains, each one of tests/kvm's guests.

They are paused except in the episodes that use them.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.cgroups import mounted
from tests.kvm import guests
from tests.kvm.guests import BURN, Guest, duty
from tests.proofs.truth.chain import PREFIX
from tests.proofs.truth.episodes import BUSY_GUEST, GUEST, GUESTS_TENTHS

_LIBVIRTS_OWN = ("-object", "secret,id=masterKey0,format=raw,data=none")  # every libvirt domain has such a key


class Domain(NamedTuple):
    """One of them; `cgroup` is its path."""

    guest: Guest
    cgroup: str

    def pause(self) -> None:
        """Pause it, including its clock."""
        self.guest.ask("stop")

    def go_on(self) -> None:
        self.guest.ask("cont")


@contextlib.contextmanager
def paused(folder: Path, cpu: int) -> Iterator[dict[str, Domain]]:
    """Both guests on this CPU: the victim, and one that computes all the time. Raises `GuestError`."""
    hierarchies = mounted()
    root = hierarchies.by_controller.get("cpu", hierarchies.unified)
    assert root is not None  # one of them exists: see parse_mounts
    names = {GUEST: f"{PREFIX}{GUEST}-web", BUSY_GUEST: f"{PREFIX}{BUSY_GUEST}"}
    loads = {GUEST: duty(GUESTS_TENTHS), BUSY_GUEST: BURN}
    with contextlib.ExitStack() as ending:
        wanted: dict[str, dict[str, object]] = {}
        scopes: dict[str, Path] = {}
        for number, (guest, name) in enumerate(names.items()):
            # Libvirt's domain number is in the names of the cgroup and of the folder.
            domain = 10 * os.getpid() + number
            escaped = name.replace("-", r"\x2d")
            scopes[guest] = root / "machine.slice" / rf"machine-qemu\x2d{domain}\x2d{escaped}.scope"
            scopes[guest].mkdir(parents=True)
            ending.callback(_remove, scopes[guest])
            own = {"name": name, "folder": folder / f"domain-{domain}-{guest}", "cgroup": scopes[guest]}
            wanted[guest] = {**own, "load": loads[guest], "cpu": cpu, "vcpus": 1, "options": _LIBVIRTS_OWN}
        running = ending.enter_context(guests.running(wanted, folder))
        found = {guest: Domain(running[guest], f"/{scope.relative_to(root)}") for guest, scope in scopes.items()}
        for each in found.values():
            each.pause()
        yield found


def _remove(scope: Path) -> None:
    scope.rmdir()
    with contextlib.suppress(OSError):  # other processes are in it
        scope.parent.rmdir()
