"""A Prometheus isn't started on data that it can't read."""

from pathlib import Path

import pytest

from deploy import StackError, stored_data
from tests.support.refusals import assert_refused


def test_what_prometheus_3_wrote_needs_2_55_or_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "prometheus"
    monkeypatch.setattr(stored_data, "PROMETHEUS_DATA", data)
    monkeypatch.setattr(stored_data, "WRITER", tmp_path / "prometheus-version")
    stored_data.require_readable("2.42.0")  # no folder, and then an empty one
    data.mkdir()
    stored_data.require_readable("2.42.0")
    for writer, readers in (("2.53.0", "2.42.0 2.53.0 3.13.4"), ("3.13.4", "2.55.0 3.0.0 3.13.4")):
        stored_data.written_by(writer)
        for version in readers.split():
            stored_data.require_readable(version)
    for version in ("2.42.0+ds-5+deb12u1", "2.54.1"):
        words = r"written by Prometheus 3\.13\.4, and 2\.(42|54).* can't read that"
        assert_refused(StackError, words, stored_data.require_readable, version)
