"""`make rules`: generated files are what the sources say."""

from __future__ import annotations

import os

import pytest

from alerts import build
from tools import go_programs


@pytest.fixture(scope="module", autouse=True)
def sloth() -> None:
    """Sloth, which is built at first, in about three minutes on two cores."""
    try:
        go_programs.path("sloth")
    except go_programs.GoProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.mark.timeout(1800)
def test_committed_rules_are_fresh() -> None:
    assert build.stale(build.CHECKOUT) == [], "run `make rules` and commit what it writes"
