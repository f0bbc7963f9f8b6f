"""Compare pages and messages with golden files, and check pages with Prometheus's linter."""

import difflib
import os
import subprocess
from pathlib import Path

from deploy import programs


def assert_golden(file: Path, text: bytes | str) -> None:
    """Fail unless the file has exactly this text, so that any change of a name, label, help text or unit is noticed.

    UPDATE_GOLDEN=1 rewrites the file.
    """
    found = text if isinstance(text, str) else text.decode()
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(found.encode())
    golden = file.read_bytes().decode()
    change = "".join(difflib.unified_diff(golden.splitlines(True), found.splitlines(True), file.name, "now"))
    assert found == golden, change


def assert_lints(page: bytes | str) -> None:
    """Fail if `promtool check metrics` complains about anything on the page."""
    content = page.encode() if isinstance(page, str) else page
    lint = subprocess.run(
        [programs.path("promtool"), "check", "metrics"], input=content, capture_output=True, check=False, timeout=60
    )
    complaints = (lint.stdout + lint.stderr).decode()
    assert (lint.returncode, complaints) == (0, ""), complaints
