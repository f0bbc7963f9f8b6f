"""What `make release` writes, used as its users would."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.exporters import FOLDERS
from deploy.packages import deb, image, release
from tests.distributions.chroots import DEBIAN_13
from tests.packages.conftest import CleanHost
from tests.rules.test_rules import run
from tests.support.needs import need

KEY = "release@packages.invalid"
AARCH64 = 183  # e_machine of an ELF file

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need(debhelper="dh", gpg="gpg")
    keys = tmp_path_factory.mktemp("keys")  # gpg-agent's socket needs a short path
    keys.chmod(0o700)
    before = os.environ.get("GNUPGHOME")
    os.environ["GNUPGHOME"] = str(keys)
    try:
        command = [
            "gpg",
            "--batch",
            "--quiet",
            "--passphrase=",
            "--quick-generate-key",
            KEY,
            "ed25519",
            "sign",
            "never",
        ]
        subprocess.run(command, check=True, capture_output=True)
        folder = tmp_path_factory.mktemp("release") / "virtscope"
        assert [*release.write(folder, KEY)] == []
        yield folder
    finally:
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)
        if before is None:
            del os.environ["GNUPGHOME"]
        else:
            os.environ["GNUPGHOME"] = before


def test_each_file_is_in_the_sums(written: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=written, check=True)
    listed = {line.split("  ")[1] for line in (written / "SHA256SUMS").read_text().splitlines()}
    files = {str(file.relative_to(written)) for file in written.rglob("*") if file.is_file()}
    assert files - listed == {"SHA256SUMS"}
    version = deb.version()
    archives = {f"virtscope-{version}-linux-{machine}.tar.gz" for machine in ("x86_64", "aarch64")}
    others = {f"virtscope-{version}-py3-none-any.whl", f"virtscope-exporters-{version}.oci.tar"}
    others |= {f"virtscope-{version}.tgz"}
    boms = {f"{name.removesuffix('.tar.gz')}.cdx.json" for name in archives} | {f"virtscope-{version}.cdx.json"}
    assert {file.name for file in (written / "packages").iterdir()} == archives | others | boms


@pytest.mark.parametrize("host", [DEBIAN_13], indirect=True, ids=lambda release: release.suite)
def test_apt_installs_from_its_folder_and_refuses_a_changed_one(written: Path, host: CleanHost) -> None:
    shutil.copytree(written / "apt", host.root / "srv/apt")
    source = host.root / "etc/apt/sources.list.d/virtscope.list"
    source.write_text("deb [signed-by=/srv/apt/virtscope.asc] file:/srv/apt stable main\n")
    host.apt("update")
    host.apt("install --no-install-recommends kvm-exporter")
    assert host.must("kvm-exporter --version").startswith(f"kvm-exporter, version {deb.version()} ")
    index = host.root / "srv/apt/dists/stable/InRelease"
    index.write_text(index.read_text().replace("Label: virtscope", "Label: Virtscope"))
    assert "manipulated" in host.run("apt-get update 2>&1").stdout


@pytest.mark.parametrize("host", [DEBIAN_13], indirect=True, ids=lambda release: release.suite)
def test_proxmox_s_installer_takes_the_packages_of_the_release_in_which_it_is(written: Path, host: CleanHost) -> None:
    shutil.copytree(written, host.root / "srv/release", ignore=lambda _, names: {"packages", "grafana"} & {*names})
    for program, line in (("pveversion", "echo pve-manager/9.0.3/025864202ebb6109"), ("systemctl", "exit 0")):
        stub = host.root / "usr/local/bin" / program
        stub.write_text(f"#!/bin/sh\n{line}\n")
        stub.chmod(0o755)
    host.must("sh /srv/release/install-proxmox.sh --yes 2>&1")
    assert host.must("kvm-exporter --version").startswith(f"kvm-exporter, version {deb.version()} ")


def test_the_image_has_what_each_exporter_needs_for_both_architectures(written: Path, tmp_path: Path) -> None:
    need(skopeo="skopeo")
    archive = written / "packages" / f"virtscope-exporters-{deb.version()}.oci.tar"
    for architecture in image.ARCHITECTURES:
        unpacked = tmp_path / architecture
        copy = [
            "skopeo",
            "copy",
            "--quiet",
            f"--override-arch={architecture}",
            f"oci-archive:{archive}",
            f"dir:{unpacked}",
        ]
        subprocess.run(copy, check=True)
        manifest = json.loads((unpacked / "manifest.json").read_text())
        config, [layer] = (
            json.loads((unpacked / manifest["config"]["digest"].removeprefix("sha256:")).read_text()),
            manifest["layers"],
        )
        assert (config["architecture"], config["config"]["User"]) == (architecture, "nobody")
        root = tmp_path / f"{architecture}-root"
        with tarfile.open(unpacked / layer["digest"].removeprefix("sha256:")) as tar:
            tar.extractall(root, filter="tar")
        if architecture == "arm64":
            python = (root / "usr/bin/python3").resolve()
            assert int.from_bytes(python.read_bytes()[18:20], "little") == AARCH64
            continue
        environment = dict(each.split("=", 1) for each in config["config"]["Env"])
        for exporter, package in FOLDERS.items():
            command = ["/usr/sbin/chroot", root, *config["config"]["Entrypoint"], f"virtscope.{package}", "--version"]
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            assert said.startswith(f"{exporter}-exporter, version {deb.version()} ")
        for program in (["virsh", "--version"], ["busybox", "true"]):
            subprocess.run(["/usr/sbin/chroot", root, *program], env=environment, check=True, capture_output=True)


def test_helm_takes_the_chart(written: Path) -> None:
    chart = written / "packages" / f"virtscope-{deb.version()}.tgz"
    shown = yaml.safe_load(run("helm", "show", "chart", chart))
    assert (shown["name"], shown["version"]) == ("virtscope", deb.version())
    objects = run("helm", "template", chart, "--set=image.repository=registry.example.org/virtscope/exporters")
    kinds = {each["kind"] for each in yaml.safe_load_all(objects) if each}
    assert kinds >= {"DaemonSet", "PrometheusRule", "ConfigMap"}


def test_no_linter_complains_about_the_rules(written: Path) -> None:
    for folder in ("rules", "alerts"):
        for file in sorted((written / folder).glob("*.yml")):
            if file.name != "alertmanager.yml":
                run("promtool", "check", "rules", "--lint=all", "--lint-fatal", file)


def test_prometheus_takes_each_job_by_itself(written: Path, tmp_path: Path) -> None:
    for file in sorted((written / "scrape").iterdir()):
        assert "&" not in file.read_text().replace("&&", ""), "an anchor"
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_config_files": [str(file)]}))
        run("promtool3", "check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def test_a_dashboard_asks_for_its_data_source_and_names_the_oldest_grafana(written: Path) -> None:
    files = sorted((written / "grafana").iterdir())
    assert len(files) == 14
    for file in files:
        page = json.loads(file.read_text())
        assert [asked["name"] for asked in page["__inputs"]] == ["DS_PROMETHEUS"]
        versions = {needed["id"]: needed["version"] for needed in page["__requires"]}
        assert versions["grafana"] == "12.4.0"
        imported = json.loads(file.read_text().replace("${DS_PROMETHEUS}", "abc"))
        [chosen] = [each for each in imported["templating"]["list"] if each["type"] == "datasource"]
        assert chosen["current"]["value"] == "abc"


@pytest.mark.long
def test_two_builds_are_the_same_bytes(written: Path, tmp_path: Path) -> None:
    assert [*release.write(tmp_path / "again", None)] == ["apt/ is not signed: pass KEY=, a key of your GnuPG"]

    def sums(folder: Path) -> dict[str, str]:
        files = (file for file in folder.rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    signed = {"apt/virtscope.asc", "apt/dists/stable/InRelease", "apt/dists/stable/Release.gpg", "SHA256SUMS"}
    first, second = sums(written), sums(tmp_path / "again")
    assert {name: value for name, value in first.items() if name not in signed} == {
        name: value for name, value in second.items() if name != "SHA256SUMS"
    }
