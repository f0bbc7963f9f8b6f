"""A file's values, where its keys don't decide what they must be."""

from __future__ import annotations

import pytest

from alerts.generator.document import FileError, parse


def test_a_scalar_comes_as_it_is_written() -> None:
    value = parse("0x10", "shop.yml")
    assert value is not None
    assert value.scalar("a duration") == "0x10"


def test_what_is_no_scalar_is_refused() -> None:
    value = parse("[1]", "shop.yml")
    assert value is not None
    with pytest.raises(FileError, match=r"shop\.yml:1: must be a duration"):
        value.scalar("a duration")
