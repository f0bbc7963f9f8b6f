"""The archive with its own Python: on an old system without systemd, and on a minimal one."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import requests

from deploy.exporters import FOLDERS
from deploy.packages import bundle, deb
from tests.distributions.chroots import UBUNTU_16_04
from tests.packages.conftest import FIXTURE, CleanHost, install_archive
from tests.support.needs import need
from tests.support.ports import free_port
from tests.support.waiting import wait_for

C_LIBRARY = {"ld-linux-x86-64.so.2"}
C_LIBRARY |= {f"lib{name}" for name in ("c.so.6", "dl.so.2", "m.so.6", "pthread.so.0", "rt.so.1", "util.so.1")}
VERSIONS = """
import importlib.metadata, json, platform, pyexpat, ssl, zlib
print(json.dumps({
    **{d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()},
    "cpython": platform.python_version(), "expat": pyexpat.EXPAT_VERSION.removeprefix("expat_"),
    "openssl": ssl.OPENSSL_VERSION.split()[1], "zlib": zlib.ZLIB_RUNTIME_VERSION,
}))
"""
UP = "\nvestat_up 1.0\n"
START_SECONDS = 60

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # CI runs tests/packages/test_services.py instead
on_an_old_system = pytest.mark.parametrize("host", [UBUNTU_16_04], indirect=True, ids=lambda release: release.suite)


def test_two_builds_are_the_same_bytes(archive: Path, standalone_python: Path, tmp_path: Path) -> None:
    assert bundle.build(tmp_path, standalone_python).read_bytes() == archive.read_bytes()


def test_its_list_has_every_package_and_the_libraries_of_its_python(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="tar")
    [root] = tmp_path.iterdir()
    document = (root / "sbom.cdx.json").read_text()
    assert archive.with_name(f"{root.name}.cdx.json").read_text() == document
    said = subprocess.run([root / "bin/python", "-I", "-c", VERSIONS], check=True, capture_output=True, text=True)
    components = json.loads(document)["components"]
    assert {component["name"]: component["version"] for component in components} == json.loads(said.stdout)


def test_a_python_that_is_none_of_its_own_is_refused(standalone_python: Path, tmp_path: Path) -> None:
    """A virtual environment's or a distribution's Python needs a newer glibc."""
    with pytest.raises(bundle.BundleError, match="is no standalone CPython"):
        bundle.build(tmp_path, tmp_path)
    python = tmp_path / "python"
    shutil.copytree(standalone_python, python, symlinks=True)
    [interpreter] = python.glob("bin/python3.*[0-9]")
    interpreter.write_bytes(interpreter.read_bytes() + b"GLIBC_2.34\0")
    with pytest.raises(bundle.BundleError, match=r"python/bin/python3\.\d+ needs glibc 2\.34"):
        bundle.build(tmp_path, python)


def page(port: int) -> str:
    return wait_for(lambda: requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text, START_SECONDS)


def test_it_needs_no_library_but_the_c_library_s(archive: Path, tmp_path: Path) -> None:
    need(binutils="readelf")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="tar")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    # Only bcrypt, for passwords, needs libgcc, too.
    programs = [file for file in files if file.read_bytes().startswith(b"\x7fELF") and "bcrypt" not in file.parts]
    said = subprocess.run(["readelf", "--dynamic", *programs], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))
    assert needed - {file.name for file in files} <= C_LIBRARY
    assert needed & C_LIBRARY


def files(host: CleanHost) -> set[str]:
    """All files and folders, except the order of init scripts, which insserv recomputes each time."""
    return {re.sub(r"(/rc\w\.d/[KS])\d\d", r"\1", file) for file in host.files()}


@on_an_old_system
def test_refused_installed_used_and_removed_without_systemd(host: CleanHost, archive: Path) -> None:
    shutil.copy(archive, host.root / "srv")
    folder = f"/srv/{archive.name.removesuffix('.tar.gz')}"
    host.must(f"cd /srv && tar -xf {archive.name}")
    for arguments, answer in {"": "which? There are: ", "kvm": "kvm is not an exporter; there are: "}.items():
        done = host.run(f"{folder}/install {arguments}")
        assert (done.returncode, done.stdout.startswith(f"install: {answer}")) == (1, True), done.stdout
    done = host.machine.run([f"{folder}/install", "vestat-exporter"])
    assert (done.returncode, done.stdout) == (1, "install: only root may write to /opt/virtscope\n")
    assert not (host.root / "opt/virtscope").exists()

    before = files(host)
    shutil.copytree(FIXTURE, host.root / "srv/proc")

    assert "/etc/init.d/vestat-exporter" in install_archive(host, archive, "vestat-exporter")
    for exporter in FOLDERS:
        said = host.must(f"/opt/virtscope/bin/{exporter}-exporter --version")
        assert said.startswith(f"{exporter}-exporter, version {deb.version()} ")
    host.must(f"for i in $(seq {START_SECONDS}); do /etc/init.d/vestat-exporter status && exit; sleep 1; done; exit 1")
    assert not [file for file in files(host) if file.startswith("/etc/init.d/xentop")]

    port = free_port()
    flags = f'ARGS="--web.listen-address=127.0.0.1:{port} --path.procfs=/srv/proc"'
    host.must(f"echo '{flags}' >/etc/virtscope/vestat-exporter.env; /etc/init.d/vestat-exporter restart")
    assert UP in page(port)

    assert "kept: /etc/virtscope" in host.must("/opt/virtscope/remove")
    assert {file for file in files(host) - before if not file.startswith("/etc/virtscope")} == set()
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://127.0.0.1:{port}/", timeout=5)
