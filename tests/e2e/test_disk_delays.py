"""sched-exporter's disk delays, as root on this machine's kernel, compared with the kernel's own accounting.

The disk serves one request after the other. Readers have ended while counters are read.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.slow_disk import slow_disk, why_not_here
from tests.e2e.running_exporter import RunningExporter
from tests.support import reading
from tests.support.needs import missing, need_root
from tests.support.pages import Page
from tests.support.waiting import wait_for
from virtscope.toolkit.hierarchy import hierarchy

DELAY, REQUESTS = "blk_delay_seconds_total", "blk_requests_total"
SERVICE_SECONDS = 0.002
ENOUGH = 200  # requests

pytestmark = pytest.mark.system


class Reader:
    """A cgroup that the exporter takes for a container, with a process that reads a disk."""

    def __init__(self, disk: str, name: str, threads: int) -> None:
        self.path = f"/virtscope/{name}-{os.getpid()}"
        self._folder = hierarchy(Path("/proc"), "blkio").root / self.path.strip("/")
        self._folder.mkdir(parents=True, exist_ok=True)
        enter = f"echo $$ >{self._folder}/cgroup.procs"
        command = [sys.executable, "-c", reading.SCRIPT, f"/dev/{disk}", str(threads)]
        self._process = subprocess.Popen(["sh", "-ec", f'{enter}; exec "$@"', "sh", *command])

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def remove(self) -> None:
        self.end()
        wait_for(self._folder.rmdir, 60, until=lambda _: True, not_yet=(OSError,))  # it may be in it for a moment


class Delays:
    """Who delayed the readers of one disk, since the exporter began."""

    def __init__(self, exporter: RunningExporter, disk: str) -> None:
        self._exporter, self._disk = exporter, disk

    def of(self, reader: Reader) -> dict[str, float]:
        """Seconds by who was served."""
        page = Page.of(self._exporter.address)
        return {each.labels["by"]: each.value for each in page.all(DELAY, device=self._disk, cgroup=reader.path)}

    def totals(self) -> tuple[float, float, float]:
        """Seconds of all requests: as the kernel counts them (Documentation/block/stat.rst), charged, and by name."""
        words = Path(f"/sys/block/{self._disk}/stat").read_text().split()
        page = Page.of(self._exporter.address)
        charged, named = (page.total(each, device=self._disk) for each in ("blk_delay_charged_seconds_total", DELAY))
        return (int(words[3]) + int(words[7])) / 1e3, charged, named

    def requests(self, reader: Reader) -> float:
        return Page.of(self._exporter.address).total(REQUESTS, device=self._disk, cgroup=reader.path)


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[RunningExporter]:
    need_root("may load programs into the kernel and make cgroups")
    with RunningExporter(tmp_path, package="virtscope.sched") as exporter:
        exporter.get()
        for line in exporter.log_lines("source can't be measured"):
            missing(line["why"])
        yield exporter


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """One that serves one request after the other."""
    if reason := why_not_here():
        missing(reason)
    with slow_disk(tmp_path / "disk", SERVICE_SECONDS) as device:
        yield device.name


def test_who_is_served_while_a_container_s_requests_wait_is_charged_with_the_kernel_s_seconds(
    exporter: RunningExporter, disk: str
) -> None:
    delays = Delays(exporter, disk)
    before = delays.totals()
    with contextlib.ExitStack() as at_end:
        shop, backup = (Reader(disk, name, threads) for name, threads in (("shop", 1), ("backup", 4)))
        at_end.callback(shop.remove)
        at_end.callback(backup.remove)
        wait_for(lambda: delays.requests(shop) > ENOUGH)
        shop.end()
        backup.end()
        of_shop, of_backup = delays.of(shop), delays.of(backup)
        kernel, charged, named = (now - then for now, then in zip(delays.totals(), before, strict=True))
    assert charged == pytest.approx(kernel, rel=0.03)
    assert named == pytest.approx(kernel, rel=0.03)
    assert {by for by in of_shop if by.startswith("/")} == {backup.path}
    assert of_shop[backup.path] > sum(of_shop.values()) / 2, "four of its requests wait at any time"
    assert of_shop["(throttled)"] + of_shop["(rest)"] < sum(of_shop.values()) / 20
    assert of_backup["(self)"] > of_backup[shop.path] > 0


def test_a_container_that_is_alone_waits_for_the_device_only(exporter: RunningExporter, disk: str) -> None:
    delays = Delays(exporter, disk)
    shop = Reader(disk, "shop", 1)
    with contextlib.ExitStack() as at_end:
        at_end.callback(shop.remove)
        wait_for(lambda: delays.requests(shop) > ENOUGH)
        of_shop, requests = delays.of(shop), delays.requests(shop)
    assert of_shop["(device)"] > 0.95 * sum(of_shop.values())
    assert of_shop["(device)"] > requests * SERVICE_SECONDS
    assert not any(by.startswith("/") for by in of_shop)


def test_disks_and_interrupts_can_be_left_out(tmp_path: Path) -> None:
    with RunningExporter(tmp_path, "--no-disks", "--no-interrupts", package="virtscope.sched") as exporter:
        page = Page.of(exporter.address)
    assert {each.labels["source"] for each in page.all("sched_source_info")} == {"sched_switch", "memory"}
    assert not page.all(DELAY)
