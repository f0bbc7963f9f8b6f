"""`make version`."""

from pathlib import Path

import pytest

from deploy import StackError
from deploy.packages import deb, version
from tests.support.refusals import assert_refused


def test_code_and_changelog_get_the_new_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, changes = tmp_path / "virtscope/__init__.py", tmp_path / "CHANGELOG.md"
    code.parent.mkdir()
    code.write_text('"""Exporters."""\n\n__version__ = "0.1.0"\n')
    changes.write_text("# Changelog\n\n## [Unreleased]\n\n### Added\n- More.\n")
    chart = tmp_path / "Chart.yaml"
    chart.write_text(version.CHART.read_text().replace(deb.version(), "0.1.0"))
    monkeypatch.setattr(version, "CODE", code)
    monkeypatch.setattr(version, "CHART", chart)
    monkeypatch.setattr(version, "CHANGES", changes)
    monkeypatch.setattr(deb, "EXPORTERS", tmp_path)
    for wrong in ("0.1.0", "0.0.9", "0.2", "v0.2.0", "0.2.0rc1"):
        assert_refused(StackError, rf"^VERSION={wrong} must be like 0\.2\.0, and higher than 0\.1\.0$",
                       version.set_version, wrong, "2027-01-02")  # fmt: skip
    version.set_version("0.10.0", "2027-01-02")
    assert deb.version() == "0.10.0"
    assert [line for line in chart.read_text().splitlines() if "ersion: " in line and "api" not in line] == [
        "version: 0.10.0",
        "appVersion: 0.10.0",
    ]
    assert changes.read_text() == "# Changelog\n\n## [Unreleased]\n\n## [0.10.0] - 2027-01-02\n\n### Added\n- More.\n"
