"""Changes to a log between two runs of access_log.pl: no line is lost or counted twice."""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.telegraf.agent import FOLDER
from tests.telegraf.page import Totals, totals

LINE = b'192.0.2.7 - - [21/Nov/2026:08:15:%02d +0000] "GET /%d HTTP/1.1" 200 12 "-" "-" 1000\n'


class Sensor:
    """access_log.pl on the log `path`, run manually; `written` numbers the lines, so that all are different."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "logs" / "access.log"
        self.path.parent.mkdir()
        self.state = folder / "state"
        self.state.mkdir()
        self.written = 0
        # A copy that reads a whole log in one run, even on a busy machine.
        script, its_time = (FOLDER / "access_log.pl").read_text(), "$SECONDS_PER_RUN = 2;"
        assert script.count(its_time) == 1
        (folder / "access_log.pl").write_text(script.replace(its_time, "$SECONDS_PER_RUN = 50;"))
        self.command = ["perl", f"{folder}/access_log.pl", str(self.path)]
        self.environment = {**os.environ, "STATE_DIRECTORY": str(self.state)}

    def write(self, count: int, path: Path | None = None) -> None:
        """Append lines to the log, or to a rotated log."""
        with (path or self.path).open("ab") as log:
            for _ in range(count):
                log.write(LINE % (self.written // 10_000 % 60, self.written))
                self.written += 1

    def run(self, *logs: Path | str) -> subprocess.CompletedProcess[str]:
        command = [*self.command[:2], *map(str, logs or [self.path])]
        return subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True, timeout=60)

    def totals(self, *logs: Path) -> Totals:
        result = self.run(*logs)
        assert (result.returncode, result.stderr) == (0, "")
        return totals(result.stdout)

    def count(self) -> int:
        """The number of requests counted after another run."""
        found = self.totals()
        assert found.unparsed == 0
        assert found.count == found.lines
        return found.count


@pytest.fixture
def sensor(tmp_path: Path) -> Sensor:
    """A sensor that has run once, on an empty log."""
    sensor = Sensor(tmp_path)
    sensor.path.touch()
    assert sensor.count() == 0
    return sensor


def test_the_longest_time_of_a_request_is_a_day(sensor: Sensor) -> None:
    """Longer ones are in lines.GARBAGE, such as LINE's own time, 21/Nov/2026, 08:15, as a Unix time."""
    with sensor.path.open("ab") as log:
        log.writelines(
            LINE.replace(b"1000\n", b"%s\n" % time) % (0, 1) for time in (b"1895248900", b"86400.000", b"1000")
        )
    found = sensor.totals()
    requests = found.requests["GET", "2xx"]
    assert found.unparsed == 0
    assert requests.sum == pytest.approx(1895.2489 + 86400 + 0.001, abs=1e-6)
    assert (requests.buckets[0.005], requests.buckets[10], requests.count) == (1, 1, 3)


def test_the_usual_series_are_there_before_the_first_request(sensor: Sensor) -> None:
    usual = {(method, status) for method in ("GET", "POST", "other") for status in ("2xx", "3xx", "4xx", "5xx")}
    assert set(sensor.totals().requests) == usual


def test_renamed_with_lines_that_come_late(sensor: Sensor) -> None:
    sensor.write(3)
    assert sensor.count() == 3
    sensor.write(2)
    rotated = sensor.path.rename(sensor.path.with_name("access.log.1"))
    sensor.write(4, rotated)  # the server hasn't received the signal yet
    sensor.write(1)
    assert sensor.count() == 10
    sensor.write(2, rotated)  # one of its processes still answers a long request
    sensor.write(1)
    assert sensor.count() == 13


def test_copied_and_truncated(sensor: Sensor) -> None:
    sensor.write(6)
    assert sensor.count() == 6
    sensor.write(2)
    shutil.copy(sensor.path, sensor.path.with_name("access.log.1"))
    assert sensor.count() == 8  # in the middle of rotation
    sensor.write(2)
    shutil.copy(sensor.path, sensor.path.with_name("access.log.1"))
    os.truncate(sensor.path, 0)
    sensor.write(1)
    assert sensor.count() == 11
    sensor.write(20)  # longer than before
    assert sensor.count() == 31


def test_whatever_becomes_of_the_log_no_line_is_lost_or_counted_twice(sensor: Sensor) -> None:
    """Six lines are counted and others not yet; then the log is changed, the next run may report errors, and a line is
    added."""
    for done, not_yet, complaint in (
        ("mv access.log access.log-20261121", 2, "No such file"),
        ("rm access.log", 0, "No such file"),
        ("cp access.log copy && mv copy access.log", 0, ""),  # to another disk
        ("truncate --size 0 access.log", 0, ""),
    ):
        sensor.write(6)
        assert sensor.count() == sensor.written, done
        sensor.write(not_yet)
        subprocess.run(done, shell=True, cwd=sensor.path.parent, check=True)
        run = sensor.run()
        assert (run.returncode == 0, complaint in run.stderr) == (complaint == "", True), done
        sensor.write(1)
        assert sensor.count() == sensor.written, done


