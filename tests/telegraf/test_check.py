"""access_log.pl --check: whether a log's lines parse, with a remedy if they don't."""

import statistics
import subprocess
from pathlib import Path

from tests.telegraf import lines
from tests.telegraf.agent import FOLDER

COMMON = b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET / HTTP/1.1" 200 12'
MAIN = COMMON + b' "-" "curl/8" "203.0.113.5"'  # as in nginx's packages


def check(*logs: Path) -> subprocess.CompletedProcess[str]:
    command = ["perl", str(FOLDER / "access_log.pl"), "--check", *map(str, logs)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"}
    )


def test_every_format_that_is_counted_passes_and_no_garbage(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    for form in lines.FORMATS:
        written = lines.some_lines(form, 500, seed=3, garbage=0)
        log.write_bytes(lines.text(written))
        found = check(log)
        parsed, times, *_ = found.stdout.splitlines()
        assert (found.returncode, parsed, found.stderr) == (0, f"{log}: 500 of the last 500 lines parse", ""), form
        microseconds = [line.microseconds for line in written if line.microseconds is not None]
        median, largest = statistics.median_low(microseconds) / 1e3, max(microseconds) / 1e6
        assert times == f"  times: smallest 0.000 ms, median {median:.3f} ms, largest {largest:.3f} s", form
    garbage = [line for line in lines.GARBAGE if line]
    log.write_bytes(b"\n".join([*garbage, b""]))
    assert check(log).stdout.startswith(f"{log}: 0 of the last {len(garbage)} lines parse\n")
    assert list(tmp_path.iterdir()) == [log], "it leaves nothing behind"


ADD = "no time: add it at the end of the format, %D (Apache) or $request_time (nginx)"
NAME = "name it (rt=$request_time)"
UNIT = "whole microseconds (%D), or seconds with three decimals ($request_time)"
ADVICE = [
    (MAIN, ADD),
    (COMMON, ADD),
    (MAIN + b' "0.123"', 'write $request_time without them, or rt="$request_time"'),
    (MAIN + b" 0.123 0.120", NAME),  # $upstream_response_time
    (MAIN + b" 0.123 -", NAME),
    (MAIN + b" 89 0.001 [shop-80] [] 10.0.0.5:80 59 0.000 200 529a", NAME),  # ingress-nginx
    (MAIN + b" rt=0.100 rt=0.100", "the time has two names"),
    *((MAIN + time, UNIT) for time in (b" 1.5", b" -5", b" 2ms", b" NaN", b" 1e308", b' rt="0.100, 0.200"')),
    (MAIN + b" 1795248953.123", "not a plausible time: more than a day, or a Unix time ($msec, %{sec}t)"),
    *((MAIN + time, "not a plausible time") for time in (b" 1795248953", b" 1795248953123", b" rt=1795248953.123")),
    *((MAIN + time, "not a plausible time") for time in (b" 86400.001", b" 86400000001")),
    (b'{"request_time": 0.123}', "not the common format: client, identity, user, [day/Mon/year:time zone]"),
]


def test_it_says_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    for line, advice in ADVICE:
        log.write_bytes((MAIN + b" 0.123\n") * 7 + (line + b"\n") * 2)
        found = check(log)
        first, times, why, example = found.stdout.splitlines()
        assert first == f"{log}: 7 of the last 9 lines parse"
        assert times == "  times: smallest 123.000 ms, median 123.000 ms, largest 123.000 ms"
        assert why.startswith("  2: ")
        assert advice in why
        assert example == f"    {line.decode()}"
        assert (found.returncode, found.stderr) == (1, "")


UNITS = "integers are read as microseconds (%D), not as seconds (%T) or milliseconds (%{ms}T, %D of Tomcat 9)"
OTHER_UNIT = (
    "half of the times are above 10 s: are these milliseconds ($request_time has seconds), or nanoseconds (%D has "
    "microseconds)?"
)
# The smallest, the median and the largest parsed time, and the warning.
TIMES = [
    ("40 1270 0", "0.000 ms", "0.040 ms", "1.270 ms", f"2 of 3 times are below 0.1 ms: {UNITS}"),  # %{ms}T
    ("120 340 560", "0.120 ms", "0.340 ms", "0.560 ms", f"no time reaches 5 ms: right for a fast server; {UNITS}"),
    ("0 0", "0.000 ms", "0.000 ms", "0.000 ms", f"all times are 0: {UNITS}"),  # %T
    ("0 1 0 2", "0.000 ms", "0.000 ms", "0.002 ms", f"4 of 4 times are below 0.1 ms: {UNITS}"),  # %T
    ("0.000 0.000", "0.000 ms", "0.000 ms", "0.000 ms", "all times are 0: does the log round them?"),
    ("0.000 2.000 1.000", "0.000 ms", "1.000 s", "2.000 s", "all times are whole seconds: does the log round them?"),
    ("40.500 1270.250", "40.500 s", "40.500 s", "1270.250 s", OTHER_UNIT),  # milliseconds with decimals
    ("40000001 52000002", "40.000 s", "40.000 s", "52.000 s", OTHER_UNIT),  # nanoseconds
    ("1773.309", "1773.309 s", "1773.309 s", "1773.309 s", OTHER_UNIT),
    ("0.000 0.001 0.123", "0.000 ms", "1.000 ms", "123.000 ms", ""),  # nginx
    ("250 12000 90000", "0.250 ms", "12.000 ms", "90.000 ms", ""),  # Apache
]


def test_it_says_what_times_it_read_and_warns_of_those_in_another_unit(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    for written, smallest, median, largest, warning in TIMES:
        log.write_bytes(b"".join(MAIN + b" %s\n" % time.encode() for time in written.split()))
        found = check(log)
        _, *said = found.stdout.splitlines()
        times = f"  times: smallest {smallest}, median {median}, largest {largest}"
        assert said == [times, f"  warning: {warning}"][: 1 + bool(warning)], written
        assert found.returncode == 0, written


def test_only_whole_lines_at_the_end_are_looked_at(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(COMMON + b"\n" + (MAIN + b" 0.123\n") * 5000 + COMMON)
    assert check(log).returncode == 0
    log.write_bytes(b"\x1b[2J\xc3\xa4\n")
    assert "    \\x1B[2J\\xC3\\xA4\n" in check(log).stdout, "a line can do nothing to a terminal"


def test_a_log_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    found = check(tmp_path / "missing.log", tmp_path / "empty.log")
    assert f"cannot read {tmp_path}/missing.log: No such file" in found.stdout
    assert f"{tmp_path}/empty.log: 0 of the last 0 lines parse\n" in found.stdout
    assert found.returncode == 1
