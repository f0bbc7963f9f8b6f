"""The source xentop through the real exporter, with a fake xentop that dies, hangs and is killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.support.waiting import wait_for

FAKE = Path(__file__).with_name("fake_xentop.py")
CPU = 'xen_domain_cpu_seconds_total{domain="web01",domid=""}'


class FakeXentop:
    """A folder for PATH with a xentop in it, whose next start can be scripted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        program = folder / "xentop"
        program.write_text(FAKE.read_text().replace("/usr/bin/env python3", sys.executable, 1))
        program.chmod(0o755)
        self.say("counts")

    def say(self, word: str) -> None:
        (self.folder / "says").write_text(word)

    def starts(self) -> list[list[str]]:
        """The process id and the arguments of each start so far."""
        with contextlib.suppress(FileNotFoundError):
            return [line.split() for line in (self.folder / "children").read_text().splitlines()]
        return []

    def child(self) -> int:
        """The process started last."""
        return int(wait_for(self.starts)[-1][0])


@pytest.fixture
def xentop(tmp_path: Path) -> Iterator[FakeXentop]:
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = FakeXentop(folder)
    yield fake
    for pid, *_ in fake.starts():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def running(xentop: FakeXentop, folder: Path, *flags: str) -> RunningExporter:
    return RunningExporter(folder, f"--path.sysfs={folder}", *flags, environment=xentop.environment)


@pytest.fixture
def exporter(xentop: FakeXentop, tmp_path: Path) -> RunningExporter:
    return running(xentop, tmp_path, "--source=xentop")


def alive(pid: int) -> bool:
    """Whether it is a process of the fake; a zombie is one too, as nothing has reaped it."""
    try:
        return "xentop" in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def page(exporter: RunningExporter) -> str:
    """A scrape that times out where the source would hold it up."""
    return exporter.get(timeout=8, X_Prometheus_Scrape_Timeout_Seconds="10").text


def value(text: str, series: str) -> float | None:
    found = re.search(rf"(?m)^{re.escape(series)} (\S+)$", text)
    return float(found[1]) if found else None


def up(exporter: RunningExporter) -> str:
    """The first page with values."""
    return wait_for(lambda: text if value(text := page(exporter), "xentop_up") == 1 else "")


def test_one_child_serves_every_scrape(xentop: FakeXentop, exporter: RunningExporter) -> None:
    with exporter:
        first = up(exporter)
        later = wait_for(lambda: text if value(text := page(exporter), CPU) != value(first, CPU) else "")
    assert [arguments for _, *arguments in xentop.starts()] == [["-b", "-f", "-n", "-x", "-v", "-d", "1"]]
    assert 'xen_domain_cpu_seconds_total{domain="Domain-0",domid="0"}' in first
    detail = f"{xentop.folder}/xentop, networks from /proc/net/dev"
    assert f'xentop_source_info{{detail="{detail}",source="xentop"}} 1' in first
    assert 0 < (value(later, "xentop_iteration_age_seconds") or 0) < 5
    assert value(later, "xentop_child_starts_total") == 1
    assert value(later, "xentop_iteration_unknown_lines") == 0


def test_a_child_that_is_killed_is_started_again(xentop: FakeXentop, exporter: RunningExporter) -> None:
    with exporter:
        up(exporter)
        killed = xentop.child()
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: value(page(exporter), "xentop_child_starts_total") == 2)
        wait_for(lambda: len(xentop.starts()) == 2)  # which the new one notes a little later
        up(exporter)
        assert not alive(killed), "a zombie"
        assert "signal 9" in exporter.log_lines("xentop ended")[0]["err"]


@pytest.mark.system
def test_a_stopped_child_is_dropped_and_replaced(xentop: FakeXentop, exporter: RunningExporter) -> None:
    with exporter:
        up(exporter)
        stopped = xentop.child()
        os.kill(stopped, signal.SIGSTOP)
        failed = wait_for(lambda: text if value(text := page(exporter), "xentop_up") == 0 else "")
        assert "xen_domain_cpu_seconds_total{" not in failed, "old values must not pass for new ones"
        wait_for(lambda: not alive(stopped))
        up(exporter)
        assert len(xentop.starts()) == 2
        assert "no whole iteration" in exporter.log_lines("source failed")[-1]["err"]


def test_its_death_is_reported_once_with_its_last_output(xentop: FakeXentop, exporter: RunningExporter) -> None:
    xentop.say("dies")
    with exporter:
        wait_for(lambda: value(page(exporter), "xentop_up") == 0 and len(xentop.starts()) == 3)
        assert len(exporter.log_lines("xentop ended")) == 1
        said = [line["err"] for line in exporter.log_lines("source failed") if line["reason"] == "error"]
    assert "ended with status 1: ERROR: Can't find hypervisor information in sysfs!" in said[0]


def test_a_xentop_without_full_names(xentop: FakeXentop, exporter: RunningExporter) -> None:
    xentop.say("old")
    with exporter:
        up(exporter)
    assert [arguments for _, *arguments in xentop.starts()][1] == ["-b", "-n", "-x", "-v", "-d", "1"]


@pytest.mark.parametrize("state", ["runs", "hangs", "is stopped"])
def test_it_ends_with_the_exporter(xentop: FakeXentop, exporter: RunningExporter, state: str) -> None:
    if state == "hangs":
        xentop.say(state)
    with exporter:
        child = xentop.child()
        if state == "is stopped":
            os.kill(child, signal.SIGSTOP)
        assert exporter.stop() == 0
        assert not alive(child)
    assert exporter.log_lines("xentop ended") == []


def test_it_ends_with_a_killed_exporter(xentop: FakeXentop, exporter: RunningExporter) -> None:
    with exporter:
        up(exporter)
        exporter.process.kill()
        wait_for(lambda: not alive(xentop.child()))


def test_it_is_the_default_where_there_is_no_library(xentop: FakeXentop, tmp_path: Path) -> None:
    with running(xentop, tmp_path, "--xentrace.interval=60s") as exporter:
        text = up(exporter)
    assert re.search(r'xentop_source_info{detail="absent: [^"]*no domain ids[^"]*",source="xentrace"} 1.0', text)
    if not shutil.which("xentop"):
        (xentop.folder / "xentop").unlink()
        with pytest.raises(AssertionError, match="install Xen's tools"), running(xentop, tmp_path, "--source=xentop"):
            pass
