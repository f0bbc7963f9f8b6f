"""What an exporter says of its own process."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from virtscope.toolkit import process
from virtscope.toolkit.process import Process


def test_it_says_what_the_client_library_says() -> None:
    theirs = {family.name: family for family in ProcessCollector(registry=CollectorRegistry()).collect()}
    ours = {family.name: family for family in Process().families()}
    assert ours.keys() == theirs.keys()
    for name, family in ours.items():
        assert (family.type, family.documentation) == (theirs[name].type, theirs[name].documentation)
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert ours[name].samples == theirs[name].samples
    for name in ("process_virtual_memory_bytes", "process_resident_memory_bytes", "process_cpu_seconds"):
        assert ours[name].samples[0].value == pytest.approx(theirs[name].samples[0].value, rel=0.2, abs=0.1)


def no_list(path: object = None) -> list[str]:
    raise AssertionError(f"{path} is listed")


@pytest.mark.skipif(Path("/proc/self/fd").stat().st_size == 0, reason="needs a Linux of 6.2 or newer")
def test_descriptors_are_counted_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = len([*Path("/proc/self/fd").iterdir()]) - 1  # without the list's own
    monkeypatch.setattr(os, "listdir", no_list)
    assert process.open_descriptors() == listed
    with Path("/dev/null").open() as _:
        assert process.open_descriptors() == listed + 1


def test_before_linux_6_2_a_few_are_listed_and_many_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = process.open_descriptors()
    monkeypatch.setattr(Path, "stat", lambda _: SimpleNamespace(st_size=0))
    monkeypatch.setattr(process, "MOST_LISTED", 1 << 20)
    assert process.open_descriptors() == counted
    monkeypatch.setattr(process, "MOST_LISTED", 255)  # less room than any process has
    monkeypatch.setattr(os, "listdir", no_list)
    with ExitStack() as many:
        for _ in range(256):
            many.enter_context(Path("/dev/null").open())
        assert process.open_descriptors() is None
        assert "process_open_fds" not in {family.name for family in Process().families()}
