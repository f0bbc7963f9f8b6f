"""Files of procfs and sysfs: read whole, and bounded whatever is in their place."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from virtscope.openvz import recorded
from virtscope.openvz.procfs import Unread, read_text
from virtscope.perf.machine import Machine, parse_cpus
from virtscope.toolkit import files
from virtscope.toolkit.sources import SourceError, SourceUnavailable


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 200_000)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_file_comes_whole(tmp_path: Path, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)
    assert files.read_bytes(tmp_path / "file") == content


def test_one_byte_more_than_the_bound_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(200_001))
    with pytest.raises(OSError, match="File too large") as raised:
        files.read_bytes(tmp_path / "file")
    assert raised.value.errno == errno.EFBIG


def test_the_kernels_own_files_come_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no size, and come in pieces."""
    monkeypatch.setattr(files, "LARGEST", 64 << 20)
    assert Path("/proc/self/smaps").stat().st_size == 0
    assert files.read_text(Path("/proc/self/smaps")).count("VmFlags:") > 10


def endless(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/zero")


def test_an_endless_file_of_openvz_is_a_failure(tmp_path: Path) -> None:
    endless(tmp_path / "vz/vestat")
    with pytest.raises(SourceError, match="vz/vestat can't be read: File too large"):
        read_text(tmp_path, "vz/vestat")
    assert recorded.read(tmp_path) == {"vz/vestat": Unread("EFBIG")}


def test_an_endless_list_of_cpus_is_a_failure(tmp_path: Path) -> None:
    endless(tmp_path / "sys/devices/system/cpu/online")
    endless(tmp_path / "proc/sys/kernel/perf_event_paranoid")
    machine = Machine(tmp_path / "proc", tmp_path / "sys")
    assert machine.paranoid() is None
    with pytest.raises(SourceUnavailable, match="cpu/online: File too large"):
        machine.online()


def test_a_list_of_more_cpus_than_any_machine_has_is_none() -> None:
    assert parse_cpus("65535") == (65535,)
    for text in ("65536", "0-65536", "0-99999999999"):
        with pytest.raises(ValueError, match=text):
            parse_cpus(text)
