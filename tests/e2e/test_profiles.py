"""Profiles by the real perf: hot symbols with a known ratio, and no leftovers.

Failed rounds: tests/unit/perf/test_perf_record.py.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter
from tests.ssh.sshd import command_of, descendants
from tests.support.needs import need
from tests.support.pages import Page
from tests.support.waiting import wait_for

# Both loops depend on the previous step, so that neither is faster because of its alignment. Their run time is random,
# so that they don't run in step with the sampling, but one always does three times as much as the other.
PROGRAM = """
volatile unsigned long sink;
#define STEPS(n) unsigned long x = sink; while (n--) x = x * 6364136223846793005UL + 1442695040888963407UL; sink = x
__attribute__((noinline)) void one_quarter(unsigned long steps) { STEPS(steps); }
__attribute__((noinline)) void three_quarters(unsigned long steps) { STEPS(steps); sink++; }
int main(void) {
  unsigned long chance = 1;
  for (;;) {
    chance = chance * 6364136223846793005UL + 1442695040888963407UL;
    unsigned long steps = 1000 + (chance >> 48);
    one_quarter(steps);
    three_quarters(3 * steps);
  }
}
"""
ENOUGH = 6000  # samples of both loops: four standard deviations of the share are then 2.2 points

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", autouse=True)
def _real_perf(tmp_path_factory: pytest.TempPathFactory) -> None:
    need(linux_perf="perf")
    data = tmp_path_factory.mktemp("perf") / "perf.data"
    command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-o", str(data), "--", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if tried.returncode:
        pytest.skip(f"perf may not sample this machine: run this as root, or with CAP_PERFMON: {tried.stderr[:300]}")


@contextmanager
def running_exporter(folder: Path, *flags: str) -> Iterator[RunningExporter]:
    """Run the exporter with its own folders for anything that it or perf might leave behind."""
    for name in ("home", "temporary"):
        (folder / name).mkdir()
    environment = {**os.environ, "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary")}
    with RunningExporter(folder, *flags, environment=environment, package="virtscope.perf") as exporter:
        yield exporter
    assert [str(left) for name in ("home", "temporary") for left in (folder / name).iterdir()] == []


def profile(exporter: RunningExporter) -> dict[tuple[str, str], float]:
    found = Page.of(exporter.address).all("perf_profile_samples_total")
    return {(sample.labels["image"], sample.labels["symbol"]): sample.value for sample in found}


def test_hot_symbols_have_the_shares_they_are_known_to_have(tmp_path: Path) -> None:
    need(gcc="cc")
    source, program = tmp_path / "hot.c", tmp_path / "hot-program"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", program, source], check=True, timeout=60)
    with subprocess.Popen([program]) as hot:
        try:
            flags = ["--profile.event=cpu-clock", "--profile.frequency=1999", "--profile.seconds=3"]
            with running_exporter(tmp_path, *flags, "--profile.interval=3") as exporter:

                def samples() -> list[float]:
                    found = profile(exporter)
                    return [found.get(("hot-program", symbol), 0) for symbol in ("one_quarter", "three_quarters")]

                once, thrice = wait_for(samples, 200, until=lambda both: sum(both) >= ENOUGH, explain=exporter.log)
                page = Page.of(exporter.address)
        finally:
            hot.kill()
    assert abs(thrice / (once + thrice) - 0.75) < 0.03
    hottest = {"image": "hot-program", "symbol": "three_quarters"}
    seconds = page.value("perf_profile_events_total", **hottest)
    assert seconds == pytest.approx(page.value("perf_profile_samples_total", **hottest) / 1999, rel=0.01)
    assert page.value("perf_profile_info", event="cpu-clock", scope="this kernel", pace="1999 Hz") == 1
    assert (
        min(page.value("perf_profile_seconds_total"), page.value("perf_source_cpu_seconds_total", source="profile")) > 0
    )


def test_an_exporter_that_ends_leaves_no_perf_behind(tmp_path: Path) -> None:
    """On SIGTERM it ends perf. After SIGKILL, perf ends by itself. The recording is deleted in both cases."""
    for number, seconds, status in ((signal.SIGTERM, 60, 0), (signal.SIGKILL, 3, -9)):
        folder = tmp_path / number.name
        folder.mkdir()
        with running_exporter(folder, f"--profile.seconds={seconds}", "--profile.interval=1m") as exporter:
            # While perf samples, its `sleep` runs.
            sampling = wait_for(
                lambda: descendants(exporter.process.pid),
                until=lambda found: (
                    {"perf", "sleep"} <= {command_of(pid).split(" ")[0].split("/")[-1] for pid in found}
                ),
                explain=exporter.log,
            )
            assert exporter.stop(number) == status
            wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in sampling))  # noqa: B023
