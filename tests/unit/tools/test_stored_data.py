"""A Prometheus isn't started on data that it can't read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import StackError, stored_data


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "prometheus"
    monkeypatch.setattr(stored_data, "PROMETHEUS_DATA", folder)
    monkeypatch.setattr(stored_data, "WRITER", tmp_path / "prometheus-version")
    return folder


def test_what_prometheus_3_wrote_needs_2_55_or_newer(data: Path) -> None:
    data.mkdir()
    stored_data.written_by("3.13.4")
    for version in ("2.42.0+ds-5+deb12u1", "2.54.1"):
        with pytest.raises(StackError, match=r"written by Prometheus 3\.13\.4, and 2\.(42|54).* can't read that"):
            stored_data.require_readable(version)
    for version in ("2.55.0", "3.0.0", "3.13.4"):
        stored_data.require_readable(version)


def test_any_prometheus_reads_what_2_wrote_and_an_empty_folder(data: Path) -> None:
    stored_data.require_readable("2.42.0")
    data.mkdir()
    stored_data.require_readable("2.42.0")
    stored_data.written_by("2.53.0")
    for version in ("2.42.0", "2.53.0", "3.13.4"):
        stored_data.require_readable(version)
