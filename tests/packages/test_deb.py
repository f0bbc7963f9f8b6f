"""The Debian packages, as a user builds, installs, runs, upgrades and purges them."""

import re
import subprocess
from pathlib import Path

import pytest

from deploy.exporters import PROGRAMS
from deploy.packages import deb
from tests.packages.conftest import Packages
from tests.support.needs import need
from tests.support.privileges import UNITS, directives

EXPORTERS = [f"{exporter}-exporter" for exporter in PROGRAMS]

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # the first time a release is downloaded and installed


def content(package: Path, target: Path) -> Path:
    subprocess.run(["dpkg-deb", "--extract", package, target], check=True)
    return target


def test_there_is_one_for_each_exporter_built_alike_each_time_and_lintian_is_content(
    packages: Packages, tmp_path: Path
) -> None:
    assert set(packages.now) == {"virtscope-common", *EXPORTERS}
    assert {package.name.split("_")[1] for package in packages.now.values()} == {deb.version()}
    for file in deb.build(tmp_path):
        assert file.read_bytes() == packages.now[file.name.split("_")[0]].read_bytes(), file.name
    need(lintian="lintian")
    command = ["lintian", "--allow-root", "--fail-on=error,warning", *map(str, packages.now.values())]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "")


def test_proxmox_s_installer_is_clean_shell() -> None:
    need(shellcheck="shellcheck")
    said = subprocess.run(["shellcheck", deb.INSTALLER], check=False, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "")


def test_the_shared_one_has_the_program_that_sched_exporter_loads(packages: Packages, tmp_path: Path) -> None:
    root = content(packages.now["virtscope-common"], tmp_path) / "usr/share/virtscope"
    found, of_checkout = (
        {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.glob("virtscope/**/*.bpf.o")}
        for folder in (root, deb.EXPORTERS)
    )
    assert found == of_checkout != {}


def test_each_unit_is_that_of_the_checkout(packages: Packages, tmp_path: Path) -> None:
    """Except for paths, and the group that may read /etc/virtscope."""
    for exporter in EXPORTERS:
        [packaged] = content(packages.now[exporter], tmp_path / exporter).glob("**/systemd/system/*.service")
        assert packaged.name == f"{exporter}.service"
        of_checkout = directives(UNITS / packaged.name)
        changed = {
            "Documentation": [f"man:{exporter}(1)"],
            "ExecStart": [of_checkout["ExecStart"][0].replace("/opt/virtscope/", "/usr/")],
            "EnvironmentFile": [f"-/etc/default/{exporter}"],
            "Group": ["virtscope"],
        }
        assert directives(packaged) == of_checkout | changed
        assert "/opt/" not in packaged.read_text(), exporter


def test_each_man_page_has_every_flag(packages: Packages, tmp_path: Path) -> None:
    for exporter in EXPORTERS:
        page = content(packages.now[exporter], tmp_path / exporter) / f"usr/share/man/man1/{exporter}.1.gz"
        text = subprocess.run(["zcat", page], check=True, capture_output=True, text=True).stdout.replace("\\-", "-")
        python = ["/usr/bin/python3", "-m", f"virtscope.{PROGRAMS[exporter.removesuffix('-exporter')]}", "--help"]
        shown = subprocess.run(python, cwd=deb.EXPORTERS, check=True, capture_output=True, text=True).stdout
        flags = re.findall(r"^  (--[\w.-]+)", shown, re.MULTILINE)
        assert [flag for flag in flags if f"\\fB{flag}\\fR" not in text] == [], exporter
        assert "virtscope-deb-" not in text, f"{exporter}: a path of the build"


def block_of(page: str, after: str) -> str:
    """The first indented example of a man page, in roff, after these words."""
    block = page.partition(after)[2].partition(".RS\n")[2].partition("\n.RE")[0]
    return block.replace("\\-", "-").replace("\\e", "\\")
