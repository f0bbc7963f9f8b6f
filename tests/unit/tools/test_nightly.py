"""Which long tests `make test` runs: those of a part whose files have changed since it passed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.nightly import PARTS, digest
from tools.programs import CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in ("rules/xen.yml", "rules/derived.yml", "docs/index.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as it was")
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    return tmp_path


def test_a_part_has_changed_with_any_of_its_files_and_with_no_other(checkout: Path) -> None:
    passed = digest(checkout, ("rules",))
    (checkout / "docs/index.md").write_text("changed")
    (checkout / "rules/scratch").write_text("not tracked")
    assert digest(checkout, ("rules",)) == passed
    (checkout / "rules/xen.yml").write_text("changed")
    assert digest(checkout, ("rules",)) != passed
    (checkout / "rules/xen.yml").write_text("as it was")
    assert digest(checkout, ("rules",)) == passed
    (checkout / "rules/xen.yml").rename(checkout / "rules/xen2.yml")
    assert digest(checkout, ("rules",)) != passed


@pytest.mark.parametrize("part", PARTS)
def test_every_path_of_a_part_has_files(part: str) -> None:
    for path in (part, *PARTS[part]):
        assert list(CHECKOUT.glob(path)), path


def test_every_long_test_is_of_a_part() -> None:
    marked = subprocess.run(
        ["git", "-C", CHECKOUT, "grep", "--files-with-matches", "pytest.mark.nightly", "--", "tests"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert [name for name in marked if not name.startswith((*PARTS, "tests/unit/tools"))] == []
