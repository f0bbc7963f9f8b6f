"""A Docker engine shared by all tests that need one, and images under the names that would be pulled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose import compose_file, images
from tests.compose.engine import Engine, running_engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine, with an image for each one that compose.yaml pulls."""
    with running_engine() as engine:
        images.make_stand_ins(engine, compose_file.services({}).values(), tmp_path_factory.mktemp("images"))
        yield engine


@pytest.fixture(scope="session")
def building_engine(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine, with the base image of our Dockerfiles as well."""
    images.make_debian(engine, tmp_path_factory.mktemp("debian"))
    return engine


@pytest.fixture(scope="session")
def override(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compose file that the tests add: see images.override."""
    file = tmp_path_factory.mktemp("compose") / "override.yaml"
    file.write_text(images.override(compose_file.services({})))
    return file
