"""Of changes to code and rules, the tests of each file notice all but those that make no difference (make mutants)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.mutants.judges import BAR, judges
from tools.mutants.trial import Trials, Verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    with Trials() as trials:
        yield trials


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    """Of the files that have been tried."""
    return []


@pytest.mark.parametrize(("file", "tests"), judges().items())
def test_no_change_goes_unnoticed(file: str, tests: list[str], trials: Trials, verdicts: list[Verdict]) -> None:
    verdict = trials.of(file, tests)
    verdicts.append(verdict)
    assert not verdict.survivors, str(verdict)


def test_nine_of_ten_are_killed(verdicts: list[Verdict]) -> None:
    """Few are said to make no difference."""
    assert sum(verdict.killed for verdict in verdicts) >= BAR * sum(verdict.mutants for verdict in verdicts) > 0
