"""kvm-exporter over HTTP: captured hosts as it shows them, and what fails around it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.running_exporter import EXPORTERS, RunningExporter
from tests.golden_pages import assert_golden, assert_lints
from tests.unit.kvm import captured
from virtscope.kvm import command_line

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
# A guest of Debian's two hosts, which OpenStack has made.
TITLED = {
    captured.DEBIAN_12: "6325b343-01a5-47ab-b796-afc750348cfe",
    captured.DEBIAN_13: "f7769985-e2a3-4e8b-8866-f86a8625cadc",
}


def host_folder(folder: Path, host: str = captured.DEBIAN_12) -> list[str]:
    """The host as folders, for the live exporter; returns its flags."""
    for path, content in captured.files(host).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return [f"--path.procfs={folder / 'proc'}", f"--path.sysfs={folder / 'sys'}"]


def virsh(folder: Path, script: str) -> dict[str, str]:
    """A virsh that does this, in the PATH of an environment."""
    program = folder / "bin/virsh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


def libvirt_of(host: str) -> str:
    """A script that answers as the host's virsh did; OpenStack has made one of its guests."""
    uuid = TITLED[host]
    lines = [command_line.parse(text) for path, text in captured.files(host).items() if path.endswith("/cmdline")]
    listed = "\n".join(f"{line.uuid} {line.name}" for line in lines if line)
    return f"""case "$*" in
      *domstats*) cat '{captured.FIXTURES / host / "domstats-t0.txt"}';;
      *list*) echo '{listed}';;
      *) of=$(expr "$*" : ".*== \\([0-9a-f]* {uuid}\\) title")
         echo "== $of metadata ==<instance><name>web01.example.org</name></instance>== $of title ==";;
    esac"""


def shown(folder: Path, host: str) -> str:
    """The host's page, with libvirt's answer where it was captured."""
    flags = host_folder(folder, host)
    environment = None
    if host in TITLED:
        flags.append("--libvirt.interval=1s")
        environment = virsh(folder, libvirt_of(host))
    with RunningExporter(folder, *flags, environment=environment, package="virtscope.kvm") as exporter:
        deadline = time.monotonic() + 30
        # Of two sources that take what libvirt has answered, the one may look just before it does.
        wanted = ('device="vda"', 'kvm_source_up{source="libvirt"} 1.0') if host in TITLED else ()
        page = exporter.get().text
        while not all(one in page for one in wanted):
            assert time.monotonic() < deadline, page
            time.sleep(0.1)
            page = exporter.get().text
    return page.replace(str(folder), "FOLDER")


@pytest.mark.parametrize("host", captured.HOSTS)
def test_golden_exposition(host: str, tmp_path: Path) -> None:
    page = shown(tmp_path, host)
    # What differs from run to run.
    page = re.sub(
        r"(?m)^((?:process_\w+|kvm_(?:source|encode)_\w*seconds(?:_total)?(?:{.*})?|kvm_source_reads_total{.*}) ).*$",
        r"\1VARIES",
        page,
    )
    page = re.sub(r'python="[^"]*"', 'python="VARIES"', page)
    assert_golden(GOLDEN / f"kvm-{host}.prom", page)


@pytest.mark.parametrize("host", captured.HOSTS)
def test_promtool_finds_nothing_to_say(host: str, tmp_path: Path) -> None:
    assert_lints(shown(tmp_path, host))


def test_a_recording_of_it_shows_the_same(tmp_path: Path) -> None:
    flags = host_folder(tmp_path)
    file = tmp_path / "host.jsonl.gz"
    record = [sys.executable, "-m", "virtscope.kvm", "record", str(file), "--for=0.1s", "--interval=0.1s", *flags]
    subprocess.run(record, cwd=EXPORTERS, check=True, capture_output=True, timeout=60)
    with RunningExporter(tmp_path, *flags, package="virtscope.kvm") as exporter:
        live = exporter.get().text
    with RunningExporter(tmp_path, f"--source=replay:{file}", package="virtscope.kvm") as exporter:
        replayed = exporter.get().text
    series = re.compile(r"(?m)^kvm_(?:guest|vcpu|host)_.*$")
    unmarked = re.sub(r',?replayed="host"', "", replayed).replace("{,", "{").replace("{}", "")
    assert series.findall(unmarked) == series.findall(live) != []


