"""Hooks for all tests: the layer of each test, and the record of reruns."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import layers
from tests.support.retries import Retries


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--retries-log", type=Path, help="file for the logs of tests that were tried twice")


def pytest_configure(config: pytest.Config) -> None:
    file: Path | None = config.getoption("--retries-log")
    if file is not None and not hasattr(config, "workerinput"):  # with xdist, reports come to the main process
        config.pluginmanager.register(Retries(file))


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        layers.mark_by_parameters(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    layers.enter(item)
    return (yield)
