"""Debian packages, downloaded and unpacked without installation and without root."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from deploy.programs import debian


class BuildError(Exception):
    """The image can't be built; the message says which command failed and what it printed."""


class Archive:
    """Debian's package archive from this machine's apt sources, with separate lists and status in `folder`."""

    def __init__(self, folder: Path) -> None:
        for name in ("state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        status = folder / "state" / "status"
        status.touch()  # nothing is installed, so all dependencies are downloaded
        settings = {
            "Dir::State": folder / "state",
            "Dir::State::status": status,
            "Dir::Cache": folder / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
        }
        self.options = ["-qq", f"-c={debian.APT_CONF}", *(f"-o{name}={value}" for name, value in settings.items())]
        run(["apt-get", *self.options, "update"])

    def dependency(self, package: str) -> str:
        """The package that a meta package such as linux-image-amd64 depends on."""
        listed = run(["apt-cache", *self.options, "depends", "--important", package])
        found = re.search(r"Depends: (\S+)", listed)
        if found is None:
            raise BuildError(f"{package} depends on nothing:\n{listed}")
        return found[1]

    def unpack(self, package: str, root: Path) -> None:
        """Unpack one package into the new folder `root`."""
        root.mkdir()
        run(["apt-get", *self.options, "download", package], cwd=root)
        [deb] = root.glob("*.deb")
        unpack(deb, root)

    def unpack_all(self, packages: Sequence[str], root: Path) -> None:
        """Unpack packages and all their dependencies into `root`."""
        debs = root.with_name(f"{root.name}-debs")
        (debs / "partial").mkdir(parents=True)
        install = ["install", "--yes", "--download-only", "--no-install-recommends"]
        run(["apt-get", *self.options, f"-oDir::Cache::archives={debs}", *install, *packages])
        for deb in debs.glob("*.deb"):
            unpack(deb, root)


def unpack(deb: Path, root: Path) -> None:
    """Unpack a package. dpkg-deb --extract would replace a link such as /bin by a folder."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as package:
        run(["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "-C", root], stdin=package.stdout)


def run(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    stdin: IO[bytes] | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    """Run a program to its end; return its output. Raises BuildError with the output if it fails."""
    env = {**os.environ, **(environment or {}), "LC_ALL": "C"}
    result = subprocess.run(
        command, cwd=cwd, stdin=stdin, env=env, text=True, capture_output=True, timeout=900, check=False
    )
    if result.returncode != 0:
        raise BuildError(
            f"{' '.join(map(str, command))} failed with status {result.returncode}:\n{result.stdout}{result.stderr}"
        )
    return result.stdout
