"""Of changes to code and rules, the tests of each file notice all but those that make no difference (make mutants).

A file whose mutants were all killed isn't tried again until it changes, or its tests, or the changes that are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.mutants.judges import BAR, judges
from tools.mutants.trial import Trials
from tools.nightly import digest
from tools.programs import CHECKOUT, cache

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    with Trials() as trials:
        yield trials


def passed(file: str) -> Path:
    """Where it is kept how many mutants of the file, as it and its tests are now, have been killed, of how many."""
    tests = judges()[file]
    beside = {str(Path(test).parent) for test in tests}  # what the tests import
    return cache("passed") / f"mutants-{file.replace('/', '-')}-{digest(CHECKOUT, (file, *beside, 'tools/mutants'))}"


@pytest.mark.parametrize(("file", "tests"), judges().items())
def test_no_change_goes_unnoticed(file: str, tests: list[str], trials: Trials) -> None:
    kept = passed(file)
    if kept.exists():
        return
    verdict = trials.of(file, tests)
    assert not verdict.survivors, str(verdict)
    kept.parent.mkdir(parents=True, exist_ok=True)
    for older in kept.parent.glob(f"{kept.name.rpartition('-')[0]}-*"):
        older.unlink()
    kept.write_text(f"{verdict.killed} {verdict.mutants}\n")


def test_nine_of_ten_are_killed() -> None:
    """Few are said to make no difference. Files that have just failed say so themselves."""
    counts = [kept.read_text().split() for kept in map(passed, judges()) if kept.exists()]
    assert counts
    assert sum(int(killed) for killed, _ in counts) >= BAR * sum(int(mutants) for _, mutants in counts)
