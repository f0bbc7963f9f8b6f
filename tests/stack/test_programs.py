"""Programs from the distribution's packages: mirrors that change, are damaged or gone. Needs no network."""

import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from deploy import programs
from deploy.places import UnavailableError
from deploy.programs import debian
from deploy.programs.catalogue import Packages
from tests.stack.conftest import Checkout
from tests.support.refusals import assert_one_line, refusal
from tests.support.waiting import wait_for

FETCH = ("python3", "-m", "deploy.programs")


class Mirror:
    """A package repository in a folder, trusted by apt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.serve({})
        self.trust("[trusted=yes] ")
        self.configure(lists=f"{folder}/sources.list", parts="/dev/null")

    def configure(self, lists: str, parts: str) -> None:
        """Make apt read these files, and those in this folder."""
        text = f'Dir::Etc::SourceList "{lists}";\nDir::Etc::SourceParts "{parts}";\n'
        (self.folder / "apt.conf").write_text(text)

    def serve(self, packages: dict[str, str], version: str = "1:2.0", **digests: str) -> None:
        """Serve exactly these packages with their dependencies, at this version."""
        index = []
        for name, depends in packages.items():
            content = self.folder / "content" / f"{name}-{version}"
            (content / "DEBIAN").mkdir(parents=True)
            (content / "usr" / "bin").mkdir(parents=True)
            (content / "usr" / "bin" / name).write_text(version)
            control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
            control += f"Depends: {depends}\n" if depends else ""
            (content / "DEBIAN" / "control").write_text(control)
            deb = self.folder / f"{name}.deb"
            subprocess.run(["dpkg-deb", "--root-owner-group", "--build", content, deb], check=True, capture_output=True)
            digest = digests.get(name) or hashlib.sha256(deb.read_bytes()).hexdigest()
            index.append(f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
        (self.folder / "Packages").write_text("\n".join(index))

    def trust(self, option: str) -> None:
        (self.folder / "sources.list").write_text(f"deb {option}file:{self.folder} ./\n")

    def vanish(self) -> None:
        for file in (self.folder / "Packages", *self.folder.glob("*.deb")):
            file.unlink()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """The only mirror that apt knows, and an empty cache."""
    mirror = Mirror(tmp_path / "mirror")
    monkeypatch.setenv("APT_CONFIG", str(mirror.folder / "apt.conf"))
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
    return mirror


SERVER = Packages("server", ("server", "absent-here"), {"server": "usr/bin/server"}, {"server": "2"})


def find(packages: Packages = SERVER, since: float = 0) -> dict[str, str]:
    return {deb.name: deb.version for deb in debian.find(packages, since=since)}


def grow_old(tmp_path: Path) -> None:
    for read in (tmp_path / "cache" / "packages").glob("*/*/read"):
        week_ago = time.time() - debian.FRESH_SECONDS - 60
        os.utime(read, (week_ago, week_ago))


def assert_refused(*words: str, packages: Packages = SERVER) -> None:
    assert_one_line(refusal(UnavailableError, debian.find, packages), *words)


def test_packages_are_unpacked_at_the_version_that_is_served(mirror: Mirror, tmp_path: Path) -> None:
    mirror.serve({"server": "library", "library": ""})
    debian.unpack(debian.find(SERVER), tmp_path / "root")
    assert (tmp_path / "root/usr/bin/server").read_text() == "1:2.0"

    [deb] = (tmp_path / "cache" / "packages").glob("*/*.deb")
    deb.write_bytes(deb.read_bytes()[:-1])  # a damaged package is downloaded again
    debian.unpack(debian.find(SERVER), tmp_path / "again")
    assert (tmp_path / "again/usr/bin/server").is_file()


def test_dependencies_are_followed_as_far_as_is_asked(mirror: Mirror) -> None:
    of_server = {"server": "libone | libother, service-manager, libvirtual", "libone": "libtwo"}
    others = {"libtwo": "libone, libllvm", "libother": "", "libllvm": "", "libmanager": ""}
    mirror.serve({**of_server, **others, "service-manager": "libmanager"})
    found = find(Packages("server", ("server",), follows="lib(?!llvm).+"))
    assert set(found) == {"server", "libone", "libtwo"}


@pytest.mark.parametrize("parts", [False, True], ids=["list", "sources"])
def test_a_component_is_added_to_the_machines_own_sources_for_a_package_only(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, parts: bool
) -> None:
    monkeypatch.setattr(debian, "_non_free", lambda: "non-free")
    mirror.serve({"server": ""})
    packages = (mirror.folder / "Packages").read_text()
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    for component, index in (("main", ""), ("non-free", packages)):
        folder = mirror.folder / "dists/stable" / component / f"binary-{architecture.strip()}"
        folder.mkdir(parents=True)
        (folder / "Packages").write_text(index)
    sources, written = mirror.folder / "sources.list", f"deb [trusted=yes] file:{mirror.folder} stable main\n"
    if parts:
        sources = mirror.folder / "parts/own.sources"
        sources.parent.mkdir()
        written = f"Types: deb\nURIs: file:{mirror.folder}\nSuites: stable\nComponents: main\nTrusted: yes\n"
        mirror.configure(lists="/dev/null", parts=str(sources.parent))
    sources.write_text(written)
    assert find(Packages("server", ("server",), non_free=True)) == {"server": "1:2.0"}
    assert sources.read_text() == written
    assert_refused("no source in /etc/apt has client", packages=Packages("client", ("client",)))
    client = Packages("client", ("client",), non_free=True)
    assert_refused("no source in /etc/apt nor their component non-free has client", packages=client)


def test_newer_packages_are_taken_after_a_week_or_by_an_update(mirror: Mirror, tmp_path: Path) -> None:
    mirror.serve({"server": ""})
    find()
    mirror.serve({"server": ""}, version="1:2.1")
    assert find() == {"server": "1:2.0"}
    grow_old(tmp_path)
    assert find() == {"server": "1:2.1"}
    assert len(list((tmp_path / "cache" / "packages").glob("*/*.deb"))) == 1  # the old package is deleted

    mirror.serve({"server": ""}, version="1:2.2")
    assert find(since=time.time()) == {"server": "1:2.2"}
    grow_old(tmp_path)
    mirror.vanish()
    assert find() == {"server": "1:2.2"}  # old ones are used if no mirror answers


def test_mirrors_that_are_no_use(mirror: Mirror, tmp_path: Path) -> None:
    def assert_now_refused(*words: str) -> None:
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # it would answer
        assert_refused(*words)

    mirror.serve({"server": ""}, version="1.9")
    assert_now_refused("server", debian.system(), "1.9", "2 or newer")
    mirror.serve({"client": ""})
    assert_now_refused("no source in /etc/apt has server")
    mirror.serve({"server": ""}, server="0" * 64)  # differs from the package in the index
    assert_now_refused("cannot download packages", "mismatch")
    assert list((tmp_path / "cache" / "packages").glob("*/*.deb")) == []
    mirror.trust("")  # unsigned
    assert_now_refused("cannot read the package lists")
    mirror.trust("[trusted=yes] ")
    mirror.vanish()
    assert_now_refused("cannot read the package lists", "/etc/apt", "check the network")


def test_a_system_without_apt_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"PRETTY_NAME": "Fedora Linux 42"})
    monkeypatch.setattr(shutil, "which", lambda _program: None)
    assert_refused("Fedora Linux 42 has no apt-get")


@pytest.mark.system
def test_unpacking_that_was_killed_is_done_again(fresh: Checkout) -> None:
    unpacked = ".stack/programs/prometheus/unpack-*/root/usr/bin/prometheus*"
    with fresh.start(*FETCH) as fetch:
        wait_for(lambda: [*fresh.folder.glob(unpacked)], every=0.02)
        os.killpg(fetch.pid, signal.SIGKILL)
    again = fresh.run(*FETCH)
    assert again.returncode == 0, again.stdout
    for name in ("prometheus", "promtool", "alertmanager", "amtool", "node_exporter"):
        program = fresh.folder / ".stack" / "bin" / name
        assert name in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout


@pytest.mark.system
def test_two_at_once_unpack_once(fresh: Checkout) -> None:
    both = [fresh.start(*FETCH) for _ in range(2)]
    outputs = {process.communicate(timeout=120)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(outputs) == 1
    for suite in ("prometheus", "alertmanager", "node_exporter"):
        folder = fresh.folder / ".stack" / "programs" / suite
        assert len([entry for entry in folder.iterdir() if entry.is_dir()]) == 1


@pytest.mark.system
def test_debians_alertmanager_gets_no_rights_by_its_view_of_usr_share() -> None:
    launcher = programs.path("alertmanager")
    if launcher.is_symlink():
        pytest.skip("Alertmanager's official release is here, which needs no view of its own")
    script = launcher.read_text().replace('"$program" "$@"\'', "grep CapEff /proc/self/status'")
    shown = subprocess.run(["sh", "-c", script, launcher], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["CapEff:", "0000000000000000"]
