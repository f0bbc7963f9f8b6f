"""The flags' values that need more than their type: what is taken, and what is refused before anything starts."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

import virtscope
from virtscope.toolkit import cli
from virtscope.toolkit.recording import Header, Writer
from virtscope.toolkit.scrape import Exporter


def parse(*arguments: str) -> object:
    return cli.parser("x-exporter", "An exporter.", 9100).parse_args(arguments)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        ("[::1]:0", ("::1", 0)),
        (":9100", ("", 9100)),
        ("dom0.example.:65535", ("dom0.example.", 65535)),
    ],
)
def test_listen_addresses(text: str, address: tuple[str, int]) -> None:
    assert cli.listen_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "9100", "host:", "host:65536", "host:-1", "::1:9100", "::1]:80", "[::1:80", "..:80", f"{'a' * 64}:80"]
)
def test_what_is_no_listen_address(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--web.listen-address={text}")
    assert "argument --web.listen-address: " in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy/x", "/a/b.c_d~e/"])
def test_telemetry_paths(path: str) -> None:
    assert vars(parse(f"--web.telemetry-path={path}"))["telemetry_path"] == path


@pytest.mark.parametrize(
    "path", ["", "/", "metrics", "/-/healthy", "//metrics", "/m?x", "/m#x", "/a b", "/m\u00e9", "/m\n"]
)
def test_paths_that_no_request_would_match(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--web.telemetry-path={path}")
    assert "must be a path such as /metrics" in capsys.readouterr().err


# --- Durations and factors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("90s", 90),
        ("0.25s", 0.25),
        ("10m", 600),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1w", 604_800),
        ("1h2m3s4ms", 3723.004),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert cli.duration(text) == cli.interval_or_never(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "0s", "0.0", "-1s", "1 m", "30m1h", "1m1m", "1.5h30m", "0w", "ms", "1e3", "inf", "nan", "\u0663s"]
)
def test_what_is_no_duration(text: str) -> None:
    for of in (cli.duration, cli.interval_or_never):
        with pytest.raises(ArgumentTypeError, match="is not a duration above 0, such as 90s, 1m30s or 500ms"):
            of(text)


def test_an_interval_of_0_is_never_and_a_duration_of_0_none() -> None:
    assert cli.interval_or_never("0") == 0
    with pytest.raises(ArgumentTypeError):
        cli.duration("0")


def replaying(*arguments: str) -> Namespace:
    flags = cli.parser("x-exporter", "An exporter.", 9100)
    flags.add_argument("--source", type=cli.source(["proc", cli.REPLAY]), default="proc")
    cli.add_replay(flags)
    return flags.parse_args(arguments)


@pytest.mark.parametrize("speed", ["0.001", "1", "1000000"])
def test_speeds_of_a_recording(speed: str) -> None:
    assert replaying(f"--replay.speed={speed}").replay_speed == float(speed)


@pytest.mark.parametrize("speed", ["0", "-0.5", "1000001", "inf", "nan", "fast"])
def test_what_is_no_speed(speed: str) -> None:
    with pytest.raises(SystemExit):
        replaying(f"--replay.speed={speed}")


# --- Flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["proc", "replay:host.jsonl.gz"])
def test_sources(source: str) -> None:
    assert replaying(f"--source={source}").source == source


@pytest.mark.parametrize("source", ["", "pro", "replay:", "replay", "proc:host.jsonl.gz"])
def test_what_is_no_source(source: str) -> None:
    with pytest.raises(SystemExit):
        replaying(f"--source={source}")


def test_files_are_no_source_of_an_exporter_that_plays_none() -> None:
    with pytest.raises(ArgumentTypeError, match=r"'replay:host\.jsonl\.gz' is none of proc, xl"):
        cli.source(["proc", "xl"])("replay:host.jsonl.gz")


def test_what_is_given_without_flags() -> None:
    given = vars(parse())
    assert given["listen_address"] == ("127.0.0.1", 9100), "nobody else on the network"
    assert (given["telemetry_path"], given["procfs"], given["sysfs"]) == ("/metrics", "/proc", "/sys")
    recorded = cli.recorder("x-exporter").parse_args(["host.jsonl.gz"])
    assert (recorded.seconds, recorded.interval, recorded.anonymise) == (600, 1, False)
    assert recorded.procfs == "/proc"
    assert (replaying().replay_speed, replaying().replay_once) == (1, False)


def test_one_that_reads_other_hosts_has_no_flags_of_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    others = cli.parser("x-exporter", "An exporter.", 9100, of_this_host=False)
    assert "record" not in others.format_help()
    with pytest.raises(SystemExit):
        others.parse_args(["--path.procfs=/proc"])
    assert "unrecognized arguments: --path.procfs=/proc" in capsys.readouterr().err


def test_flags_are_not_abbreviated() -> None:
    """Else a script breaks when another flag that begins so is added."""
    with pytest.raises(SystemExit):
        parse("--web.listen=:9100")


# --- Log --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _log_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_log_as_it_was")
def test_each_line_is_of_the_form_and_level_that_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("virtscope.test")
    cli.log_to_stderr("warn", "json")
    log.info("left out")
    log.warning("source failed", extra={"fields": {"source": "xl"}})
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["msg"], line["source"]) == ("warn", "source failed", "xl")
    assert "stack" not in line
    cli.log_to_stderr("info", "logfmt")
    log.debug("left out")
    try:
        raise OSError("no xl")
    except OSError as error:
        log.error("source failed", extra={"fields": {"source": "xl"}}, exc_info=error)
    said = capsys.readouterr().err
    assert said.startswith("ts=")
    assert ' level=error msg="source failed" source=xl stack="Traceback' in said


# --- Serving and playing ----------------------------------------------------------------------------------------------


def test_an_address_in_use_is_said_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = replaying(f"--web.listen-address=127.0.0.1:{port}")
        with pytest.raises(SystemExit) as ended:
            cli.serve(Exporter("x", []), given)
    assert str(ended.value) == (
        f"x-exporter: can't listen on 127.0.0.1:{port}: Address already in use; choose another --web.listen-address"
    )


def test_a_recording_is_played_if_it_is_the_source(tmp_path: Path) -> None:
    file = tmp_path / "host.jsonl.gz"
    assert cli.playback("x", replaying("--source=proc")) is None
    with pytest.raises(SystemExit, match=r"x-exporter: .*host\.jsonl\.gz"):
        cli.playback("x", replaying(f"--source=replay:{file}"))
    writer = Writer(file, Header("x", ("proc",), 1.0, "2026-11-01T12:00:00+00:00", anonymised=False))
    writer.write(0, "proc", "text")
    writer.close()
    played = cli.playback("x", replaying(f"--source=replay:{file}"))
    assert played
    assert played.header.recorded == "2026-11-01T12:00:00+00:00"


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_it_serves_until_sigterm_and_looks_at_its_files_at_sighup(address: str, tmp_path: Path) -> None:
    if ":" in address and not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    web = tmp_path / "web.yml"
    web.write_text("")
    program = f"""
from virtscope.toolkit import cli
from virtscope.toolkit.scrape import Exporter
flags = cli.parser("x-exporter", "An exporter.", 9100)
given = ["--web.listen-address={address}:0", "--web.config.file={web}", "--log.format=json"]
cli.serve(Exporter("x", []), cli.start(flags, given))
"""
    folder = str(Path(virtscope.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": folder}
    ) as exporter:
        try:
            assert exporter.stderr
            started, listening = (json.loads(exporter.stderr.readline()) for _ in range(2))
            assert (started["msg"], listening["msg"]) == ("starting x-exporter", "listening")
            web.write_text("?")
            exporter.send_signal(signal.SIGHUP)
            assert json.loads(exporter.stderr.readline())["msg"].startswith("web configuration unusable")
            host, _, port = listening["address"].rpartition(":")
            assert host == address
            client = HTTPConnection(host.strip("[]"), int(port), timeout=30)
            client.request("GET", "/-/healthy")
            assert client.getresponse().read() == b"x-exporter is healthy.\n"
            client.close()
            exporter.send_signal(signal.SIGTERM)
            assert json.loads(exporter.stderr.readline())["msg"] == "stopping"
            assert exporter.wait(30) == 0
        finally:
            exporter.kill()
