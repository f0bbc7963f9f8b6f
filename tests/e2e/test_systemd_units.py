"""The systemd units: valid, confined, and with only the capabilities that the exporters' files need."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest

from tests.e2e.running_exporter import as_nobody
from tests.support.needs import need
from tests.support.privileges import MAX_EXPOSURE, UNITS, capabilities, directives, exporters_of_everybody
from virtscope.toolkit.answering import MAX_PROBES, MAX_REQUESTS

ALL = sorted(UNITS.glob("*.service"))
FIXTURE = Path(__file__).resolve().parents[1] / "fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"
HOSTS_OVER_SSH = 500


def systemd_analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_systemd_understands_them_and_they_are_confined(tmp_path: Path) -> None:
    need(systemd="systemd-analyze")
    copies = []
    for unit in ALL:
        program = Path(directives(unit)["ExecStart"][0].split()[0])
        assert program.name == unit.stem
        assert directives(unit)["EnvironmentFile"] == [f"-/etc/virtscope/{unit.stem}.env"], "its flags, by its name"
        (tmp_path / program.name).touch(mode=0o755)  # systemd checks that it is executable
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(unit.read_text().replace(str(program), str(tmp_path / program.name)))
    verified = systemd_analyze("verify", *copies)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    for unit in ALL:
        threshold = f"--threshold={MAX_EXPOSURE * 10:.0f}"
        review = systemd_analyze("security", "--offline=true", "--no-pager", threshold, unit)
        assert review.returncode == 0, review.stdout


def test_it_can_neither_take_all_memory_nor_all_tasks() -> None:
    for unit in ALL:
        given = directives(unit)
        (memory,) = given["MemoryMax"]
        (tasks,) = map(int, given["TasksMax"])
        if unit.stem == "ssh-exporter":
            assert memory == "2G"
            assert 3 * HOSTS_OVER_SSH + MAX_REQUESTS + MAX_PROBES < tasks <= 4096, "ssh, two threads for each"
            assert int(given["LimitNOFILE"][0]) > 5 * HOSTS_OVER_SSH, "pipes"
        else:
            assert memory == "1G", unit.stem
            # Threads of the server and of the sources, and the programs that sources run.
            assert 2 * MAX_REQUESTS < tasks <= 256, unit.stem


def test_an_old_systemd_can_start_them() -> None:
    """systemd 219 knows no system call groups: an allow list made of them would allow nothing."""
    for unit in ALL:
        given = directives(unit)
        refused, *more = given["SystemCallFilter"]
        assert refused.startswith("~"), "the first line decides whether what is listed is refused or allowed"
        assert all(calls.startswith("~") for calls in more) or unit.stem == "sched-exporter"
        assert given["ProtectSystem"] == ["full", "strict"], "the one that it knows first"
        # It doesn't know AmbientCapabilities, so only the bounding set confines root.
        assert set(given["CapabilityBoundingSet"][0].split()) == capabilities(unit.stem)


@pytest.fixture(scope="module")
def everybody_s() -> Iterator[Path]:
    """A world-readable folder with the exporters; its `proc` has an OpenVZ host's files with their modes."""
    with exporters_of_everybody(prometheus_client) as folder:
        shutil.copytree(FIXTURE, folder / "proc")
        for file in folder.glob("proc/**/*"):
            open_to_all = file.name in {"stats", "version", "vz"}
            file.chmod((0o555 if file.is_dir() else 0o444) if open_to_all else (0o500 if file.is_dir() else 0o400))
        yield folder


@pytest.mark.system
def test_vestat_exporter_reads_all_with_the_capabilities_of_its_unit(everybody_s: Path, tmp_path: Path) -> None:
    flag, needed = f"--path.procfs={everybody_s / 'proc'}", capabilities("vestat-exporter")
    with as_nobody(everybody_s, tmp_path, "openvz", needed, flag) as exporter:
        page = exporter.get().text
    assert "\nvestat_up 1.0\n" in page, exporter.log()
    for metric in ("container_cpu_used_seconds_total", "container_processes", "beancounter_failures_total"):
        assert f"\nopenvz_{metric}{{" in page
    with as_nobody(everybody_s, tmp_path, "openvz", set(), flag) as exporter:
        page = exporter.get().text
        said = " ".join(line["err"] for line in exporter.log_lines("source failed"))
    assert "\nvestat_up 0.0\n" in page
    assert "openvz_container" not in page
    assert f"{everybody_s}/proc/vz/vestat must not be read" in said
    assert set(re.findall(r"CAP_\w+", said)) == needed


@pytest.mark.system
def test_kvm_exporter_sees_other_users_guests_without_any_capability(everybody_s: Path, tmp_path: Path) -> None:
    """On this machine's own /proc, with a process of root's named like QEMU."""
    name = f"guest-of-{os.getpid()}"
    named_as_qemu = (
        "import pathlib, time; pathlib.Path('/proc/self/comm').write_text('qemu-system-x86'); print(flush=True); "
        "time.sleep(600)"
    )
    command = ["qemu-system-x86_64", "-c", named_as_qemu, "-name", name]
    with subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE) as guest:
        try:
            assert guest.stdout
            guest.stdout.readline()
            with as_nobody(everybody_s, tmp_path, "kvm", capabilities("kvm-exporter")) as exporter:
                page = exporter.get().text
        finally:
            guest.kill()
    assert f'kvm_guest_memory_resident_bytes{{guest="{name}",pid="{guest.pid}"}} ' in page, exporter.log()
    assert f'kvm_guest_cpu_seconds_total{{guest="{name}",pid="{guest.pid}"}} ' in page


def why_absent(page: str) -> str:
    return "".join(re.findall(r'^sched_source_info{.*detail="absent: (.*)"', page, re.MULTILINE))


@pytest.mark.system
def test_sched_exporter_loads_its_program_with_the_capabilities_of_its_unit_and_keeps_none(
    everybody_s: Path, tmp_path: Path
) -> None:
    needed = capabilities("sched-exporter")
    with as_nobody(everybody_s, tmp_path, "sched", needed) as exporter:
        first, second = (
            re.findall(r"^sched_switches_total (\S+)$", exporter.get().text, re.MULTILINE) for _ in range(2)
        )
        page = exporter.get().text
        tasks = list(Path(f"/proc/{exporter.process.pid}/task").iterdir())
        status = "".join((task / "status").read_text() for task in tasks)
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip(f"this kernel can't run the program: {why_absent(page)}")
    assert (why_absent(page), "\nsched_up 1.0\n" in page) == ("", True), exporter.log()
    assert 0 < float(first[0]) < float(second[0]), "it counts after they are gone too"
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 19):
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert re.findall(rf"^{kind}:\s(\w+)$", status, re.MULTILINE) == ["0" * 16] * len(tasks), kind
        assert status.count("NoNewPrivs:\t1\n") == len(tasks) > 1
