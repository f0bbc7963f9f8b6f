"""Packages of Debian and Ubuntu, as this machine's own mirrors serve them, unpacked without being installed.

No root is needed, and nothing outside the checkout changes: apt works on a throw-away state folder of its own, with the
machine's sources, keys and proxies. What it downloads is trusted by the mirrors' signatures. Packages are kept in the
cache for the next checkout, and looked up again after a week.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from deploy.programs.catalogue import Packages
from deploy.programs.places import ProgramsError, UnavailableError, cache, exclusively

APT_CONF = Path(__file__).with_name("apt.conf")
APT_SECONDS = 600
FRESH_SECONDS = 7 * 24 * 3600
STRONG = {"SHA256", "SHA512"}  # checksums


@dataclass(frozen=True)
class Deb:
    """One package as a mirror serves it."""

    name: str
    version: str
    file_name: str  # NAME_VERSION_ARCHITECTURE.deb, the version quoted as apt does it (an epoch's colon is %3a)
    checksum: str  # as apt writes it: SHA256:… or SHA512:…, the strongest that the mirror's lists have


def system() -> str:
    """The distribution, as "Debian GNU/Linux 12 (bookworm)"; raises `UnavailableError` if it has no apt."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = "this system"
    for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{name} has no {tool}")
    return name


def find(packages: Packages, also: Sequence[Packages] = (), *, since: float = 0) -> list[Deb]:
    """What this machine's mirrors have of these packages, downloaded into the cache.

    Mirrors are asked if the cache has no answer of the past week, or none after `since` (Unix time): then for `also`
    too, as reading their lists takes longest. If none can be reached, an older answer does. Raises `UnavailableError`
    if packages can't be had, or are older than their minimum.
    """
    system()
    with exclusively(_folder()):
        answer = _answer(packages)
        known = _read(answer)
        if known is None or answer.stat().st_mtime < max(since, time.time() - FRESH_SECONDS):
            try:
                known = _ask(packages, also)
            except _UnreachableError:
                if known is None:
                    raise
    for deb in known:
        minimum = packages.minimum.get(deb.name)
        if (
            minimum
            and subprocess.run(["dpkg", "--compare-versions", deb.version, "lt", minimum], check=False).returncode == 0
        ):
            raise UnavailableError(f"the {deb.name} of {system()} is {deb.version}, and {minimum} or newer is needed")
    return known


def unpack(debs: Sequence[Deb], target: Path, adapt: Callable[[Path], None] = lambda _: None) -> None:
    """Unpack packages that `find` gave into `target`, adapted; it appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=target.parent) as folder:
        unpacked = Path(folder) / "root"
        for deb in debs:
            dpkg = subprocess.run(
                ["dpkg", "-x", _folder() / deb.file_name, unpacked],
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            if dpkg.returncode != 0:
                full = os.strerror(errno.ENOSPC)  # tar says so for each file, among other things
                said = full if full in dpkg.stderr else " ".join(dpkg.stderr.split())
                raise ProgramsError(f"cannot unpack {deb.file_name}: {said}")
        adapt(unpacked)
        unpacked.rename(target)


def content(debs: Sequence[Deb]) -> str:
    """What decides the packages' content, twelve digits."""
    return hashlib.sha256("".join(sorted(deb.checksum for deb in debs)).encode()).hexdigest()[:12]


class _UnreachableError(UnavailableError):
    """No mirror answers."""


