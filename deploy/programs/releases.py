"""Official releases: downloaded, checked against their pinned SHA-256, and only then unpacked.

A download that breaks off goes on where it was. `VIRTSCOPE_MIRROR` is for sites without internet: the URL of a folder
that has the same files, by the same names. Proxies are those of the environment, `https_proxy` and `no_proxy`.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from deploy.programs.catalogue import Release
from deploy.programs.places import ProgramsError, UnavailableError, cache, exclusively

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MIRROR = "VIRTSCOPE_MIRROR"
PATIENCE_SECONDS = 20  # for a connection, and for the next bytes
TRIES = 5  # of a download that breaks off each time, after more bytes
BLOCK_BYTES = 1 << 18
REFRESH_SECONDS = 0.5
LITTLE_BYTES = 1 << 20  # free, where tar has just failed

_unreachable: dict[str, str] = {}  # sites that did not answer this process, and why: they are not asked twice


def architecture() -> str:
    """Debian's name for this machine's architecture; `UnavailableError` unless releases for it are pinned."""
    try:
        return ARCHITECTURES[platform.machine()]
    except KeyError:
        raise UnavailableError(f"no release is pinned for {platform.machine()}") from None


def url(release: Release, environment: Mapping[str, str] = os.environ, wanted: str = "") -> str:
    """Where to get the release: from its authors, or from the mirror if one is set.

    wanted: the architecture, as Debian calls it; this machine's if it isn't named.
    """
    wanted = wanted or architecture()
    machine = next(machine for machine, name in ARCHITECTURES.items() if name == wanted)
    official = release.url.format(version=release.version, architecture=wanted, machine=machine)
    mirror = environment.get(MIRROR)
    return f"{mirror.rstrip('/')}/{official.rpartition('/')[2]}" if mirror else official


def is_cached(release: Release) -> bool:
    """Whether it has been downloaded."""
    try:
        return _file(release, architecture()).exists()
    except UnavailableError:
        return False


def unpack(release: Release, target: Path, wanted: str = "") -> None:
    """Put the release's files into `target`, downloaded first unless the cache has it; complete or not at all.

    wanted: the architecture, if not this machine's.

    Raises `UnavailableError` if it can't be had, and `ProgramsError` if there is no place for it here.
    """
    file = _downloaded(release, wanted or architecture())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=target.parent) as folder:
        new = Path(folder) / "root"
        new.mkdir()
        if file.name.endswith(".tar.gz"):
            tar = subprocess.run(
                ["tar", "--extract", "--gzip", "--no-same-owner", "--strip-components=1", "-C", new, "-f", file],
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            if tar.returncode != 0:
                full = shutil.disk_usage(folder).free < LITTLE_BYTES
                said = f"no space left in {target.parent}" if full else " ".join(tar.stderr.split())
                raise ProgramsError(f"cannot unpack {file.name}: {said}")
        else:
            [name] = release.files.values()
            (new / name).write_bytes(file.read_bytes())
            (new / name).chmod(0o755)
        new.rename(target)


def _downloaded(release: Release, wanted: str) -> Path:
    """The release's file in the cache, with the pinned checksum."""
    source = url(release, wanted=wanted)
    expected = release.sha256[wanted]
    file = _file(release, wanted)
    with exclusively(file.parent):
        if not (file.is_file() and _sha256(file) == expected):
            part = file.with_name(file.name + ".part")
            resumed = part.exists()
            _download(source, part)
            if _sha256(part) != expected and resumed:  # what was there may have been of something else
                part.unlink()
                _download(source, part)
            found = _sha256(part)
            if found != expected:
                part.unlink()
                raise UnavailableError(
                    f"{file.name} from {_site(source)} is not used: its SHA-256 is {found[:12]}…, not {expected[:12]}…"
                )
            part.rename(file)
    return file


def _file(release: Release, wanted: str) -> Path:
    return cache("releases") / url(release, wanted=wanted).rpartition("/")[2]


def _download(source: str, part: Path) -> None:
    """Append to `part` what is missing of what is at this URL."""
    site = _site(source)
    if site in _unreachable:
        raise UnavailableError(_unreachable[site])
    for last_try in (False,) * (TRIES - 1) + (True,):
        before = part.stat().st_size if part.exists() else 0
        try:
            _download_once(source, part, before)
        except urllib.error.HTTPError as error:
            raise UnavailableError(f"{site} answers {error.code} {error.reason} for {part.stem}") from None
        except (http.client.HTTPException, urllib.error.URLError, OSError) as error:
            if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                part.unlink()
                raise ProgramsError(f"no space left for {part.stem} in {part.parent}") from None
            after = part.stat().st_size if part.exists() else 0
            if after == before == 0:
                _unreachable[site] = f"{site} cannot be reached: {_why(error)}"
                raise UnavailableError(_unreachable[site]) from None
            if last_try or after == before:
                raise UnavailableError(
                    f"the connection to {site} broke off after {after // 10**6} MB of {part.stem} ({_why(error)}); "
                    "another try goes on from there"
                ) from None
        else:
            return


def _download_once(source: str, part: Path, offset: int) -> None:
    """Raises what urllib raises, and `http.client.IncompleteRead` if the connection ends too early."""
    request = urllib.request.Request(source, headers={"Range": f"bytes={offset}-"} if offset else {})
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return  # it was complete; the checksum says whether it is right
    with answer, part.open("ab") as file:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            file.truncate(0)
            offset = 0
        length = answer.headers["Content-Length"]
        total = offset + int(length) if length else None
        with _Progress(part.stem, total) as progress:
            while block := answer.read(BLOCK_BYTES):
                file.write(block)
                offset += len(block)
                progress.show(offset)
        if total is not None and offset < total:
            raise http.client.IncompleteRead(b"", total - offset)


class _Progress:
    """How far a download is, in a line that is overwritten; nothing where nobody watches."""

    def __init__(self, name: str, total: int | None) -> None:
        self._name = name
        self._total = total
        self._next = time.monotonic() + REFRESH_SECONDS
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")

    def show(self, done: int) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._next = time.monotonic() + REFRESH_SECONDS
            self._shown = True
            of = f" of {self._total / 10**6:.0f}" if self._total else ""
            sys.stderr.write(f"\r\033[K{self._name}: {done / 10**6:.0f}{of} MB")
            sys.stderr.flush()


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer for {PATIENCE_SECONDS} s"
    if isinstance(reason, http.client.IncompleteRead):
        return f"{reason.expected} bytes are missing"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason)


def _site(source: str) -> str:
    return urllib.parse.urlsplit(source).netloc.rpartition("@")[2]


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
