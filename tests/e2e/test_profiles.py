"""Profiles by the real perf: hot symbols in their known ratio, and nothing left behind whichever process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.running_exporter import RunningExporter

# Both loops wait for the result of the step before, so that neither's place in memory makes it any faster. How long
# they run is left to chance, so that they don't keep step with the sampling; but one always does thrice the other's.
PROGRAM = """
volatile unsigned long sink;
__attribute__((noinline)) void one_quarter(unsigned long steps) {
  unsigned long x = sink;
  while (steps--) x = x * 6364136223846793005UL + 1442695040888963407UL;
  sink = x;
}
__attribute__((noinline)) void three_quarters(unsigned long steps) {
  unsigned long x = sink;
  while (steps--) x = x * 6364136223846793005UL + 1442695040888963407UL;
  sink = x + 1;
}
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
ENOUGH = 6000  # samples of both: four standard deviations of the share of one are 2.2 points then


@pytest.fixture(scope="module", autouse=True)
def _real_perf(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not which("perf"):
        lacks("no perf: apt-get install linux-perf")
    data = tmp_path_factory.mktemp("perf") / "perf.data"
    tried = subprocess.run(
        ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-o", data, "--", "true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"perf may not sample this machine: run this as root, or with CAP_PERFMON: {tried.stderr[:300]}")


def lacks(what: str) -> None:
    if os.environ.get("CI") == "true":
        raise AssertionError(what)
    pytest.skip(what)


@contextmanager
def running_exporter(folder: Path, *flags: str) -> Iterator[RunningExporter]:
    """Run the exporter with folders of its own for what it or perf might leave behind."""
    for name in ("home", "temporary"):
        (folder / name).mkdir()
    environment = {**os.environ, "HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary")}
    with RunningExporter(folder, *flags, environment=environment, package="virtscope.perf") as exporter:
        yield exporter
    assert [str(left) for name in ("home", "temporary") for left in (folder / name).iterdir()] == []


def profile(exporter: RunningExporter) -> dict[tuple[str, str], float]:
    """Return the samples by image and symbol."""
    return {
        (sample.labels["image"], sample.labels["symbol"]): sample.value
        for family in text_string_to_metric_families(exporter.get().text)
        for sample in family.samples
        if sample.name == "perf_profile_samples_total"
    }


def value(exporter: RunningExporter, name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in text_string_to_metric_families(exporter.get().text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found)


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, and of theirs."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found += [child, *children(child)]
    return found


def name_of(pid: int) -> str:
    """Of a process; "" once it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def perf_of(exporter: RunningExporter) -> list[int]:
    """Wait until perf samples, which is when its `sleep` runs, and return the ids of both."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        running = children(exporter.process.pid)
        names = list(map(name_of, running))
        if "perf" in names and "sleep" in names:
            return running
        time.sleep(0.05)
    raise AssertionError(f"perf doesn't run: {exporter.log()}")


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + 60
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def test_hot_symbols_have_the_shares_they_are_known_to_have(tmp_path: Path) -> None:
    compiler = which("cc") or which("gcc")
    if not compiler:
        lacks("no C compiler: apt-get install gcc libc6-dev")
    source, program = tmp_path / "hot.c", tmp_path / "hot-program"
    source.write_text(PROGRAM)
    subprocess.run([str(compiler), "-O1", "-o", program, source], check=True, timeout=60)
    hot = subprocess.Popen([program])
    try:
        flags = ["--profile.event=cpu-clock", "--profile.frequency=1999", "--profile.seconds=3", "--profile.interval=3"]
        with running_exporter(tmp_path, *flags) as exporter:
            end = time.monotonic() + 150
            once = thrice = 0.0
            while once + thrice < ENOUGH:
                assert time.monotonic() < end, f"{once + thrice} samples: {exporter.log()}"
                time.sleep(0.5)
                found = profile(exporter)
                once = found.get(("hot-program", "one_quarter"), 0.0)
                thrice = found.get(("hot-program", "three_quarters"), 0.0)
            assert abs(thrice / (once + thrice) - 0.75) < 0.03
            hottest = {"image": "hot-program", "symbol": "three_quarters"}
            seconds = value(exporter, "perf_profile_events_total", **hottest)
            assert seconds == pytest.approx(value(exporter, "perf_profile_samples_total", **hottest) / 1999, rel=0.01)
            assert value(exporter, "perf_profile_info", event="cpu-clock", scope="this kernel", pace="1999 Hz") == 1
            assert value(exporter, "perf_profile_seconds_total") > 0
            assert value(exporter, "perf_source_cpu_seconds_total", source="profile") > 0
    finally:
        hot.kill()
        hot.wait(30)


def test_scrapes_between_two_rounds_see_the_same(tmp_path: Path) -> None:
    with running_exporter(tmp_path, "--profile.seconds=1", "--profile.interval=1h") as exporter:
        end = time.monotonic() + 60
        while not (first := profile(exporter)):
            assert time.monotonic() < end, exporter.log()
            time.sleep(0.2)
        time.sleep(1)
        assert profile(exporter) == first


def test_a_perf_that_is_killed_costs_its_round_and_is_counted(tmp_path: Path) -> None:
    with running_exporter(tmp_path, "--profile.seconds=3", "--profile.interval=3") as exporter:
        running = perf_of(exporter)
        for pid in running:
            if name_of(pid) == "perf":
                os.kill(pid, signal.SIGKILL)
                break
        wait_until_gone(running)
        end = time.monotonic() + 60
        while not profile(exporter):  # of a later round
            assert time.monotonic() < end, exporter.log()
            time.sleep(0.2)
        assert value(exporter, "perf_source_background_errors_total", source="profile", reason="error") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_exporter_that_ends_leaves_no_perf_behind(tmp_path: Path, number: signal.Signals) -> None:
    """On SIGTERM it ends perf; killed, it can't, but perf ends by itself. What it recorded is gone either way."""
    seconds = "60" if number == signal.SIGTERM else "3"
    with running_exporter(tmp_path, f"--profile.seconds={seconds}", "--profile.interval=1m") as exporter:
        running = perf_of(exporter)
        exporter.process.send_signal(number)
        assert exporter.process.wait(30) == (0 if number == signal.SIGTERM else -9)
        wait_until_gone(running)


def test_nothing_is_profiled_unless_it_is_asked_for(tmp_path: Path) -> None:
    with running_exporter(tmp_path) as exporter:
        assert "perf_profile" not in exporter.get().text
        assert 'source="profile"' not in exporter.get().text
        assert children(exporter.process.pid) == []
