"""tools/programs.py against package mirrors that are damaged, out of date, or gone. Needs no network."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.stack.conftest import CACHE, Checkout, eventually
from tools import programs

FETCH = "tools/programs.py"


class Mirror:
    """A package repository in a folder. Each package of the stack is in it, small, empty and at version 1:9.9."""

    VERSION = "1:9.9"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        index = []
        for name in programs.STACK_PACKAGES:
            content = folder / "content" / name
            (content / "DEBIAN").mkdir(parents=True)
            control = (
                f"Package: {name}\nVersion: {self.VERSION}\nArchitecture: all\nMaintainer: test\nDescription: test\n"
            )
            (content / "DEBIAN" / "control").write_text(control)
            deb = folder / f"{name}.deb"
            subprocess.run(["dpkg-deb", "--root-owner-group", "--build", content, deb], check=True, capture_output=True)
            index.append(f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {self.sha256(name)}\n")
        (folder / "Packages").write_text("\n".join(index))
        (folder / "sources.list").write_text(f"deb [trusted=yes] file:{folder} ./\n")
        (folder / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{folder}/sources.list";\nDir::Etc::SourceParts "/dev/null";\n'
        )
        self.environment = {"APT_CONFIG": str(folder / "apt.conf"), "VIRTSCOPE_CACHE": str(folder / "cache")}

    def sha256(self, name: str) -> str:
        return hashlib.sha256((self.folder / f"{name}.deb").read_bytes()).hexdigest()


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "mirror")


def assert_refused(fetch: subprocess.CompletedProcess[str], fresh: Checkout, *words: str) -> None:
    assert fetch.returncode != 0
    assert re.fullmatch(r"error: .*\n", fetch.stdout), fetch.stdout
    for word in words:
        assert word in fetch.stdout
    assert [entry.name for entry in (fresh.folder / ".stack" / "programs").iterdir()] == [".lock"]


def test_pinned_version_that_the_mirror_no_longer_has(fresh: Checkout, mirror: Mirror) -> None:
    fetch = fresh.python(FETCH, **mirror.environment)
    assert_refused(fetch, fresh, "no longer has a pinned version", "make tools-update", "make compose-up")


def test_update_pins_what_the_mirror_has_for_every_architecture(fresh: Checkout, mirror: Mirror) -> None:
    update = fresh.python("-c", "from tools import programs; programs.STACK.update_lock()", **mirror.environment)
    assert update.returncode == 0, update.stdout
    pins = {line for line in (fresh.folder / "tools" / "debian-12.lock").read_text().splitlines() if line[0] != "#"}
    assert pins == {f"{mirror.sha256(name)}  {name}_1%3a9.9_all.deb" for name in programs.STACK_PACKAGES}


def test_package_that_is_not_the_pinned_one(fresh: Checkout, mirror: Mirror) -> None:
    fresh.python("-c", "from tools import programs; programs.STACK.update_lock()", **mirror.environment)
    lock = fresh.folder / "tools" / "debian-12.lock"
    lock.write_text(lock.read_text().replace(mirror.sha256("prometheus"), "0" * 64))
    assert_refused(fresh.python(FETCH, **mirror.environment), fresh, "prometheus_1%3a9.9_all.deb", "checksum")


def test_damaged_package_in_the_cache_is_never_unpacked(fresh: Checkout, mirror: Mirror) -> None:
    cache = mirror.folder / "cache" / "debian"
    shutil.copytree(CACHE / "debian", cache)
    damaged = next(cache.glob("libjs-d3_*.deb"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    # Downloaded again, in vain here, since this mirror has another version.
    assert_refused(fresh.python(FETCH, **mirror.environment), fresh, "no longer has a pinned version", "libjs-d3")


def test_unpacking_that_was_killed_is_done_again(fresh: Checkout) -> None:
    with subprocess.Popen(
        ["python3", FETCH], cwd=fresh.folder, env=fresh.environment, stdout=subprocess.DEVNULL, process_group=0
    ) as fetch:
        assert eventually(lambda: any(fresh.folder.glob(".stack/programs/unpack-*/root/usr/bin/prometheus*")))
        os.killpg(fetch.pid, signal.SIGKILL)
    again = fresh.python(FETCH)
    assert again.returncode == 0, again.stdout
    assert len([entry for entry in (fresh.folder / ".stack" / "programs").iterdir() if entry.is_dir()]) == 1
    for line in again.stdout.splitlines():
        name, path = line.split(maxsplit=1)
        assert name in subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout


def test_two_at_once_unpack_once(fresh: Checkout) -> None:
    both = [
        subprocess.Popen(["python3", FETCH], cwd=fresh.folder, env=fresh.environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = {process.communicate(timeout=120)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(outputs) == 1
    assert len([entry for entry in (fresh.folder / ".stack" / "programs").iterdir() if entry.is_dir()]) == 1


def test_alertmanager_runs_in_any_folder_with_relative_paths(tmp_path: Path) -> None:
    """Its default templates, at an absolute path in Debian's program, are found where it was unpacked."""
    (tmp_path / "alertmanager.yml").write_text(
        "route: {receiver: x}\nreceivers: [{name: x}]\ntemplates: [none/*.tmpl]\n"
    )
    with subprocess.Popen(
        [
            programs.path("alertmanager"),
            "--config.file=alertmanager.yml",
            "--cluster.listen-address=",
            "--web.listen-address=127.0.0.1:0",
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as alertmanager:
        assert alertmanager.stderr is not None
        log = []
        for line in alertmanager.stderr:  # ends by itself if it fails
            log.append(line)
            if "Listening on" in line:
                break
        alertmanager.terminate()
    assert "Completed loading of configuration file" in "".join(log)


def test_other_release_is_refused_by_name(tmp_path: Path) -> None:
    os_release = tmp_path / "os-release"
    os_release.write_text('PRETTY_NAME="Ubuntu 24.04 LTS"\nID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n')
    with pytest.raises(programs.ProgramsError, match=r"runs Ubuntu 24\.04 LTS .* for Debian 12 .*make compose-up"):
        programs.debian_architecture(os_release)
