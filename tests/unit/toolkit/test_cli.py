"""The flags' values that need more than their type: what is taken, and what is refused before anything starts."""

from __future__ import annotations

import pytest

from virtscope.toolkit import cli


def parse(*arguments: str) -> object:
    return cli.parser("x-exporter", "An exporter.", 9100).parse_args(arguments)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        ("[::1]:0", ("::1", 0)),
        (":9100", ("", 9100)),
        ("dom0.example.:80", ("dom0.example.", 80)),
    ],
)
def test_listen_addresses(text: str, address: tuple[str, int]) -> None:
    assert cli.listen_address(text) == address


@pytest.mark.parametrize("text", ["", "9100", "host:", "host:65536", "host:-1", "::1:9100", "..:80", f"{'a' * 64}:80"])
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
