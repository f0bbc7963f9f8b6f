"""Lines at the end of a test run with measurements, also of failed tests. A conftest imports both names."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

Report: TypeAlias = Callable[[str], None]

_LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    return pytestconfig.stash.setdefault(_LINES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash.get(_LINES, []):
        terminalreporter.section("measured")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
        lines.clear()  # conftests of other folders have this hook too
