"""The log of every exporter: what others have named is data in a line, and never a line or a terminal's command."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from virtscope.toolkit import cli

RUDE = 'web\x1b[2J\u202e"\\\r\nts=2026-11-22T00:00:00.000+00:00 level=error msg="disk full" \x9b1A'


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    """The log as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_name_forges_no_line_and_moves_no_cursor(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.log_to_stderr("info", form)
    logging.getLogger("virtscope.test").warning(
        "guest %s", RUDE, extra={"fields": {"domain": RUDE, "err": OSError(RUDE)}}
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.removesuffix("\n").isprintable()
    assert said.isascii()