@dataclass(frozen=True)
class _Apt:
    """apt with package lists of its own in `folder`; the machine's sources, keys, proxies and passwords stay in use.

    sources: read instead of /etc/apt's, if given.
    """

    folder: Path
    sources: Path | None = None

    def update(self) -> None:
        self._run("apt-get", "update")

    def download(self, debs: Sequence[Deb]) -> None:
        """Put each package into `folder`; apt checks them against the lists that the mirrors have signed."""
        self._run("apt-get", "download", *(f"{deb.name}={deb.version}" for deb in debs))

    def names(self) -> set[str]:
        """All packages there are."""
        return set(self._run("apt-cache", "pkgnames").split())

    def dependencies(self, names: Sequence[str]) -> str:
        """What `apt-cache depends` prints of packages; see `_first_choices`."""
        unwanted = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
        return self._run("apt-cache", "depends", *(f"--no-{relation}" for relation in unwanted), *names)

    def candidates(self, names: Sequence[str]) -> list[Deb]:
        """The version of each package that apt would install now."""
        versions = dict(
            re.findall(
                r"^(\S+):\n(?:.*\n)*?  Candidate: (\S+)$", self._run("apt-cache", "policy", *names), re.MULTILINE
            )
        )
        found = []
        for line in self._run("apt-get", "download", "--print-uris", *names).splitlines():
            _uri, file_name, _size, checksum = line.split()
            kind = checksum.partition(":")[0]
            if kind not in STRONG:
                raise UnavailableError(f"the mirror gives no SHA-256 for {file_name}, only {kind}; use another mirror")
            name = file_name.partition("_")[0]
            found.append(Deb(name, versions[name], file_name, checksum))
        return found

    def _run(self, program: str, *arguments: str) -> str:
        """Run a program of apt's in `folder`; give its output. Raises `UnavailableError` with its first complaint."""
        options: dict[str, Path | str] = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": "/dev/null",  # as if nothing were installed
            "Dir::Cache": self.folder / "cache",
            "Dir::Log": self.folder / "log",
        }
        if self.sources is not None:
            options |= {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": self.sources}
        command = [program, "-q", "-q", "-c", str(APT_CONF)]
        command += [f"-o{name}={value}" for name, value in options.items()]
        try:
            process = subprocess.run(
                [*command, *arguments],
                cwd=self.folder,
                env={**os.environ, "LC_ALL": "C", "TMPDIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=APT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"`{program} {arguments[0]}` took longer than {APT_SECONDS // 60} minutes") from None
        if process.returncode != 0:
            # The first complaint says why, later ones only what follows from it.
            complaints = [line for line in process.stderr.splitlines() if line.startswith(("E:", "W:"))]
            complaints.append(f"E: `{program} {arguments[0]}` ended with status {process.returncode}")
            raise UnavailableError(" ".join(complaints[0][2:].split()))
        return process.stdout


def _ask(packages: Packages, also: Sequence[Packages]) -> list[Deb]:
    """Have apt find and download packages, and `also` those that it can. Raises `_UnreachableError` if no mirror
    answers."""
    with _private_apt(non_free=packages.non_free) as apt:
        unreachable = None
        try:
            apt.update()
        except UnavailableError as error:
            # Not fatal yet: it may be a third-party source of the machine that has none of our packages.
            unreachable = error
        try:
            debs = _download(apt, packages)
        except UnavailableError as error:
            if unreachable is not None:
                raise _UnreachableError(
                    f"cannot read the package lists: {unreachable}; check the network and /etc/apt"
                ) from None
            raise UnavailableError(f"cannot download packages: {error}; check the network and /etc/apt") from None
        for other in also:
            if other != packages and other.non_free == packages.non_free:
                with contextlib.suppress(UnavailableError):  # said once these are asked for themselves
                    _download(apt, other)
    return debs


def _download(apt: _Apt, packages: Packages) -> list[Deb]:
    """Have apt, which has read its lists, find packages and download them into the cache."""
    debs = apt.candidates(_with_dependencies(apt, packages))
    missing = [deb for deb in debs if not _is_whole(_folder() / deb.file_name, deb)]
    apt.download(missing) if missing else None
    for deb in missing:
        if not _is_whole(apt.folder / deb.file_name, deb):
            raise UnavailableError(f"{deb.file_name} from the mirror does not have the checksum of its package list")
        # Same file system: appears whole or not at all.
        (apt.folder / deb.file_name).rename(_folder() / deb.file_name)
    _write(_answer(packages), debs)
    return debs


def _with_dependencies(apt: _Apt, packages: Packages) -> list[str]:
    """The packages that there are, and those of their dependencies, and of theirs, that `follows` matches."""
    there = apt.names()
    new = [name for name in packages.names if name in there]
    if not new:
        component = f" nor their component {_non_free()}" if packages.non_free else ""
        raise UnavailableError(f"no source in /etc/apt{component} has {packages.names[0]}")
    found = set(new)
    while new and packages.follows:
        wanted = _first_choices(apt.dependencies(new), there)
        new = sorted(name for name in wanted - found if re.fullmatch(packages.follows, name))
        found.update(new)
    return sorted(found)


def _first_choices(printed: str, there: set[str]) -> set[str]:
    """The dependencies in what `apt-cache depends` prints: of alternatives, and of what provides a name, the first.

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
    """A list of sources in either format (man sources.list), with a component added wherever it has main."""
    lists_main = re.compile(r"^((?:deb\s|components:).*\smain)(?=\s|$)", re.IGNORECASE | re.MULTILINE)
    return lists_main.sub(rf"\1 {component}", text)


def _non_free() -> str:
    """What this distribution calls the component for what isn't free."""
    return "multiverse" if platform.freedesktop_os_release()["ID"] == "ubuntu" else "non-free"


def _with_non_free(folder: Path) -> Path:
    """Put copies of the machine's lists of sources into a new folder, with that component."""
    folder.mkdir()
    asked = ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    places = dict(line.split("=", 1) for line in shlex.split(said))
    parts = Path(places["PARTS"])
    for file in (Path(places["LIST"]), *parts.glob("*.list"), *parts.glob("*.sources")):
        if file.is_file():
            name = file.name if file.parent == parts else "machine.list"
            (folder / name).write_text(with_component(file.read_text(), _non_free()))
    return folder


@contextlib.contextmanager
def _private_apt(*, non_free: bool) -> Iterator[_Apt]:
    """An `_Apt` in a folder that lives as long as the block. The cache must be held alone (`exclusively`)."""
    folder = _folder() / "apt"
    shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
    for name in ("state/lists/partial", "cache/archives/partial", "log"):
        Path(folder, name).mkdir(parents=True)
    try:
        yield _Apt(folder, _with_non_free(folder / "sources.d") if non_free else None)
    finally:
        shutil.rmtree(folder)


def _folder() -> Path:
    """Where packages of this machine's release are kept."""
    release = platform.freedesktop_os_release()
    return cache("packages") / f"{release['ID']}-{release.get('VERSION_ID', 'unstable')}-{platform.machine()}"


def _answer(packages: Packages) -> Path:
    """Where it is kept what mirrors had of these packages when they were asked last."""
    asked = repr((sorted(packages.names), packages.follows, [field.name for field in fields(Deb)]))
    return _folder() / f"{hashlib.sha256(asked.encode()).hexdigest()[:12]}.json"


def _read(answer: Path) -> list[Deb] | None:
    """The packages in an answer; None unless all of them are still here, and whole."""
    if not answer.exists():
        return None
    debs = [Deb(**deb) for deb in json.loads(answer.read_text())]
    return debs if all(_is_whole(_folder() / deb.file_name, deb) for deb in debs) else None


def _write(answer: Path, debs: Sequence[Deb]) -> None:
    new = answer.with_suffix(".new")
    new.write_text(json.dumps([asdict(deb) for deb in debs], indent=1))
    new.rename(answer)
    kept = {deb["file_name"] for other in answer.parent.glob("*.json") for deb in json.loads(other.read_text())}
    for file in answer.parent.glob("*.deb"):
        if file.name not in kept:
            file.unlink()


def _is_whole(file: Path, deb: Deb) -> bool:
    if not file.is_file():
        return False
    kind, _, digest = deb.checksum.partition(":")
    with file.open("rb") as read:
        return hashlib.file_digest(read, kind.lower()).hexdigest() == digest
