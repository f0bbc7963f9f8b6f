"""access_log.pl --check: whether a log's lines parse, and what to do where they don't."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.telegraf import lines
from tests.telegraf.agent import FOLDER

COMMON = b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET / HTTP/1.1" 200 12'
MAIN = COMMON + b' "-" "curl/8" "203.0.113.5"'  # as nginx's packages have it


def check(*logs: Path) -> subprocess.CompletedProcess[str]:
    command = ["perl", str(FOLDER / "access_log.pl"), "--check", *map(str, logs)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"}
    )


@pytest.mark.parametrize("form", lines.FORMATS)
def test_every_format_that_is_counted_passes(tmp_path: Path, form: str) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines.text(lines.some_lines(form, 500, seed=3, garbage=0)))
    found = check(log)
    assert (found.returncode, found.stdout, found.stderr) == (0, f"{log}: 500 of the last 500 lines parse\n", "")
    assert list(tmp_path.iterdir()) == [log], "it leaves nothing behind"


@pytest.mark.parametrize(
    "garbage", [line for line in lines.GARBAGE if line], ids=lambda line: line[:120][-50:].decode("ascii", "replace")
)
def test_no_garbage_passes(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "access.log").write_bytes(garbage + b"\n")
    assert "0 of the last 1 lines parse\n  1: " in check(tmp_path / "access.log").stdout


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (MAIN, "no time: add it at the end of the format, %D (Apache) or $request_time (nginx)"),
        (COMMON, "no time: add it at the end of the format, %D (Apache) or $request_time (nginx)"),
        (MAIN + b' "0.123"', 'write $request_time without them, or rt="$request_time"'),
        (MAIN + b" 0.123 0.120", "name it (rt=$request_time)"),  # $upstream_response_time
        (MAIN + b" 0.123 -", "name it (rt=$request_time)"),
        (MAIN + b" 89 0.001 [shop-80] [] 10.0.0.5:80 59 0.000 200 529a", "name it (rt=$request_time)"),  # ingress-nginx
        (MAIN + b" rt=0.100 rt=0.100", "the time has two names"),
        (MAIN + b" 1.5", "whole microseconds (%D), or seconds with three decimals ($request_time)"),
        (MAIN + b" -5", "whole microseconds (%D), or seconds with three decimals ($request_time)"),
        (b'{"request_time": 0.123}', "not the common format: client, identity, user, [day/Mon/year:time zone]"),
    ],
)
def test_it_says_what_to_do(tmp_path: Path, line: bytes, advice: str) -> None:
    log = tmp_path / "access.log"
    log.write_bytes((MAIN + b" 0.123\n") * 7 + (line + b"\n") * 2)
    found = check(log)
    first, why, example = found.stdout.splitlines()
    assert first == f"{log}: 7 of the last 9 lines parse"
    assert why.startswith("  2: ")
    assert advice in why
    assert example == f"    {line.decode()}"
    assert (found.returncode, found.stderr) == (1, "")


def test_only_whole_lines_at_the_end_are_looked_at(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(COMMON + b"\n" + (MAIN + b" 0.123\n") * 5000 + COMMON)
    found = check(log)
    assert found.returncode == 0
    assert found.stdout.endswith(" lines parse\n")


def test_a_line_can_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_bytes(b"\x1b[2J\xc3\xa4\n")
    assert "    \\x1B[2J\\xC3\\xA4\n" in check(tmp_path / "access.log").stdout


def test_a_log_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    found = check(tmp_path / "missing.log", tmp_path / "empty.log")
    assert f"cannot read {tmp_path}/missing.log: No such file" in found.stdout
    assert f"{tmp_path}/empty.log: 0 of the last 0 lines parse\n" in found.stdout
    assert found.returncode == 1
