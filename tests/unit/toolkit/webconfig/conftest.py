from pathlib import Path

import pytest

from tests.unit.toolkit.webconfig.pki import Pki


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "etc")
