"""Third-party programs of the stack, of the lab and of the tests: which versions, where they come from, where they are.

They are Debian's own packages, at the versions and SHA-256 checksums of a lock file for each of these, taken from the
mirrors this machine already uses and unpacked (not installed) below `.stack`. No root is needed, and nothing outside
the checkout changes: apt works on a throw-away state folder of its own. Packages are kept in `.stack/cache`, or in
`$VIRTSCOPE_CACHE`, so that a second checkout needs no network.

    python3 tools/programs.py             fetch what is missing of the stack's
    python3 tools/programs.py --update    pin the mirrors' current versions

Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
APT_CONF = CHECKOUT / "tools" / "apt.conf"
DEBIAN_RELEASE = "12"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
APT_SECONDS = 600
USE_DOCKER = "use Docker: make compose-up for the stack, lab/compose.yaml for the lab's applications"

STACK_PACKAGES = (
    "prometheus",
    "prometheus-alertmanager",
    "prometheus-node-exporter",
    # What Prometheus's web pages load; the package links to these, relative to itself.
    "fonts-glyphicons-halflings",
    "libjs-bootstrap4",
    "libjs-d3",
    "libjs-eonasdan-bootstrap-datetimepicker",
    "libjs-jquery",
    "libjs-jquery-hotkeys",
    "libjs-moment",
    "libjs-moment-timezone",
    "libjs-mustache",
    "libjs-popper.js",
    "libjs-rickshaw",
)

LAB_PACKAGES = (
    "apache2-bin",
    "mariadb-server-core",
    "php8.2-common",
    "php8.2-fpm",
    "php8.2-mysql",
    "php8.2-opcache",
    # What these load. The lab's tiers see nothing of the machine's own files, its libraries included.
    *("libacl1", "libaio1", "libapparmor1", "libapr1", "libaprutil1", "libargon2-1", "libc6", "libcap2", "libcrypt1"),
    *("libexpat1", "libgcc-s1", "libgcrypt20", "libgpg-error0", "libicu72", "liblz4-1", "liblzma5", "libnuma1"),
    *("libpcre2-8-0", "libsodium23", "libssl3", "libstdc++6", "libsystemd0", "liburing2", "libuuid1", "libxml2"),
    *("libzstd1", "tzdata", "zlib1g"),
)

TESTS_PACKAGES = (
    "nginx",
    "postgresql-15",
    # What PostgreSQL loads, and what that loads.
    *("libcom-err2", "libffi8", "libgmp10", "libgnutls30", "libgssapi-krb5-2", "libhogweed6", "libicu72", "libidn2-0"),
    *("libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "libldap-2.5-0", "liblz4-1", "libnettle8"),
    *("libp11-kit0", "libpam0g", "libpcre2-8-0", "libpq5", "libsasl2-2", "libssl3", "libsystemd0", "libtasn1-6"),
    *("libunistring2", "libxml2", "libzstd1"),
)

# Folders that lab/servers mounts something on.
LAB_MOUNT_POINTS = ("dev", "srv/config", "srv/site", "srv/state", "tmp")

# Name used by us -> file below the folder the packages are unpacked in.
PROGRAMS = {
    "prometheus": "usr/bin/prometheus",
    "promtool": "usr/bin/promtool",
    "alertmanager": "bin/alertmanager",
    "amtool": "usr/bin/amtool",
    "node_exporter": "usr/bin/prometheus-node-exporter",
}

# Debian's Alertmanager reads its default templates from this folder and has no flag for another one.
ALERTMANAGER_SHARE = b"/usr/share/prometheus/alertmanager"
# Templates, web pages, and the page that explains why there are none: each begins with ALERTMANAGER_SHARE.
ALERTMANAGER_SHARE_MENTIONS = 3
# So the unpacked copy is pointed at a file descriptor, at the same length (more slashes mean nothing in a path), and
# the launcher opens the unpacked folder as that descriptor. Works in any folder, for any user, without privileges.
ALERTMANAGER_LAUNCHER = """\
#!/bin/sh
here=$(dirname "$0")/..
exec "$here/usr/bin/prometheus-alertmanager" "$@" 9<"$here/usr/share/prometheus/alertmanager"
"""


class ProgramsError(Exception):
    """A program can't be had. The message is one line for the user: what is wrong and what to do."""


