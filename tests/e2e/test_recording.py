"""`record` and `--source=replay:` as users run them: one exporter writes, the other plays it."""

import gzip
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter, ended
from tests.e2e.test_kvm_exporter import host_folder
from tests.e2e.test_vestat_exporter import HOSTS, TESTS
from tests.e2e.test_xentop_exporter import DOM0, TOOLSTACK, WEB
from tests.support.waiting import wait_for
from tests.unit.kvm.captured import VERSION_1 as KVM  # without libvirt
from tests.unit.xen.fake_host import FakeXen
from tests.unit.xen.fake_programs import FakeXl


def record(
    package: str, file: Path, *flags: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return ended(f"virtscope.{package}", "record", str(file), *flags, environment=environment)


def replaying(folder: Path, package: str, file: Path, *flags: str) -> RunningExporter:
    return RunningExporter(folder, f"--source=replay:{file}", *flags, package=f"virtscope.{package}")


def samples(page: str, prefix: str) -> list[str]:
    """The page's series of these names, without the label for replays."""
    unmarked = re.sub(r',?replayed="[^"]*"', "", page).replace("{,", "{").replace("{}", "")
    return [line for line in unmarked.splitlines() if line.startswith(prefix)]


def test_a_host_replayed_is_the_host(tmp_path: Path) -> None:
    flags = host_folder(tmp_path / "kvm", KVM)
    assert_replayed(tmp_path / "kvm", "kvm", f"kvm-{KVM}", flags, "kvm_guest_")
    for host in HOSTS:
        flags = [f"--path.procfs={host}/proc"]
        assert_replayed(tmp_path / host.name, "openvz", f"openvz-{host.name}", flags, "openvz_")


def assert_replayed(folder: Path, package: str, page: str, flags: list[str], prefix: str) -> None:
    """The replayed series of a recording are those of the golden page."""
    folder.mkdir(exist_ok=True)
    file = folder / "host.jsonl.gz"
    # A reading is played for an interval: shorter, it could be over before a busy machine has read the second source.
    done = record(package, file, "--for=0.1s", "--interval=2s", *flags)
    assert (done.returncode, file.stat().st_mode & 0o777) == (0, 0o600), done.stderr
    golden = (TESTS / f"golden/{page}.prom").read_text()
    with replaying(folder, package, file, "--replay.once") as exporter:
        replayed = exporter.get().text
        (said,) = exporter.log_lines("replaying a recording: no value is live")
        wait_for(lambda: exporter.get() and exporter.log_lines("source failed"))
        assert "is over after 2 s" in exporter.log_lines("source failed")[0]["err"]
    assert samples(replayed, prefix) == samples(golden, prefix) != []
    assert all('replayed="host"' in line for line in replayed.splitlines() if line.startswith(prefix))
    assert f'_source_info{{detail="replay:{file}",source="' in replayed
    assert 'source="libvirt"' not in replayed, "a replayed host must not query this one"
    assert said["file"] == str(file)


@pytest.mark.system
def test_a_xen_host_with_its_toolstack(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    xen = FakeXen(tmp_path_factory.mktemp("xen"))
    xen.build_libxenctrl()
    xen.show(DOM0, replace(WEB, runstate=tuple(range(12))))
    environment = {**xen.environment(), "PATH": FakeXl(tmp_path, TOOLSTACK).path}
    flags = ["--source=libxenstat", *xen.flags, "--xl.interval=1s"]
    every_source = ("xen_domain_scheduler_weight{", "xen_cpupool_info{", "xen_domain_runnable")
    with RunningExporter(tmp_path, *flags, environment=environment) as exporter:
        live = exporter.page_with(*every_source)
    file, private = tmp_path / "xen.jsonl.gz", tmp_path / "private.jsonl.gz"
    record("xen", file, *flags, "--for=6s", "--interval=0.5s", environment=environment)
    with replaying(tmp_path, "xen", file) as exporter:
        replayed = exporter.page_with(*every_source)
    series = [line.rpartition(" ")[0] for line in samples(live, "xen_")]
    assert [line.rpartition(" ")[0] for line in samples(replayed, "xen_")] == series
    assert samples(replayed, "xen_domain_runnable") == samples(live, "xen_domain_runnable") != []

    record("xen", private, *flags, "--for=1s", "--interval=0.5s", "--anonymise", environment=environment)
    text = gzip.decompress(private.read_bytes())
    assert b"web01" not in text
    assert b'"xl"' not in text, "the toolstack's answers are full of names"