def test_gone_for_a_while_and_back_again(sensor: Sensor) -> None:
    sensor.write(6)
    assert sensor.count() == 6
    elsewhere = sensor.path.rename(sensor.path.parent.parent / "elsewhere.log")
    assert sensor.run().returncode != 0
    sensor.write(2, elsewhere)
    elsewhere.rename(sensor.path)
    assert sensor.count() == 8
    folder = sensor.path.parent.rename(sensor.path.parent.with_name("unmounted"))
    assert "cannot list" in sensor.run().stderr
    folder.rename(sensor.path.parent)
    sensor.write(1)
    assert sensor.count() == 9


def test_others_files_beside_the_log_are_not_counted(sensor: Sensor) -> None:
    sensor.write(2)
    assert sensor.count() == 2
    for name in ("access.log.2", "access.log-old", "access.log.3.gz", "access.logs", "other.access.log"):
        sensor.path.with_name(name).write_bytes(b"not ours\n" * 5)
    sensor.path.with_name("access.log.d").mkdir()
    os.mkfifo(sensor.path.with_name("access.log.pipe"))
    assert sensor.count() == 2


def test_a_last_line_is_counted_when_it_is_complete(sensor: Sensor) -> None:
    line = LINE % (0, 0)
    with sensor.path.open("ab", buffering=0) as log:
        for end in (1, 20, len(line) - 1):
            log.write(line[:end])
            assert sensor.count() == 0
            os.truncate(sensor.path, 0)
        log.write(line + line[:30])
        assert sensor.count() == 1
        log.write(line[30:] + line[:-1])
        assert sensor.count() == 2
        log.write(b"\n")
        assert sensor.count() == 3


def test_lines_without_an_end_are_not_kept_in_memory(sensor: Sensor) -> None:
    sensor.write(1)
    with sensor.path.open("ab") as log:
        log.write(b"x" * 5_000_000 + b"\n")
    sensor.write(1)
    found = sensor.totals()
    assert found.count == 2
    assert found.unparsed >= 1


def test_logs_of_one_tier_are_added_up(sensor: Sensor) -> None:
    other = sensor.path.with_name("other.log")
    other.touch()
    sensor.totals(sensor.path, other)
    sensor.write(2)
    sensor.write(3, other)
    assert sensor.totals(sensor.path, other).count == 5
    other.unlink()
    missing = sensor.run(sensor.path, other)
    assert missing.stdout == ""
    assert f"cannot read {other}: No such file" in missing.stderr


def test_a_run_that_is_killed_counts_in_the_next_one(sensor: Sensor) -> None:
    chosen = random.Random(5)
    for _ in range(30):
        sensor.write(500)
        with subprocess.Popen(sensor.command, env=sensor.environment, stdout=subprocess.DEVNULL) as run:
            time.sleep(chosen.uniform(0, 0.04))
            run.kill()
    assert sensor.count() == 30 * 500


def test_a_damaged_state_is_reported_once(sensor: Sensor) -> None:
    sensor.write(3)
    assert sensor.count() == 3
    (state,) = (path for path in sensor.state.iterdir() if path.suffix != ".lock")
    assert state.stat().st_mode & 0o077 == 0  # it contains a line of the log
    state.write_bytes(state.read_bytes()[:-10])
    assert "was damaged" in sensor.run().stderr
    assert sensor.count() == 0
    sensor.write(1)
    assert sensor.count() == 1


def test_what_a_log_had_before_it_could_be_read_is_not_counted(tmp_path: Path) -> None:
    """Root may read every file, but must not read folders or a link to itself."""
    sensor = Sensor(tmp_path)
    sensor.path.mkdir()
    assert f"{sensor.path} is not a file" in sensor.run().stderr
    sensor.path.rmdir()
    sensor.path.symlink_to(sensor.path)
    assert f"cannot read {sensor.path}: Too many levels" in sensor.run().stderr
    sensor.path.unlink()
    sensor.write(5)
    assert sensor.count() == 0
    sensor.write(1)
    assert sensor.count() == 1


def test_what_cannot_be_done_is_said_in_a_line(sensor: Sensor) -> None:
    link = sensor.path.with_name("link.log")
    link.symlink_to(sensor.path)
    refused: dict[tuple[Path | str, ...], str] = dict.fromkeys([("/",), ("/dev/null",), ("/dev",)], "")
    refused |= {(sensor.path, again): f"{again} is read as {sensor.path} already\n" for again in (sensor.path, link)}
    refused[sensor.path,] = f"cannot write {sensor.state}"
    for logs, said in refused.items():
        if "write" in said:
            shutil.rmtree(sensor.state)
        result = sensor.run(*logs)
        assert (result.returncode != 0, result.stdout, result.stderr.count("\n")) == (True, "", 1), logs
        assert said in result.stderr