@dataclass(frozen=True)
class Package:
    """One line of the lock file, which `sha256sum --check` reads too."""

    sha256: str
    file_name: str  # NAME_VERSION_ARCHITECTURE.deb, the version quoted as apt does it (an epoch's colon is %3a)

    @property
    def architecture(self) -> str:
        """A Debian architecture, or "all"."""
        return self.file_name.removesuffix(".deb").rpartition("_")[2]

    @property
    def apt_name(self) -> str:
        """What apt-get calls it: NAME=VERSION."""
        name, version, _ = self.file_name.split("_")
        return f"{name}={urllib.parse.unquote(version)}"


@dataclass(frozen=True)
class PackageSet:
    """Packages that are pinned by one lock file and unpacked into one folder."""

    title: str  # whose they are
    names: tuple[str, ...]
    lock_file: Path
    folder: Path  # holds the unpacked one
    adapt: Callable[[Path], None]  # makes what has been unpacked fit for use
    adapted_by: str = ""  # what `adapt` writes: if this changes, the packages are unpacked again

    def root(self) -> Path:
        """Folder in which all packages are unpacked as if it were `/`; fetched first if it is missing.

        Raises `ProgramsError` if they can't be had.
        """
        # Named after what decides its content, so that new pins never meet an old folder.
        content = hashlib.sha256(self.lock_file.read_bytes() + self.adapted_by.encode()).hexdigest()[:12]
        unpacked = self.folder / content
        if not unpacked.is_dir():
            with exclusively(self.folder):
                if not unpacked.is_dir():  # another process may have been first
                    _unpack(_download(self.locked(debian_architecture())), unpacked, self.adapt)
        return unpacked

    def locked(self, architecture: str) -> list[Package]:
        """The pins of the lock file for one architecture ("amd64", "arm64")."""
        lines = (line for line in self.lock_file.read_text().splitlines() if line and not line.startswith("#"))
        packages = [Package(*line.split()) for line in lines]
        return [package for package in packages if package.architecture in {architecture, "all"}]

    def update_lock(self) -> None:
        """Rewrite the lock file with the versions and checksums that this machine's mirrors offer now."""
        debian_architecture()  # the same demands as for fetching
        found: set[Package] = set()
        with exclusively(cache("debian")):
            for architecture in ARCHITECTURES.values():
                with _private_apt(architecture) as apt:
                    apt.update()
                    found.update(apt.candidates(self.names))
        header = (
            f"# Debian packages of {self.title}, by SHA-256. Written by `make tools-update`, read by tools/programs.py."
        )
        packages = sorted(found, key=lambda package: package.file_name)
        pins = (f"{package.sha256}  {package.file_name}" for package in packages)
        self.lock_file.write_text("\n".join([header, *pins, ""]))


def path(name: str) -> Path:
    """Path of a program of `PROGRAMS`, ready to run from any working directory; fetched first if it is missing.

    Raises `ProgramsError` if it can't be had, `KeyError` for a name that isn't in `PROGRAMS`.
    """
    return STACK.root() / PROGRAMS[name]


def debian_architecture(os_release: Path = Path("/etc/os-release")) -> str:
    """Debian's name for this machine's architecture; `ProgramsError` unless it is one the lock file has pins for."""
    fields = dict(line.rstrip().split("=", 1) for line in os_release.read_text().splitlines() if "=" in line)
    system = fields.get("ID", "").strip('"'), fields.get("VERSION_ID", "").strip('"')
    architecture = ARCHITECTURES.get(platform.machine())
    if system != ("debian", DEBIAN_RELEASE) or architecture is None:
        name = fields.get("PRETTY_NAME", "an unknown system").strip('"')
        raise ProgramsError(
            f"this machine runs {name} on {platform.machine()}, but the pinned programs are for Debian "
            f"{DEBIAN_RELEASE} on {' or '.join(ARCHITECTURES)}; {USE_DOCKER}"
        )
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise ProgramsError(f"{tool} is not in PATH, and the programs are unpacked from Debian packages")
    return architecture


