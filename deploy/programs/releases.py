"""Official releases: downloaded, checked against their pinned SHA-256, and only then unpacked.

`VIRTSCOPE_MIRROR` is for sites without internet: the URL of a folder with the same files, by the same names.
Proxies are those of the environment, `https_proxy` and `no_proxy`.
"""

import errno
import hashlib
import http.client
import os
import platform
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from deploy.places import ProgramsError, UnavailableError, cache, exclusively
from deploy.programs.catalogue import Release

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MIRROR = "VIRTSCOPE_MIRROR"
MIN_FREE_BYTES = 1 << 20  # with less, tar's error is caused by the full disk
TIMEOUT_SECONDS = 20  # for the connection, and for each read

_unreachable: dict[str, str] = {}  # sites that didn't answer this process, and why: no second try


def architecture() -> str:
    """Debian's name for this machine's architecture; `UnavailableError` unless releases for it are pinned."""
    try:
        return ARCHITECTURES[platform.machine()]
    except KeyError:
        raise UnavailableError(f"no release is pinned for {platform.machine()}") from None


def url(release: Release, environment: Mapping[str, str] = os.environ, wanted: str = "") -> str:
    """The URL of the release, at its authors' site or at the mirror if set.

    wanted: Debian's name of the architecture; by default this machine's.
    """
    wanted = wanted or architecture()
    machine = next(machine for machine, name in ARCHITECTURES.items() if name == wanted)
    official = release.url.format(version=release.version, architecture=wanted, machine=machine)
    mirror = environment.get(MIRROR)
    return f"{mirror.rstrip('/')}/{official.rpartition('/')[2]}" if mirror else official


def unpack(release: Release, target: Path, wanted: str = "") -> None:
    """Put the release's files into `target`, downloaded unless cached; complete or not at all.

    wanted: the architecture, if not this machine's.

    Raises `UnavailableError` if it is unavailable, and `ProgramsError` if there is no space for it.
    """
    file = _downloaded(release, wanted or architecture())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=target.parent) as folder:
        new = Path(folder) / "root"
        new.mkdir()
        if file.name.endswith(".tar.gz"):
            command = ["tar", "--extract", "--gzip", "--no-same-owner", "--strip-components=1", f"-C{new}", f"-f{file}"]
            environment = {**os.environ, "LC_ALL": "C"}
            tar = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if tar.returncode != 0:
                full = shutil.disk_usage(folder).free < MIN_FREE_BYTES
                said = f"no space left in {target.parent}" if full else " ".join(tar.stderr.split())
                raise ProgramsError(f"cannot unpack {file.name}: {said}")
        else:
            [name] = release.files.values()
            shutil.copyfile(file, new / name)
            (new / name).chmod(0o755)
        new.rename(target)


def _downloaded(release: Release, wanted: str) -> Path:
    """The release's file in the cache, with the pinned checksum."""
    source, expected, file = url(release, wanted=wanted), release.sha256[wanted], _file(release, wanted)
    with exclusively(file.parent):
        if not (file.is_file() and _sha256(file) == expected):
            part = file.with_name(f"{file.name}.part")
            try:
                _download(source, part)
                if (found := _sha256(part)) != expected:
                    raise UnavailableError(
                        f"{file.name} from {_site(source)} is not used: its SHA-256 is {found[:12]}…, "
                        f"not {expected[:12]}…"
                    )
                part.rename(file)
            finally:
                part.unlink(missing_ok=True)
    return file


def _file(release: Release, wanted: str) -> Path:
    return cache("releases") / url(release, wanted=wanted).rpartition("/")[2]


def _download(source: str, target: Path) -> None:
    site = _site(source)
    if site in _unreachable:
        raise UnavailableError(_unreachable[site])
    try:
        with urllib.request.urlopen(source, timeout=TIMEOUT_SECONDS) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
            if file.tell() < int(answer.headers["Content-Length"] or 0):  # read(size) doesn't raise
                raise http.client.IncompleteRead(b"")
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"{site} answers {error.code} {error.reason} for {target.stem}") from None
    except (http.client.HTTPException, OSError) as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ProgramsError(f"no space left for {target.stem} in {target.parent}") from None
        if target.exists() and target.stat().st_size:
            raise UnavailableError(f"the connection to {site} broke off while {target.stem} was downloaded") from None
        _unreachable[site] = f"{site} cannot be reached: {_why(error)}"
        raise UnavailableError(_unreachable[site]) from None


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer for {TIMEOUT_SECONDS} s"
    return reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)


def _site(source: str) -> str:
    return urllib.parse.urlsplit(source).netloc.rpartition("@")[2]


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
