"""Tests that ran twice (`--reruns`, in `make test-system` only): both logs, and a list of those that passed."""

from pathlib import Path

import pytest


class Retries:
    """A pytest plugin. It writes the output of a failed first try and of the second one into `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._first: dict[str, str] = {}
        self._passed: list[str] = []

    def pytest_sessionstart(self) -> None:
        self._file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # pytest-rerunfailures's word for a failed try
            self._first.setdefault(test, _log(report))
        elif getattr(report, "rerun", 0) and test in self._first and (report.failed or report.when == "teardown"):
            if not report.failed:
                self._passed.append(test)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as log:
                log.write(f"===== {test}: first try failed\n{self._first.pop(test)}\n")
                log.write(f"===== {test}: second try {report.outcome}\n{_log(report)}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._passed:
            terminalreporter.section(f"passed on retry (both logs: {self._file})")
            terminalreporter.write("".join(f"{test}\n" for test in self._passed))


def _log(report: pytest.TestReport) -> str:
    """The failure, if any, and the captured output and log."""
    return "\n".join(filter(None, [report.longreprtext, *(f"-- {title}\n{text}" for title, text in report.sections)]))