@dataclass(frozen=True)
class _Apt:
    """apt with package lists of its own in `folder`; the machine's sources, keys, proxies and passwords stay in use."""

    folder: Path
    architecture: str

    def update(self) -> None:
        self._run("update")

    def download(self, packages: list[Package]) -> None:
        """Put the .deb of each package into `folder`."""
        self._run("download", *(package.apt_name for package in packages))

    def candidates(self, names: tuple[str, ...]) -> list[Package]:
        """The version of each package that apt would install now."""
        found = []
        for line in self._run("download", "--print-uris", *names).splitlines():
            _uri, file_name, _size, checksum = line.split()
            kind, _, digest = checksum.partition(":")
            if kind != "SHA256":
                raise ProgramsError(f"the mirror gives no SHA-256 for {file_name}, only {kind}; use another mirror")
            found.append(Package(digest, file_name))
        return found

    def _run(self, *arguments: str) -> str:
        """Run apt-get in `folder`; give its output. Raises `ProgramsError` with apt's first complaint."""
        options = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": "/dev/null",  # as if nothing were installed
            "Dir::Cache": self.folder / "cache",
            "Dir::Log": self.folder / "log",
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
        }
        command = ["apt-get", "-q", "-q", "-c", str(APT_CONF)]
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
            raise ProgramsError(f"`apt-get {arguments[0]}` took longer than {APT_SECONDS // 60} minutes") from None
        if process.returncode != 0:
            # The first complaint says why, later ones only what follows from it.
            complaints = [line for line in process.stderr.splitlines() if line.startswith(("E:", "W:"))]
            complaints.append(f"E: `apt-get {arguments[0]}` ended with status {process.returncode}")
            raise ProgramsError(" ".join(complaints[0][2:].split()))
        return process.stdout


@contextlib.contextmanager
def _private_apt(architecture: str) -> Iterator[_Apt]:
    """An `_Apt` in a folder that lives as long as the block. The cache must be held alone (`exclusively`)."""
    folder = cache("debian") / "apt"
    shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
    for name in ("state/lists/partial", "cache/archives/partial", "log"):
        Path(folder, name).mkdir(parents=True)
    try:
        yield _Apt(folder, architecture)
    finally:
        shutil.rmtree(folder)


def _download(packages: list[Package]) -> list[Path]:
    """The packages' .deb files in the cache, each with the right checksum; what is missing is downloaded."""
    folder = cache("debian")
    debs = [folder / package.file_name for package in packages]
    with exclusively(folder):
        missing = [
            package
            for package, deb in zip(packages, debs, strict=True)
            if not (deb.is_file() and _sha256(deb) == package.sha256)
        ]
        if missing:
            with _private_apt(debian_architecture()) as apt:
                _fetch(apt, missing)
                for package in missing:
                    # Same file system: appears whole or not at all.
                    (apt.folder / package.file_name).rename(folder / package.file_name)
    return debs


def _fetch(apt: _Apt, packages: list[Package]) -> None:
    """Have apt download the packages and check them; say in one line what went wrong."""
    unreachable = None
    try:
        apt.update()
    except ProgramsError as error:
        # Not fatal yet: it may be a third-party source of the machine that has none of our packages.
        unreachable = error
    try:
        apt.download(packages)
    except ProgramsError as error:
        if unreachable is not None:
            message = f"cannot read the Debian package lists: {unreachable}; check the network and /etc/apt"
        elif "was not found" in str(error) or "Unable to locate" in str(error):
            message = (
                f"the mirror no longer has a pinned version: {error}; run `make tools-update` to pin what it has now, "
                f"or {USE_DOCKER}"
            )
        else:
            message = f"cannot download the Debian packages: {error}; check the network and /etc/apt"
        raise ProgramsError(message) from None
    for package in packages:
        if _sha256(apt.folder / package.file_name) != package.sha256:
            raise ProgramsError(
                f"{package.file_name} from the mirror has not the pinned checksum {package.sha256}; "
                "do not use it: ask your mirror's operator, or use another mirror"
            )


