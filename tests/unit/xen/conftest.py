"""A made-up Xen host in the environment of a test."""

from pathlib import Path

import pytest

from tests.unit.xen.fake_host import FakeXen


@pytest.fixture
def xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXen:
    fake = FakeXen(tmp_path)
    monkeypatch.setenv("FAKE_XENSTAT", str(fake.description))
    return fake
