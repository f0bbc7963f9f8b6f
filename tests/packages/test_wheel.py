"""The wheel, as PyPI and a watched host get it."""

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.packages.deb import EXPORTERS, version
from tests.support.privileges import UNITS


def build(target: Path, source: Path = EXPORTERS, **variables: str) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", f"--outdir={target}", str(source)]
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, timeout=120)
    [wheel] = target.glob("*.whl")
    return wheel


pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_pypi_would_take_it_and_its_page_has_no_link_that_leads_nowhere(wheel: Path, tmp_path: Path) -> None:
    """PyPI only shows the README."""
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        page = email.message_from_bytes(archive.read(metadata))
        [_licence] = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
    assert (page["Name"], page["Version"], page["License-Expression"]) == ("virtscope", version(), "Apache-2.0")
    links = re.findall(r"\]\((.+?)\)", str(page.get_payload()))
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    assert build(tmp_path, TZ="Pacific/Kiritimati", LC_ALL="C").read_bytes() == wheel.read_bytes()


def test_it_has_the_files_that_are_no_modules(wheel: Path, tmp_path: Path) -> None:
    """The units, sched-exporter's BPF object, identical to the checkout's, and the script that runs over ssh."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        programs = {name: archive.read(name) for name in archive.namelist() if name.endswith(".o")}
    units = {file.name: file.read_text() for file in tmp_path.glob("*.data/data/lib/systemd/system/*")}
    assert units == {unit.name: unit.read_text() for unit in UNITS.glob("*.service")}
    of_checkout = EXPORTERS.glob("virtscope/**/*.bpf.o")
    assert programs == {file.relative_to(EXPORTERS).as_posix(): file.read_bytes() for file in of_checkout} != {}
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE9rzIEY3IBg test"
    (tmp_path / "key.pub").write_text(f"{key}\n")
    command = [sys.executable, "-m", "virtscope.ssh", "authorized-key", "key.pub"]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.startswith("restrict,command=\"exec /bin/sh -c 'PATH=")
    assert said.endswith(f"'\" {key}\n")