def _unpack(debs: list[Path], target: Path, adapt: Callable[[Path], None]) -> None:
    """Unpack the packages into `target`, adapted; it appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=target.parent) as folder:
        unpacked = Path(folder) / "root"
        for deb in debs:
            dpkg = subprocess.run(
                ["dpkg", "-x", deb, unpacked],
                env={**os.environ, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            if dpkg.returncode != 0:
                full = os.strerror(errno.ENOSPC)  # tar says so for each file, among other things
                said = full if full in dpkg.stderr else " ".join(dpkg.stderr.split())
                raise ProgramsError(f"cannot unpack {deb.name}: {said}")
        adapt(unpacked)
        for older in target.parent.iterdir():
            if older.is_dir() and older != Path(folder):
                shutil.rmtree(older)
        unpacked.rename(target)


def _adapt_stack(unpacked: Path) -> None:
    # Time-zone tables in source form, 200 MB, which no page loads.
    shutil.rmtree(unpacked / "usr/share/javascript/moment-timezone/data")
    _free_alertmanager(unpacked)


def _free_alertmanager(unpacked: Path) -> None:
    """Make the unpacked Alertmanager find its templates where it was unpacked; see `ALERTMANAGER_LAUNCHER`."""
    program = unpacked / "usr/bin/prometheus-alertmanager"
    code = program.read_bytes()
    # What went in is pinned by the package's checksum; this guards the next change of that pin.
    if code.count(ALERTMANAGER_SHARE) != ALERTMANAGER_SHARE_MENTIONS:
        raise ProgramsError("the pinned prometheus-alertmanager is built differently: look at _free_alertmanager again")
    program.write_bytes(code.replace(ALERTMANAGER_SHARE, b"/proc/self/fd/9".ljust(len(ALERTMANAGER_SHARE), b"/")))
    launcher = unpacked / PROGRAMS["alertmanager"]
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(ALERTMANAGER_LAUNCHER)
    launcher.chmod(0o755)


def _adapt_lab(unpacked: Path) -> None:
    # The packages have none of them.
    for name in LAB_MOUNT_POINTS:
        (unpacked / name).mkdir(parents=True, exist_ok=True)


STACK = PackageSet(
    "the stack",
    STACK_PACKAGES,
    CHECKOUT / "tools" / "debian-12.lock",
    CHECKOUT / ".stack" / "programs",
    _adapt_stack,
    ALERTMANAGER_LAUNCHER,
)
LAB = PackageSet(
    "the lab's applications",
    LAB_PACKAGES,
    CHECKOUT / "tools" / "debian-12-lab.lock",
    CHECKOUT / ".stack" / "lab" / "programs",
    _adapt_lab,
    " ".join(LAB_MOUNT_POINTS),
)
TESTS = PackageSet(
    "the sensors' tests",
    TESTS_PACKAGES,
    CHECKOUT / "tools" / "debian-12-tests.lock",
    CHECKOUT / ".stack" / "tests" / "programs",
    lambda _unpacked: None,
)


def cache(kind: str) -> Path:
    """Folder for downloads of one kind."""
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / kind


@contextlib.contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Hold `folder` alone among processes; whoever comes second waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch the stack's third-party programs (Debian packages, unpacked).")
    parser.add_argument("--update", action="store_true", help="pin the mirrors' current versions")
    arguments = parser.parse_args()
    try:
        if arguments.update:
            for packages in (STACK, LAB, TESTS):
                packages.update_lock()
                print(f"wrote {packages.lock_file}")
        for name in PROGRAMS:
            print(f"{name:15} {path(name)}")
    except (ProgramsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
