"""kvm-exporter over HTTP: pages of captured hosts, and failures around it."""

import re
import stat
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter, comparable, ended
from tests.golden_pages import assert_golden, assert_lints
from tests.unit.kvm import captured
from virtscope.kvm import command_line

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TITLED = {captured.DEBIAN_12: "6325b343-01a5-47ab-b796-afc750348cfe"}  # uuid of the guest created by OpenStack, by host
VARYING = (r"kvm_(?:source|encode)_\w*seconds(?:_total)?", "kvm_source_reads_total")


def host_folder(folder: Path, host: str = captured.DEBIAN_12) -> list[str]:
    """Write the host's files into folders for the live exporter; return its flags."""
    for path, content in captured.files(host).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return [f"--path.procfs={folder / 'proc'}", f"--path.sysfs={folder / 'sys'}"]


def virsh(folder: Path, script: str) -> dict[str, str]:
    """A fake virsh in the PATH of an environment."""
    program = folder / "bin/virsh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


def libvirt_of(host: str) -> str:
    """A script with the captured answers of the host's virsh; one guest was created by OpenStack."""
    uuid = TITLED[host]
    lines = [command_line.parse(text) for path, text in captured.files(host).items() if path.endswith("/cmdline")]
    listed = "\n".join(f"{line.uuid} {line.name}" for line in lines if line)
    return f"""case "$*" in
      *domstats*) cat '{captured.FIXTURES / host / "domstats-t0.txt"}';;
      *list*) echo '{listed}';;
      *) of=$(expr "$*" : ".*== \\([0-9a-f]* {uuid}\\) title")
         echo "== $of metadata ==<instance><name>web01.example.org</name></instance>== $of title ==";;
    esac"""


def running(folder: Path, *flags: str, **environment: str) -> RunningExporter:
    return RunningExporter(folder, *flags, environment=environment or None, package="virtscope.kvm")


@pytest.mark.parametrize("host", captured.HOSTS)
def test_golden_exposition(host: str, tmp_path: Path) -> None:
    """With libvirt's answer if it was captured."""
    flags, environment, wanted = host_folder(tmp_path, host), {}, []
    if host in TITLED:
        flags.append("--libvirt.interval=1s")
        environment = virsh(tmp_path, libvirt_of(host))
        # Two sources use libvirt's answer; one may read just before it arrives.
        wanted = ['device="vda"', 'kvm_source_up{source="libvirt"} 1.0']
    with running(tmp_path, *flags, **environment) as exporter:
        page = exporter.page_with(*wanted).replace(str(tmp_path), "FOLDER")
    assert_lints(page)
    assert_golden(GOLDEN / f"kvm-{host}.prom", comparable(page, *VARYING))


def test_golden_exposition_of_proxmox(tmp_path: Path) -> None:
    """A recording of the host in tests/proxmox."""
    name = "proxmox-debian13-linux6.12-qemu10.0"
    with running(tmp_path, f"--source=replay:{captured.FIXTURES / name}.jsonl.gz") as exporter:
        # Two sources use the configuration; one may be read just before it.
        page = exporter.page_with('kvm_source_up{source="proxmox"} 1.0', 'title="shop: of sales"')
    assert_lints(page)
    page = re.sub(r',?replayed="[^"]*"', "", page).replace("{}", "").replace(str(captured.FIXTURES), "FOLDER")
    assert_golden(GOLDEN / f"kvm-{name}.prom", comparable(page, *VARYING))


def test_a_recording_begins_when_libvirt_has_answered(tmp_path: Path) -> None:
    flags = [*host_folder(tmp_path), "--libvirt.interval=1s"]
    slow = 'case "$*" in *domstats*) sleep 0.3;; esac'
    environment = virsh(tmp_path, f"{slow}\n{libvirt_of(captured.DEBIAN_12)}")
    file = str(tmp_path / "host.jsonl.gz")
    done = ended("virtscope.kvm", "record", file, "--for=0.1s", *flags, environment=environment)
    assert "2 readings (0 failed)" in done.stdout


def test_a_libvirt_that_hangs_costs_only_what_it_tells(tmp_path: Path) -> None:
    flags = [*host_folder(tmp_path), "--libvirt.interval=1s"]
    with running(tmp_path, *flags, **virsh(tmp_path, "exec sleep 600")) as exporter:
        page = exporter.get(timeout=60).text
    assert 'detail="absent: not read yet; it is being read now",source="libvirt"' in page, "it waits for no libvirt"
    assert 'kvm_source_up{source="procfs"} 1.0\n' in page
    assert 'kvm_vcpu_run_seconds_total{guest="db_1.prod",pid="384",vcpu="0"} 19.990793763\n' in page
    assert "kvm_guest_state{" not in page


def test_a_host_without_guests_is_well(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/comm").touch()
    (tmp_path / "proc/stat").write_bytes(captured.STAT)
    with running(tmp_path, f"--path.procfs={tmp_path / 'proc'}") as exporter:
        page = exporter.get().text
    assert "\nkvm_host_guests 0.0\n" in page
    assert "\nkvm_up 1.0\n" in page
