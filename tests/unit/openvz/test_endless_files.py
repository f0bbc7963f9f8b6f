"""A file that never ends is a failure, live and in a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtscope.openvz import recorded
from virtscope.openvz.procfs import Unread, read_text
from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceError


def test_an_endless_file_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)
    (tmp_path / "vz").mkdir()
    (tmp_path / "vz/vestat").symlink_to("/dev/zero")
    with pytest.raises(SourceError, match="vz/vestat can't be read: File too large"):
        read_text(tmp_path, "vz/vestat")
    assert recorded.read(tmp_path) == {"vz/vestat": Unread("EFBIG")}
