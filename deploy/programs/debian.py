"""Gets packages of Debian and Ubuntu from this machine's mirrors, unpacked without being installed.

This needs no root, and changes nothing outside the cache: apt uses a state folder there, with the machine's sources,
keys and proxies. Downloads are verified by the mirrors' signatures. Lists and packages are kept for the next checkout,
and refreshed after a week.
"""

import errno
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.places import ProgramsError, UnavailableError, cache, exclusively
from deploy.programs.catalogue import Packages

APT_CONF = Path(__file__).with_name("apt.conf")
APT_SECONDS = 600
FRESH_SECONDS = 7 * 24 * 3600
_UNWANTED = [f"--no-{each}" for each in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]


@dataclass(frozen=True)
class Deb:
    """One package on a mirror."""

    name: str
    version: str
    file_name: str  # NAME_VERSION_ARCHITECTURE.deb, the version quoted like apt's (an epoch's colon is %3a)
    checksum: str  # in apt's format: SHA256:… or SHA512:…, the strongest in the mirror's lists


def system() -> str:
    """The distribution, such as "Debian GNU/Linux 12 (bookworm)"; raises `UnavailableError` without apt."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = "this system"
    for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{name} has no {tool}")
    return name


def find(packages: Packages, since: float = 0) -> list[Deb]:
    """Download the available ones of these packages from this machine's mirrors into the cache.

    Mirrors' lists are read if the cache has none of the past week, or none after `since` (Unix time); older lists are
    used if no mirror is reachable. Raises `UnavailableError` if packages are unavailable, or older than their minimum.
    """
    name = system()
    with exclusively(_folder()):
        apt = _Apt(_folder() / ("non-free" if packages.non_free else "lists"), non_free=packages.non_free)
        unreachable = ""
        if apt.age() > min(FRESH_SECONDS, time.time() - since):
            try:
                apt.update()
            except UnavailableError as error:  # maybe of an unrelated third-party source
                unreachable = str(error)
        try:
            debs = _download(apt, packages)
        except UnavailableError as error:
            why = f"read the package lists: {unreachable}" if unreachable else f"download packages: {error}"
            raise UnavailableError(f"cannot {why}; check the network and /etc/apt") from None
    for deb in debs:
        minimum = packages.minimum.get(deb.name)
        older = ["dpkg", "--compare-versions", deb.version, "lt", minimum or ""]
        if minimum and subprocess.run(older, check=False).returncode == 0:
            raise UnavailableError(f"the {deb.name} of {name} is {deb.version}, and {minimum} or newer is needed")
    return debs


def unpack(debs: Sequence[Deb], target: Path, adapt: Callable[[Path], None] = lambda _: None) -> None:
    """Unpack packages of `find` into `target`, adapted; it appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=target.parent) as folder:
        unpacked = Path(folder) / "root"
        for deb in debs:
            command = ["dpkg", "-x", str(_folder() / deb.file_name), str(unpacked)]
            environment = {**os.environ, "LC_ALL": "C"}
            dpkg = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if dpkg.returncode != 0:
                full = os.strerror(errno.ENOSPC)  # tar repeats it for each file, among other messages
                said = full if full in dpkg.stderr else " ".join(dpkg.stderr.split())
                raise ProgramsError(f"cannot unpack {deb.file_name}: {said}")
        adapt(unpacked)
        unpacked.rename(target)


