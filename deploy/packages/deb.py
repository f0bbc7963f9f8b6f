"""Builds Debian packages of the exporters, from deploy/packages/debian: make deb.

Uses Debian's own tools in a folder with the layout that they expect, without network. Version and date come from the
checkout, so builds of the same commit on the same release are identical.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path

from deploy import StackError
from deploy.places import CHECKOUT

PACKAGING = CHECKOUT / "deploy" / "packages" / "debian"
INSTALLER = CHECKOUT / "deploy" / "packages" / "proxmox" / "install-proxmox.sh"
EXPORTERS = CHECKOUT / "exporters"
NO_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc")


class BuildError(StackError):
    """The packages can't be built."""


def version() -> str:
    """The version of the exporters and their packages."""
    found = re.search(r'^__version__ = "(.+)"$', (EXPORTERS / "virtscope/__init__.py").read_text(), re.MULTILINE)
    assert found
    return found[1]


def source_date() -> int:
    """The packages' date in seconds since 1970: SOURCE_DATE_EPOCH, or else the commit's date."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        log = ["git", "-C", str(CHECKOUT), "log", "-1", "--format=%ct"]
        try:
            given = subprocess.run(log, check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError):
            raise BuildError("the packages' date is that of the commit: without git, set SOURCE_DATE_EPOCH") from None
    return int(given)


def build(target: Path, packaged_version: str | None = None) -> list[Path]:
    """Build the packages into the folder `target`, and return them; raises `BuildError`.

    packaged_version: replaces the checkout's version, for tests of upgrades.
    """
    packaged_version = packaged_version or version()
    date = source_date()
    with tempfile.TemporaryDirectory(prefix="virtscope-deb-") as folder:
        source = Path(folder) / f"virtscope-{packaged_version}"
        shutil.copytree(EXPORTERS, source / "exporters", ignore=NO_SOURCE)
        shutil.copytree(PACKAGING, source / "debian", ignore=NO_SOURCE)
        for file in (CHECKOUT / "CHANGELOG.md", PACKAGING.with_name("exporter.flags")):
            shutil.copy(file, source)
        (source / "exporters/virtscope/__init__.py").write_text(
            (EXPORTERS / "virtscope/__init__.py").read_text().replace(f'"{version()}"', f'"{packaged_version}"')
        )
        (source / "debian/changelog").write_text(_changelog(packaged_version, date))
        _dpkg_buildpackage(source, date)
        target.mkdir(parents=True, exist_ok=True)
        return sorted(Path(shutil.copy(deb, target)) for deb in Path(folder).glob("*.deb"))


def publish(debs: Sequence[Path]) -> list[Path]:
    """Add their checksums and Proxmox's installer, which reads them, to the packages' folder; return both files."""
    folder = debs[0].parent
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(deb.read_bytes()).hexdigest()}  {deb.name}\n" for deb in debs))
    return [sums, Path(shutil.copy(INSTALLER, folder))]


def _changelog(packaged_version: str, date: int) -> str:
    maintainer = re.search(r"^Maintainer: (.+)$", (PACKAGING / "control").read_text(), re.MULTILINE)
    assert maintainer
    return (
        f"virtscope ({packaged_version}) unstable; urgency=medium\n\n"
        "  * /usr/share/doc/virtscope-common/CHANGELOG.md.gz says what has changed.\n\n"
        f" -- {maintainer[1]}  {formatdate(date)}\n"
    )


def _dpkg_buildpackage(source: Path, date: int) -> None:
    if shutil.which("dpkg-buildpackage") is None:
        raise BuildError("Debian's build tools are missing: apt-get install dpkg-dev")
    # The distribution's Python, whose packages the build needs, even if another one is first on PATH.
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(source.parent),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(date),
    }
    done = subprocess.run(
        ["dpkg-buildpackage", "--build=binary", "--no-sign"],
        cwd=source, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        missing = re.search(r"[Uu]nmet build dependencies: (.+)", done.stdout)
        if missing:
            needed = re.sub(r":native| \(.*?\)", "", missing[1])
            raise BuildError(f"packages that the build needs are missing: apt-get install {needed}")
        raise BuildError(f"dpkg-buildpackage failed:\n{done.stdout[-4000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build Debian packages of the exporters.")
    parser.add_argument("folder", type=Path, help="where to put them")
    try:
        debs = build(parser.parse_args().folder)
        print(*debs, *publish(debs), sep="\n")
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
