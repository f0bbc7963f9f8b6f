"""The machine's CPUs: lists of them that are endless or longer than any machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtscope.perf.machine import Machine, parse_cpus
from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceUnavailable


def test_an_endless_list_of_cpus_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)
    for file in ("sys/devices/system/cpu/online", "proc/sys/kernel/perf_event_paranoid"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).symlink_to("/dev/zero")
    machine = Machine(tmp_path / "proc", tmp_path / "sys")
    assert machine.paranoid() is None
    with pytest.raises(SourceUnavailable, match="cpu/online: File too large"):
        machine.online()


def test_a_list_of_more_cpus_than_any_machine_has_is_none() -> None:
    assert parse_cpus("65535") == (65535,)
    for text in ("65536", "0-65536", "0-99999999999"):
        with pytest.raises(ValueError, match=text):
            parse_cpus(text)
