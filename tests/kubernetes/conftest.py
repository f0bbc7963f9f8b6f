"""Images for nodes, built once for all tests here."""

from pathlib import Path

import pytest

from tests.compose.engine import running_engine
from tests.kubernetes import node


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    with running_engine() as engine:
        node.save_images(engine, folder, tmp_path_factory.mktemp("scratch"))
    return folder
