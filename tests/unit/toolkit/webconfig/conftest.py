"""Fixtures of the web configuration's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.toolkit.webconfig.pki import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "etc"
    folder.mkdir()
    return Pki(folder)
