"""A folder that apt can install the Debian packages from, once a web server has it.

Format: page DebianRepository/Format of Debian's wiki, and apt-secure(8).
"""

import gzip
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path

from deploy.packages import deb
from deploy.packages.deb import BuildError

SUITE = "stable"
ARCHITECTURES = ("all", "amd64", "arm64")  # the packages are for all; apt asks for its own


def build(packages: Sequence[Path], folder: Path, key: str | None = None) -> None:
    """Fill the folder, and sign it with that key of the user's GnuPG; raises `BuildError`."""
    pool, suite = folder / "pool", folder / "dists" / SUITE
    pool.mkdir(parents=True)
    for package in packages:
        shutil.copy(package, pool)
    scanned = subprocess.run(["dpkg-scanpackages", "pool"], cwd=folder, capture_output=True, check=False)
    if scanned.returncode != 0:
        raise BuildError(f"dpkg-scanpackages failed: {scanned.stderr.decode().strip()}")
    for architecture in ARCHITECTURES:
        binary = suite / "main" / f"binary-{architecture}"
        binary.mkdir(parents=True)
        (binary / "Packages").write_bytes(scanned.stdout)
        (binary / "Packages.gz").write_bytes(gzip.compress(scanned.stdout, mtime=deb.source_date()))
    (suite / "Release").write_text(_release(suite))
    if key is not None:
        _gpg(key, "--clearsign", "--output", f"{suite}/InRelease", f"{suite}/Release")
        _gpg(key, "--armor", "--detach-sign", "--output", f"{suite}/Release.gpg", f"{suite}/Release")
        _gpg(key, "--armor", "--output", f"{folder}/virtscope.asc", "--export", key)


def _release(suite: Path) -> str:
    indexes = sorted(file for file in suite.rglob("Packages*") if file.is_file())
    sums = "".join(
        f" {hashlib.sha256(file.read_bytes()).hexdigest()} {file.stat().st_size} {file.relative_to(suite)}\n"
        for file in indexes
    )
    return (
        f"Origin: virtscope\nLabel: virtscope\nSuite: {SUITE}\nCodename: {SUITE}\nVersion: {deb.version()}\n"
        f"Date: {formatdate(deb.source_date(), usegmt=True)}\n"
        f"Architectures: {' '.join(ARCHITECTURES)}\nComponents: main\nSHA256:\n{sums}"
    )


def _gpg(key: str, *words: str) -> None:
    command = ["gpg", "--batch", "--yes", "--quiet", "--local-user", key, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"gpg can't sign with key {key}: {done.stderr.strip()}")
