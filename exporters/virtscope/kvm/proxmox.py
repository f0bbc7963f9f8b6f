"""Proxmox's configuration of guests, /etc/pve/qemu-server/VMID.conf: current names, and descriptions.

    #web shop of the sales department
    cores: 2
    name: web01
    [before-upgrade]                    # a snapshot's from here on

QEMU's command line has the name at the guest's start. /etc/pve is a FUSE file system (pmxcfs), readable by root and the
group www-data. It may hang, so it is read in the background. The guests' monitors are not used: a connection would
block `qm` and pvestatd.

Format: https://pve.proxmox.com/wiki/Manual:_qm.conf. By hand: `qm config VMID`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from prometheus_client import Metric

from virtscope.kvm.model import A_USERS, MAX_CHARACTERS, Domain, Guest, clean, owners
from virtscope.toolkit.bounded import read_bytes
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable

FOLDER = Path("/etc/pve/qemu-server")


class Configuration(NamedTuple):
    """A guest's name and title; "" if absent."""

    name: str
    title: str  # the first line of its description


def parse(content: bytes) -> Configuration:
    """Parse a guest's file; never fails."""
    name = title = ""
    for line in content.decode("utf-8", "backslashreplace").split("\n"):
        if line.startswith("["):
            break
        key, colon, value = line.partition(":")
        if line.startswith("#"):
            title = title or unquote(line[1:]).strip()[:MAX_CHARACTERS]
        elif colon and key == "name":
            name = value.strip()
        elif colon and key == "description":
            title = title or unquote(value).strip().partition("\n")[0][:MAX_CHARACTERS]
    return Configuration(clean(name), clean(title))


def read(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return the files of this node's guests by VMID, without those deleted meanwhile.

    Raises SourceUnavailable without Proxmox or permission, SourceError if reading fails.
    """
    try:
        found = {}
        for path in sorted(folder.iterdir()):
            if path.suffix == ".conf":
                with contextlib.suppress(FileNotFoundError):
                    found[path.stem] = read_bytes(path)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{folder} is absent: Proxmox is not here") from error
    except PermissionError as error:
        raise SourceUnavailable(
            f"{folder} must not be read: run this as root or in the group www-data; names are QEMU's command lines'"
        ) from error
    except OSError as error:
        raise SourceError(f"{folder} can't be read: {error.strerror}") from error
    return found


def understand(files: Mapping[str, bytes]) -> dict[str, Configuration]:
    """Return the guests' configurations by VMID."""
    return {vmid: parse(content) for vmid, content in files.items()}


def joined(guests: Sequence[Guest], known: Mapping[str, Configuration]) -> tuple[Guest, ...]:
    """Set the guests' current names and titles; each VMID belongs to one guest."""
    of_vmids = owners((guest.id, guest) for guest in guests if guest.manager == "proxmox" and guest.standing > A_USERS)

    def named(guest: Guest) -> Guest:
        found = known.get(guest.id) if of_vmids.get(guest.id) == guest.pid else None
        return guest._replace(name=found.name or guest.name, domain=Domain(title=found.title)) if found else guest

    return tuple([named(guest) for guest in guests])


class Proxmox:
    """Polls the configuration in the background."""

    def __init__(self, interval: float, folder: Path = FOLDER) -> None:
        """Poll each `interval` seconds, earlier for new guests."""
        self._folder = folder
        self.background = Background("proxmox", lambda: understand(read(folder)), interval)

    def origin(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def read(self) -> list[Metric]:
        """Return no families, as all values belong to guests; raises like Background.latest()."""
        self.background.latest()
        return []

    def add_to(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        """Set the guests' names and titles, if these aren't too old."""
        known = self.background.peek()
        if known is None:
            return tuple(guests)
        self.background.wake_for({guest.id for guest in guests if guest.manager == "proxmox"} - known.keys())
        return joined(guests, known)
