"""The host's own files, live: files that vanish between two reads, and descriptors."""

import os
import threading
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from virtscope.kvm.host_files import UNREAD_LOOKS, Blocked, HostFiles


def files(folder: Path) -> HostFiles:
    return HostFiles({"proc": str(folder)})


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_file_that_stays_open_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    host = files(tmp_path)
    for text in (b"one\n", b"two\n", b"three\n"):
        file.write_bytes(text)
        assert host.line_again("proc/stat") == host.line("proc/stat") == host.content("proc/stat") == text
        host.looked()


def test_no_descriptor_is_left_of_what_is_not_read_again(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"x")
    host = files(tmp_path)
    host.looked()
    before = descriptors()
    for number in range(10):
        host.line_again(f"proc/{number}")
    host.looked()
    assert descriptors() == before + 10
    for _ in range(2 * UNREAD_LOOKS):
        host.line_again("proc/1")
        host.looked()
    assert descriptors() == before + 1
    for _ in range(2 * UNREAD_LOOKS):
        host.looked()
    assert descriptors() == before


def test_a_file_that_blocks_costs_no_other(tmp_path: Path) -> None:
    """A FIFO instead of a command line blocks whoever opens it."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    os.mkfifo(tmp_path / "1/cmdline")
    (tmp_path / "2/cmdline").write_bytes(b"tar" * 100_000)
    host = files(tmp_path)
    for _ in range(2):
        with pytest.raises(Blocked):
            host.beginning("proc/1/cmdline")
        host.looked()
    assert host.beginning("proc/2/cmdline") == (b"tar" * 100_000)[: 128 << 10]
    assert host.beginning("proc/3/cmdline") is None
    (tmp_path / "1/cmdline").open("wb").close()  # the blocked reader continues
    (tmp_path / "1/cmdline").unlink()
    (tmp_path / "1/cmdline").write_bytes(b"web")

    def web() -> bytes | None:
        host.looked()
        return host.beginning("proc/1/cmdline")

    assert wait_for(web, not_yet=(Blocked,)) == b"web"


def test_no_more_than_some_threads_wait_for_files_that_block(tmp_path: Path) -> None:
    host = files(tmp_path)
    before = threading.active_count()
    for number in range(40):
        os.mkfifo(tmp_path / str(number))
        with pytest.raises(Blocked):
            host.beginning(f"proc/{number}")
    assert threading.active_count() - before == 32
    for number in range(32):
        (tmp_path / str(number)).open("wb").close()


def test_a_network_namespace_is_known_without_rights() -> None:
    host = HostFiles({"proc": "/proc"})
    assert host.namespace("proc/self/net/dev") == host.namespace(f"proc/{os.getpid()}/net/dev") != 0
    assert host.namespace("proc/self/net/absent") == 0


def test_of_what_a_process_names_only_regular_files_are_opened(tmp_path: Path) -> None:
    """Opening a device may have effects, such as starting a watchdog; opening a FIFO would wake its writer."""
    (tmp_path / "1/root").mkdir(parents=True)
    (tmp_path / "1/root/qemu.conf").write_bytes(b"[memory]")
    os.mkfifo(tmp_path / "1/root/fifo")
    (tmp_path / "1/root/device").symlink_to("/dev/zero")
    host = files(tmp_path)
    assert host.beginning("proc/1/root/qemu.conf") == b"[memory]"
    assert [host.beginning(f"proc/1/root/{name}") for name in ("fifo", "device", "absent")] == [None, None, None]
