"""The packages built by `make deb`, and clean machines to install them on."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.packages import bundle, deb
from deploy.programs import ProgramsError
from tests.distributions import chroots
from tests.distributions.booted import UNIFIED_SINCE, BootedMachine
from tests.distributions.chroots import Release
from tests.distributions.machine import Enclosed, Machine
from tests.stack.conftest import ROOT
from tests.support.needs import missing, need

OLDER = "0.0.9"
FIXTURE = ROOT / "tests/fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"
NOT_INSTALLED = ["/dev", "/home", "/proc", "/run", "/srv", "/sys", "/tmp"]
NOT_INSTALLED += [f"/var/{name}" for name in ("cache", "lib/apt", "lib/dpkg", "log")]


@dataclass(frozen=True)
class Packages:
    """The current packages, and the same as an older version, by name."""

    now: Mapping[str, Path]
    older: Mapping[str, Path]


@pytest.fixture(scope="session", autouse=True)
def one_date() -> None:
    """The build date, constant even if commits are made meanwhile."""
    os.environ["SOURCE_DATE_EPOCH"] = str(deb.source_date())


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    need(debhelper="dh")
    now, older = (
        {file.name.partition("_")[0]: file for file in deb.build(tmp_path_factory.mktemp("debs"), version)}
        for version in (None, OLDER)
    )
    return Packages(now, older)


class CleanHost:
    """A machine with its own minimal release, on which root may install and remove packages."""

    def __init__(self, machine: Enclosed, root: Path) -> None:
        self.machine = machine
        self.root = root

    def run(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root; stdout and stderr in `stdout`."""
        return self.machine.run(["sh", "-c", command], Path("/"), variables, user=0)

    def must(self, command: str, **variables: str) -> str:
        """Run a shell command that must succeed as root; returns its output."""
        done = self.run(command, **variables)
        assert done.returncode == 0, f"{command}:\n{done.stdout}"
        return done.stdout

    def apt(self, command: str) -> str:
        return self.must(f"apt-get --yes --quiet=2 {command} 2>&1", DEBIAN_FRONTEND="noninteractive")

    def install(self, packages: Mapping[str, Path], *names: str) -> str:
        """Install these package files, with their dependencies from the distribution."""
        for package in packages.values():
            shutil.copy(package, self.root / "srv")
        files = " ".join(f"/srv/{packages[name].name}" for name in ("virtscope-common", *names))
        return self.apt(f"install --no-install-recommends {files}")

    def man_page(self, exporter: str) -> str:
        """A man page in roff, from the package in /srv or a folder of it: a minimal system doesn't unpack man pages."""
        package = f"$(find /srv -name '{exporter}_*.deb' | tail -n 1)"
        return self.must(f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/share/man/man1/ | zcat")

    def do_as_documented(self, commands: str, password: str) -> None:
        """Run all these commands; without a terminal, the password is read from standard input."""
        self.must(f"printf '%s\\n' '{password}' >/srv/password; cat >/srv/commands <<'ALL'\nset -e\n{commands}\nALL")
        self.must("setsid sh /srv/commands </srv/password 2>&1")

    def files(self) -> set[str]:
        """All files and folders, except those of apt and dpkg and those that aren't on disk."""
        pruned = " -o ".join(f"-path {folder}" for folder in NOT_INSTALLED)
        return set(self.must(f"find / \\( {pruned} \\) -prune -o -print").splitlines())


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CleanHost]:
    """A clean machine with the parametrized release."""
    release: Release = request.param
    base = chroots.root_or_skip(release)
    root = tmp_path / "root"
    try:
        subprocess.run(["cp", "--archive", base, root], check=True)
        with Machine(root, tmp_path / "home", tmp_path / "cache", writable=True) as machine:
            clean = CleanHost(machine, root)
            clean.apt("update")
            yield clean
    finally:
        shutil.rmtree(root)  # hundreds of megabytes, which pytest would keep for three runs


Boot = Callable[[], CleanHost]


@pytest.fixture
def boot(host: CleanHost) -> Iterator[Boot]:
    """Start the clean machine's systemd. It has no network then: download what apt will install before."""
    host.apt("install --no-install-recommends systemd")
    version = int(host.must("systemctl --version").split()[1])

    with ExitStack() as running:

        def booted() -> CleanHost:
            try:
                machine = BootedMachine(host.root, old=version < UNIFIED_SINCE)
            except chroots.MissingError as error:
                missing(str(error))
            return CleanHost(running.enter_context(machine), host.root)

        yield booted


@pytest.fixture(scope="session")
def standalone_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python") / "python"
    try:
        bundle.standalone_python(folder)
    except ProgramsError as error:
        missing(str(error))
    return folder


@pytest.fixture(scope="session")
def archive(standalone_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.build(tmp_path_factory.mktemp("bundle"), standalone_python)


def install_archive(host: CleanHost, archive: Path, *names: str) -> str:
    """An administrator's steps with the archive; returns the output."""
    shutil.copy(archive, host.root / "srv")
    folder = archive.name.removesuffix(".tar.gz")
    return host.must(
        f"cd /srv && tar -xf {archive.name} && ./{folder}/install {' '.join(names)} 2>&1; s=$?; rm -r {folder}; exit $s"
    )