def content(debs: Sequence[Deb]) -> str:
    """A hash of the packages' content, twelve digits."""
    return hashlib.sha256("".join(sorted(deb.checksum for deb in debs)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class _Apt:
    """apt with its own package lists in `folder`, and the machine's sources, keys, proxies and passwords."""

    folder: Path
    non_free: bool

    def age(self) -> float:
        """The age of the lists in seconds."""
        read = self.folder / "read"
        return time.time() - read.stat().st_mtime if read.exists() else float("inf")

    def update(self) -> None:
        for name in ("state/lists/partial", "cache/archives/partial", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if self.non_free:
            _write_sources(self.folder / "sources.d")
        self.run("apt-get", "update")
        (self.folder / "read").touch()

    def candidates(self, names: Sequence[str]) -> list[Deb]:
        """The version of each package that apt would install now."""
        policy = self.run("apt-cache", "policy", *names)
        versions = dict(re.findall(r"^(\S+):\n(?:.*\n)*?  Candidate: (\S+)$", policy, re.MULTILINE))
        found = []
        for line in self.run("apt-get", "download", "--print-uris", *names).splitlines():
            _uri, file_name, _size, checksum = line.split()
            name = file_name.partition("_")[0]
            found.append(Deb(name, versions[name], file_name, checksum))
        return found

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of apt's; return its output. Raises `UnavailableError` with its first error."""
        options: dict[str, Path | str] = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": "/dev/null",  # as if nothing were installed
            "Dir::Cache": self.folder / "cache",
            "Dir::Log": self.folder / "log",
        }
        if self.non_free:
            options |= {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": self.folder / "sources.d"}
        command = [program, "-q", "-q", "-c", str(APT_CONF), *(f"-o{name}={value}" for name, value in options.items())]
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(self.folder)}
        try:
            process = subprocess.run(
                [*command, *arguments], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False, timeout=APT_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"`{program} {arguments[0]}` took longer than {APT_SECONDS // 60} minutes") from None
        if process.returncode != 0:
            # The first error is the cause; later ones follow from it.
            complaints = [line for line in process.stderr.splitlines() if line.startswith(("E:", "W:"))]
            complaints.append(f"E: `{program} {arguments[0]}` ended with status {process.returncode}")
            raise UnavailableError(" ".join(complaints[0][2:].split()))
        return process.stdout


def _download(apt: _Apt, packages: Packages) -> list[Deb]:
    """Find packages in apt's lists, and download missing ones into the cache; no partial files appear."""
    debs = apt.candidates(_with_dependencies(apt, packages))
    for deb in debs:
        if not _is_whole(_folder() / deb.file_name, deb):
            apt.run("apt-get", "download", f"{deb.name}={deb.version}")  # checked against the signed lists
            (apt.folder / deb.file_name).rename(_folder() / deb.file_name)
            for older in _folder().glob(f"{deb.name}_*.deb"):
                if older.name != deb.file_name:
                    older.unlink()
    return debs


def _with_dependencies(apt: _Apt, packages: Packages) -> list[str]:
    """The available packages, with their dependencies that match `follows`, recursively."""
    there = set(apt.run("apt-cache", "pkgnames").split())
    new = [name for name in packages.names if name in there]
    if not new:
        component = f" nor their component {_non_free()}" if packages.non_free else ""
        raise UnavailableError(f"no source in /etc/apt{component} has {packages.names[0]}")
    found = set(new)
    while new and packages.follows:
        wanted = _first_choices(apt.run("apt-cache", "depends", *_UNWANTED, *new), there)
        new = sorted(name for name in wanted - found if re.fullmatch(packages.follows, name))
        found.update(new)
    return sorted(found)


def _first_choices(printed: str, there: set[str]) -> set[str]:
    """The dependencies in the output of `apt-cache depends`: the first of alternatives and of a name's providers.

    >>> sorted(_first_choices("a\\n |Depends: b\\n  Depends: c\\n  Depends: <v>\\n    d\\n    e\\n", {*"bcde"}))
    ['b', 'd']
    """
    found, chosen, open_choice = set(), False, False
    for line in printed.splitlines():
        match = re.fullmatch(r" ([ |])(?:Pre)?Depends: (\S+)|    (\S+)", line)
        if match is None:  # a package whose dependencies follow
            chosen, open_choice = False, False
            continue
        bar, name, provider = match.groups()
        if provider is None:
            if not open_choice:
                chosen = False
            open_choice = bar == "|"
        candidate = provider or name
        if not chosen and candidate in there:
            found.add(candidate)
            chosen = True
    return found


def with_component(text: str, component: str) -> str:
    """A list of sources in either format (man sources.list), with a component added after each main."""
    lists_main = re.compile(r"^((?:deb\s|components:).*\smain)(?=\s|$)", re.IGNORECASE | re.MULTILINE)
    return lists_main.sub(rf"\1 {component}", text)


def _non_free() -> str:
    """This distribution's component for non-free packages."""
    return "multiverse" if platform.freedesktop_os_release()["ID"] == "ubuntu" else "non-free"


def _write_sources(folder: Path) -> None:
    """Put copies of the machine's lists of sources into a new folder, with the non-free component."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asked = ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    places = dict(line.split("=", 1) for line in shlex.split(said))
    parts = Path(places["PARTS"])
    for file in (Path(places["LIST"]), *parts.glob("*.list"), *parts.glob("*.sources")):
        if file.is_file():
            name = file.name if file.parent == parts else "machine.list"
            (folder / name).write_text(with_component(file.read_text(), _non_free()))


def _folder() -> Path:
    """The cache folder for packages of this machine's release."""
    release = platform.freedesktop_os_release()
    return cache("packages") / f"{release['ID']}-{release.get('VERSION_ID', 'unstable')}-{platform.machine()}"


def _is_whole(file: Path, deb: Deb) -> bool:
    if not file.is_file():
        return False
    kind, _, digest = deb.checksum.partition(":")
    with file.open("rb") as read:
        return hashlib.file_digest(read, kind.lower()).hexdigest() == digest
