"""Proxmox's configuration: names, titles and tags of this node's guests and containers, and their pools.

    /etc/pve/qemu-server/100.conf           /etc/pve/lxc/101.conf
    #web shop of the sales department       cores: 2
    name: web01                             hostname: mail
    tags: shop;prod                         tags: prod
    [before-upgrade]                        # a snapshot's from here on

    /etc/pve/user.cfg
    pool:sales:Their guests:100,101:local-lvm:

QEMU's command line has the name at the guest's start. /etc/pve is a FUSE file system (pmxcfs), readable by root and the
group www-data. It may hang, so it is read in the background. The guests' monitors are not used: a connection would
block `qm` and pvestatd.

Format: https://pve.proxmox.com/wiki/Manual:_qm.conf, Manual:_pct.conf. By hand: `qm config VMID`, `pct config CTID`,
`pvesh get /pools`.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from prometheus_client import Metric

from virtscope.kvm.model import A_USERS, MAX_CHARACTERS, Domain, Guest, clean, owners
from virtscope.toolkit.bounded import read_bytes
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.families import info

FOLDER = Path("/etc/pve")
POOLS = "user.cfg"
_LXC = "lxc/"
_VMID = re.compile(r"[0-9]{1,9}")
_SEPARATORS = re.compile(r"[,; ]+")


class Configuration(NamedTuple):
    """A guest's or container's name, title and tags; "" if absent."""

    name: str
    title: str  # the first line of its description
    tags: str = ""  # sorted, "a;b"


class Known(NamedTuple):
    """The node's configuration."""

    guests: Mapping[str, Configuration]  # by VMID
    containers: Mapping[str, Configuration]  # by CTID
    pools: Mapping[str, str]  # by VMID or CTID


def parse(content: bytes) -> Configuration:
    """Parse a guest's or container's file; never fails."""
    name = title = tags = ""
    for line in content.decode("utf-8", "backslashreplace").split("\n"):
        if line.startswith("["):
            break
        key, colon, value = line.partition(":")
        if line.startswith("#"):
            title = title or unquote(line[1:]).strip()[:MAX_CHARACTERS]
        elif colon and key in {"name", "hostname"}:
            name = value.strip()
        elif colon and key == "tags":
            tags = ";".join(sorted(set(filter(None, _SEPARATORS.split(value.strip())))))
        elif colon and key == "description":
            title = title or unquote(value).strip().partition("\n")[0][:MAX_CHARACTERS]
    return Configuration(clean(name), clean(title), clean(tags))


def parse_pools(content: bytes) -> dict[str, str]:
    """Return the pool of each VMID and CTID in a user.cfg; skips other lines."""
    found = {}
    for line in content.decode("utf-8", "backslashreplace").split("\n"):
        kind, name, _comment, vmids = [*line.split(":"), "", "", ""][:4]
        if kind == "pool":
            found.update(dict.fromkeys(filter(_VMID.fullmatch, _SEPARATORS.split(vmids)), clean(name)))
    return found


def read(folder: Path = FOLDER) -> dict[str, bytes]:
    """Return this node's files by their names: "100" of a guest, "lxc/101" of a container, POOLS without users.

    Files deleted meanwhile are missing. Raises SourceUnavailable without Proxmox or permission, SourceError if reading
    fails.
    """
    try:
        guests = {path.stem: path for path in _configurations(folder / "qemu-server")}
        with contextlib.suppress(FileNotFoundError):
            guests |= {f"{_LXC}{path.stem}": path for path in _configurations(folder / "lxc")}
        found = {}
        for name, path in guests.items():
            with contextlib.suppress(FileNotFoundError):
                found[name] = read_bytes(path)
        with contextlib.suppress(FileNotFoundError):
            users = read_bytes(folder / POOLS).split(b"\n")
            found[POOLS] = b"\n".join(line for line in users if line.startswith(b"pool:"))
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{folder}/qemu-server is absent: Proxmox is not here") from error
    except PermissionError as error:
        raise SourceUnavailable(
            f"{folder} must not be read: run this as root or in the group www-data; names are QEMU's command lines'"
        ) from error
    except OSError as error:
        raise SourceError(f"{folder} can't be read: {error.strerror}") from error
    return found


def _configurations(folder: Path) -> Iterable[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix == ".conf" and _VMID.fullmatch(path.stem)]


def understand(files: Mapping[str, bytes]) -> Known:
    """Parse the files; never fails."""
    return Known(
        guests={name: parse(content) for name, content in files.items() if _VMID.fullmatch(name)},
        containers={name[len(_LXC) :]: parse(content) for name, content in files.items() if name.startswith(_LXC)},
        pools=parse_pools(files.get(POOLS, b"")),
    )


def joined(guests: Sequence[Guest], known: Known) -> tuple[Guest, ...]:
    """Set the guests' current names, titles, tags and pools; each VMID belongs to one guest."""
    of_vmids = owners((guest.id, guest) for guest in guests if guest.manager == "proxmox" and guest.standing > A_USERS)

    def named(guest: Guest) -> Guest:
        found = known.guests.get(guest.id) if of_vmids.get(guest.id) == guest.pid else None
        if found is None:
            return guest
        domain = Domain(title=found.title, tags=found.tags, pool=known.pools.get(guest.id, ""))
        return guest._replace(name=found.name or guest.name, domain=domain)

    return tuple([named(guest) for guest in guests])


def families(known: Known) -> list[Metric]:
    """Return the containers.

    A guest keeps a name that both have. The cgroup is that of Proxmox since 4.0, on any version of cgroups.
    """
    names = {ctid: found.name or f"CT{ctid}" for ctid, found in known.containers.items()}
    taken = Counter([*names.values(), *[found.name for found in known.guests.values()]])
    containers = [
        {
            "container": name if taken[name] == 1 else f"{name} ({ctid})",
            "id": ctid,
            "cgroup": f"/lxc/{ctid}",
            "title": known.containers[ctid].title,
            "tags": known.containers[ctid].tags,
            "pool": known.pools.get(ctid, ""),
        }
        for ctid, name in names.items()
    ]
    return [
        info(
            "kvm_container_info",
            "Cgroup, id (CTID), title, tags and pool of each of Proxmox's LXC containers on this host, running or not; "
            "the id is added to a name that others have.",
            containers,
        )
    ]


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
        """Return the containers; raises like Background.latest()."""
        return families(self.background.latest())

    def add_to(self, guests: Sequence[Guest]) -> tuple[Guest, ...]:
        """Set the guests' names and the like, if these aren't too old."""
        known = self.background.peek()
        if known is None:
            return tuple(guests)
        self.background.wake_for({guest.id for guest in guests if guest.manager == "proxmox"} - known.guests.keys())
        return joined(guests, known)
