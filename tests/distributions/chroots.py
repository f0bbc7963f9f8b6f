"""Other releases of Debian and Ubuntu, debootstrapped from this machine's mirror and cached."""

import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy import programs
from tests.support.needs import missing

PACKAGES = ("ca-certificates", "make", "python3", "python3-venv", "util-linux")  # as in docs/install.md
USER = 1000
RENEWED_SECONDS = 7 * 24 * 3600
DEBOOTSTRAP_SECONDS = 1200
# A command prefix: processes and mounts of the command end with it and with the tests.
ENCLOSED = ["setpriv", "--pdeathsig=KILL"]
ENCLOSED += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"]
SCRIPTS = Path("/usr/share/debootstrap/scripts")
UBUNTU_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"


class MissingError(Exception):
    """This release isn't available on this machine; the message says why."""


@dataclass(frozen=True)
class Release:
    distribution: str
    suite: str
    title: str  # its own name for itself

    @property
    def components(self) -> str:
        return "main" if self.distribution == "debian" else "main,universe"


DEBIAN_11 = Release("debian", "bullseye", "Debian GNU/Linux 11 (bullseye)")
DEBIAN_12 = Release("debian", "bookworm", "Debian GNU/Linux 12 (bookworm)")
DEBIAN_13 = Release("debian", "trixie", "Debian GNU/Linux 13 (trixie)")
UBUNTU_16_04 = Release("ubuntu", "xenial", "Ubuntu 16.04")  # the oldest still on the mirrors: glibc 2.23, systemd 229
UBUNTU_22_04 = Release("ubuntu", "jammy", "Ubuntu 22.04")
UBUNTU_24_04 = Release("ubuntu", "noble", "Ubuntu 24.04")
UBUNTU_26_04 = Release("ubuntu", "resolute", "Ubuntu 26.04")


def root(release: Release) -> Path:
    """The folder with the release's minimal system, at most a week old; raises `MissingError`."""
    if os.geteuid() != 0:
        raise MissingError("debootstrap needs root")
    if shutil.which("debootstrap") is None:
        raise MissingError("debootstrap is missing: apt-get install debootstrap")
    folder = programs.cache("chroots")
    made = folder / release.suite
    keyring = None
    if release.distribution == "ubuntu":  # Debian 13 packages Ubuntu's keys, signed by Debian; Debian 12 doesn't
        keyring = root(DEBIAN_13) / UBUNTU_KEYRING
    with programs.exclusively(folder):
        if not made.exists() or time.time() - made.stat().st_mtime > RENEWED_SECONDS:
            _require_served(release)
            new = made.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            _debootstrap(release, new, keyring)
            _finish(release, new)
            shutil.rmtree(made, ignore_errors=True)
            new.rename(made)
            os.utime(made)
    return made


def root_or_skip(release: Release) -> Path:
    """`system`, but skips if the release isn't available. In CI a missing Debian release fails the test."""
    try:
        return root(release)
    except MissingError as error:
        if os.geteuid() == 0 and release.distribution == "debian":
            missing(str(error))
        pytest.skip(str(error))


def _require_served(release: Release) -> None:
    """Raise `MissingError` unless the machine's mirror has the release."""
    url = f"{_mirror(release.distribution)}/dists/{release.suite}/Release"
    try:
        urllib.request.urlopen(url, timeout=60).close()
    except urllib.error.HTTPError as error:
        raise MissingError(f"the mirror of this machine does not serve {release.suite}: {error}") from None


def _debootstrap(release: Release, new: Path, keyring: Path | None) -> None:
    mirror = _mirror(release.distribution)
    packages = [*PACKAGES, "ubuntu-keyring"] if release == DEBIAN_13 else [*PACKAGES]
    command = ["debootstrap", "--variant=minbase", f"--components={release.components}"]
    command += [f"--include={','.join(packages)}", *([f"--keyring={keyring}"] if keyring else [])]
    # An older debootstrap doesn't know the names of newer suites.
    script = SCRIPTS / {"debian": "sid", "ubuntu": "gutsy"}[release.distribution]
    done = subprocess.run(
        [*ENCLOSED, *command, release.suite, new, mirror, script],
        capture_output=True, text=True, check=False, timeout=DEBOOTSTRAP_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"debootstrap of {release.suite} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    for deb in new.glob("var/cache/apt/archives/*.deb"):
        deb.unlink()


def _finish(release: Release, new: Path) -> None:
    """Add an ordinary user, and this machine's mirrors and apt settings."""
    subprocess.run(["chroot", new, "useradd", f"--uid={USER}", "--create-home", "user"], check=True)
    for name in ("etc/hosts", "etc/resolv.conf", "etc/pip.conf"):  # the machine's own files are mounted over them
        (new / name).touch()
    (new / "var/cache/virtscope").mkdir()
    mirror, suite, components = _mirror(release.distribution), release.suite, release.components.replace(",", " ")
    security = mirror if release.distribution == "ubuntu" else f"{mirror}-security"
    sources = {suite: mirror, f"{suite}-updates": mirror, f"{suite}-security": security}
    lines = "".join(f"deb {uri} {name} {components}\n" for name, uri in sources.items())
    (new / "etc/apt/sources.list").write_text(lines)
    settings = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    kept = re.findall(r"^Acquire::(?:https?|Check-).*\n", settings, re.MULTILINE)
    (new / "etc/apt/apt.conf.d/machine").write_text("".join(kept))


def _mirror(distribution: str) -> str:
    """The machine's Debian mirror, or the Ubuntu mirror at the same site."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    text = "".join(file.read_text() for file in files if file.suffix in {".list", ".sources"} and file.exists())
    found = re.findall(r"^(?:URIs:|deb(?: +\[.*?\])?) *(\S+/debian)/?\s", text, re.MULTILINE)
    if not found:
        raise MissingError("this machine's apt has no mirror of Debian")
    return f"{found[0].removesuffix('debian')}{distribution}"
