"""The source xentop in the real exporter, with a fake xentop. Failures: tests/unit/xen/test_xentop.py."""

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
    """A folder for PATH with a xentop whose next start can be scripted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.environment = {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}
        program = self.folder / "xentop"
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
        return int(wait_for(self.starts)[-1][0])


@pytest.fixture
def xentop(tmp_path: Path) -> Iterator[FakeXentop]:
    fake = FakeXentop(tmp_path)
    yield fake
    for pid, *_ in fake.starts():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def running(xentop: FakeXentop, folder: Path, *flags: str) -> RunningExporter:
    return RunningExporter(folder, f"--path.sysfs={folder}", *flags, environment=xentop.environment)


def alive(pid: int) -> bool:
    """Whether the pid is a process of the fake; zombies count, because nothing has reaped them."""
    try:
        return "xentop" in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def value(text: str, series: str) -> float | None:
    found = re.search(rf"(?m)^{re.escape(series)} (\S+)$", text)
    return float(found[1]) if found else None


def page_with(exporter: RunningExporter, series: str, wanted: float, *, not_it: bool = False) -> str:
    """The first page that matches, or doesn't; a scrape times out if the source would block it."""
    return wait_for(
        lambda: exporter.get(timeout=8, X_Prometheus_Scrape_Timeout_Seconds="10").text,
        until=lambda text: (value(text, series) == wanted) is not not_it,
    )


def test_one_child_serves_every_scrape_and_its_successor_when_it_is_killed(xentop: FakeXentop, tmp_path: Path) -> None:
    with running(xentop, tmp_path, "--source=xentop") as exporter:
        first = page_with(exporter, "xentop_up", 1)
        later = page_with(exporter, CPU, value(first, CPU) or 0, not_it=True)
        assert [arguments for _, *arguments in xentop.starts()] == [["-b", "-f", "-n", "-x", "-v", "-d", "1"]]
        killed = xentop.child()
        os.kill(killed, signal.SIGKILL)
        page_with(exporter, "xentop_child_starts_total", 2)
        page_with(exporter, "xentop_up", 1)
        assert not alive(killed), "a zombie"
        assert "signal 9" in exporter.log_lines("xentop ended")[0]["err"]
        exporter.process.kill()
        wait_for(lambda: not alive(xentop.child()))
    assert 'xen_domain_cpu_seconds_total{domain="Domain-0",domid="0"}' in first
    detail = f"{xentop.folder}/xentop, networks from /proc/net/dev"
    assert f'xentop_source_info{{detail="{detail}",source="xentop"}} 1' in first
    assert 0 < (value(later, "xentop_iteration_age_seconds") or 0) < 5
    assert (value(later, "xentop_child_starts_total"), value(later, "xentop_iteration_unknown_lines")) == (1, 0)


@pytest.mark.system
def test_a_stopped_child_is_dropped_and_replaced(xentop: FakeXentop, tmp_path: Path) -> None:
    with running(xentop, tmp_path, "--source=xentop") as exporter:
        page_with(exporter, "xentop_up", 1)
        stopped = xentop.child()
        os.kill(stopped, signal.SIGSTOP)
        failed = page_with(exporter, "xentop_up", 0)
        assert "xen_domain_cpu_seconds_total{" not in failed, "old values must not pass for new ones"
        wait_for(lambda: not alive(stopped))
        page_with(exporter, "xentop_up", 1)
        assert len(xentop.starts()) == 2
        assert "no whole iteration" in exporter.log_lines("source failed")[-1]["err"]


@pytest.mark.parametrize("state", ["runs", "hangs", "is stopped"])
def test_it_ends_with_the_exporter(xentop: FakeXentop, tmp_path: Path, state: str) -> None:
    xentop.say("hangs" if state == "hangs" else "counts")
    with running(xentop, tmp_path, "--source=xentop") as exporter:
        child = xentop.child()
        if state == "is stopped":
            os.kill(child, signal.SIGSTOP)
        assert exporter.stop() == 0
        assert not alive(child)
    assert exporter.log_lines("xentop ended") == []


def test_it_is_the_default_where_there_is_no_library(xentop: FakeXentop, tmp_path: Path) -> None:
    with running(xentop, tmp_path, "--xentrace.interval=60s") as exporter:
        text = page_with(exporter, "xentop_up", 1)
    assert re.search(r'xentop_source_info{detail="absent: [^"]*no domain ids[^"]*",source="xentrace"} 1.0', text)
    if not shutil.which("xentop"):
        (xentop.folder / "xentop").unlink()
        with pytest.raises(AssertionError, match="install Xen's tools"), running(xentop, tmp_path, "--source=xentop"):
            pass
