"""Flag values with more restrictions than their type: accepted ones, and refusals before anything starts."""

import json
import logging
import socket
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator

import pytest

from tests.support.refusals import refusal
from virtscope.toolkit import cli
from virtscope.toolkit.scrape import Exporter


def parse(*arguments: str) -> Namespace:
    flags = cli.parser("x-exporter", "An exporter.", 9100)
    flags.add_argument("--source", type=cli.source(["proc", cli.REPLAY]), default="proc")
    cli.add_replay(flags, add_source=False)
    return flags.parse_args(arguments)


def test_what_flags_take() -> None:
    assert parse().listen_address == ("127.0.0.1", 9100), "nobody else on the network"
    addresses = {"[::1]:0": ("::1", 0), ":9100": ("", 9100), "dom0.example.:65535": ("dom0.example.", 65535)}
    for text, address in addresses.items():
        assert parse(f"--web.listen-address={text}").listen_address == address
    for path in ("/metrics", "/-/healthy/x", "/a/b.c_d~e/"):
        assert parse(f"--web.telemetry-path={path}").telemetry_path == path
    for speed in (0.001, 1e6):
        assert parse(f"--replay.speed={speed}").replay_speed == speed
    assert parse("--source=replay:host.jsonl.gz").source == "replay:host.jsonl.gz"


def test_what_flags_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = ["", "9100", "host:", "host:65536", "host:-1", "::1:9100", "::1]:80", "[::1:80", "..:80"]
    addresses.append("a" * 64 + ":1")
    # Paths that no request can match.
    paths = ["", "/", "metrics", "/-/healthy", "//metrics", "/m?x", "/m#x", "/a b", "/m\u00e9", "/m\n"]
    refused = {
        "--web.listen-address": (addresses, ""),
        "--web.listen-adress": ([":1"], "; did you mean --web.listen-address?\n"),
        "--web.telemetry-path": (paths, "must be a path such as /metrics"),
        "--replay.speed": (["0", "-0.5", "1000001", "inf", "nan", "fast"], ""),
        "--source": (["", "pro", "replay:", "replay", "proc:host.jsonl.gz"], ""),
        "--web.listen": ([":9100"], ""),  # abbreviations would break when another flag with this prefix is added
    }
    for flag, (values, why) in refused.items():
        for text in values:
            refusal(SystemExit, parse, f"{flag}={text}")
            said = capsys.readouterr().err
            assert f"argument {flag}: " in said or f"unrecognized arguments: {flag}" in said, text
            assert why in said, text
            assert said.count("\n") == 1, "the usage would hide it"
    refusal(ArgumentTypeError, cli.source(["proc", "xl"]), "replay:host.jsonl.gz")
    others = cli.parser("x-exporter", "An exporter.", 9100, of_this_host=False)
    refusal(SystemExit, others.parse_args, ["--path.procfs=/proc"])


def test_durations() -> None:
    simple = [("7", 7), ("90s", 90), ("0.25s", 0.25), ("10m", 600), ("1.5h", 5400), ("2d", 172_800), ("1w", 604_800)]
    for text, seconds in [*simple, ("1m30s", 90), ("500ms", 0.5), ("1h2m3s4ms", 3723.004)]:
        assert cli.duration(text) == cli.interval_or_never(text) == seconds, text
    none = ["", "s", "0s", "0.0", "-1s", "1 m", "30m1h", "1m1m", "1.5h30m", "0w", "ms", "1e3", "inf", "nan", "\u0663s"]
    for text in none:
        for of in (cli.duration, cli.interval_or_never):
            said = str(refusal(ArgumentTypeError, of, text))
            assert "is not a duration above 0, such as 90s, 1m30s or 500ms" in said
    assert cli.interval_or_never("0") == 0
    refusal(ArgumentTypeError, cli.duration, "0")
    assert str(refusal(ArgumentTypeError, cli.interval_or_never, "abc")).endswith("; 0 is never")
    assert str(refusal(ArgumentTypeError, cli.listen_address, ":210010")) == "port 210010 is above 65535"


@pytest.fixture
def _log_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_log_as_it_was")
def test_a_name_forges_no_line_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """External names are data within a line, never a line or a terminal escape sequence."""
    rude = 'web\x1b[2J\u202e"\\\r\nts=2026-11-22T00:00:00.000+00:00 level=error msg="disk full" \x9b1A'
    fields = {"fields": {"domain": rude, "err": OSError(rude)}}
    log = logging.getLogger("virtscope.test")
    cli.log_to_stderr("warn", "json")
    log.info("left out")
    log.warning("source failed", extra={"fields": {"source": "xl"}})
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["msg"], line["source"]) == ("warn", "source failed", "xl")
    cli.log_to_stderr("info", "logfmt")
    log.error("source failed", extra={"fields": {"source": "xl"}}, exc_info=OSError("no xl"))
    assert ' level=error msg="source failed" source=xl stack="OSError: no xl' in capsys.readouterr().err
    for form in ("logfmt", "json"):
        cli.log_to_stderr("info", form)
        log.warning("guest %s", rude, extra=fields)
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.removesuffix("\n").isprintable()
        assert said.isascii()


def test_an_address_in_use_is_said_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            cli.serve(Exporter("x", []), parse(f"--web.listen-address=127.0.0.1:{port}"))
    assert str(ended.value) == (
        f"x-exporter: can't listen on 127.0.0.1:{port}: Address already in use; choose another --web.listen-address"
    )