def test_a_recording_begins_when_libvirt_has_answered(tmp_path: Path) -> None:
    flags = [*host_folder(tmp_path), "--libvirt.interval=1s"]
    slow = 'case "$*" in *domstats*) sleep 0.3;; esac'
    environment = virsh(tmp_path, f"{slow}\n{libvirt_of(captured.DEBIAN_12)}")
    record = [sys.executable, "-m", "virtscope.kvm", "record", str(tmp_path / "host.jsonl.gz"), "--for=0.1s", *flags]
    done = subprocess.run(
        record, cwd=EXPORTERS, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert "2 readings (0 failed)" in done.stdout


def test_a_live_host_and_its_libvirt(tmp_path: Path) -> None:
    page = shown(tmp_path, captured.DEBIAN_12)
    assert 'kvm_guest_block_read_requests_total{device="vda",guest="db_1.prod",pid="384"} 5061.0\n' in page
    assert 'kvm_vcpu_exits_total{guest="db_1.prod",pid="384",vcpu="0"} 175222.0\n' in page
    assert 'kvm_guest_network_receive_bytes_total{device="vnet1",guest="db_1.prod",pid="384"} 90.0\n' in page
    assert 'kvm_source_up{source="libvirt"} 1.0\n' in page


def test_a_libvirt_that_hangs_costs_only_what_it_tells(tmp_path: Path) -> None:
    flags = host_folder(tmp_path)
    environment = virsh(tmp_path, "exec sleep 600")
    with RunningExporter(
        tmp_path, *flags, "--libvirt.interval=1s", environment=environment, package="virtscope.kvm"
    ) as exporter:
        begun = time.monotonic()
        page = exporter.get().text
        took = time.monotonic() - begun
    assert 'kvm_source_up{source="procfs"} 1.0\n' in page
    assert 'kvm_vcpu_run_seconds_total{guest="db_1.prod",pid="384",vcpu="0"} 19.990793763\n' in page
    assert "kvm_guest_state{" not in page
    assert took < 5, "it waits for no libvirt"


def test_a_libvirt_that_is_gone_is_a_failure_of_that_source(tmp_path: Path) -> None:
    flags = host_folder(tmp_path)
    environment = virsh(tmp_path, "echo 'error: failed to connect to the hypervisor' >&2; exit 1")
    with RunningExporter(
        tmp_path, *flags, "--libvirt.interval=1s", environment=environment, package="virtscope.kvm"
    ) as exporter:
        deadline = time.monotonic() + 30
        while 'kvm_source_up{source="libvirt"} 0.0\n' not in (page := exporter.get().text):
            assert time.monotonic() < deadline, page
            time.sleep(0.1)
    assert 'kvm_source_up{source="procfs"} 1.0\n' in page
    assert "\nkvm_up 0.0\n" in page


def test_another_host_s_files_are_read_without_asking_this_host(tmp_path: Path) -> None:
    with RunningExporter(tmp_path, *host_folder(tmp_path), package="virtscope.kvm") as exporter:
        page = exporter.get().text
    assert 'source="libvirt"' not in page
    assert 'source="proxmox"' not in page
    assert "\nkvm_up 1.0\n" in page


def test_a_host_without_guests_is_well(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/comm").touch()
    (tmp_path / "proc/stat").write_bytes(captured.STAT)
    with RunningExporter(tmp_path, f"--path.procfs={tmp_path / 'proc'}", package="virtscope.kvm") as exporter:
        page = exporter.get().text
    assert "\nkvm_host_guests 0.0\n" in page
    assert "\nkvm_up 1.0\n" in page
