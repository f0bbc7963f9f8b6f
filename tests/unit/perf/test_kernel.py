"""Arguments of perf_event_open(2), byte for byte, in either byte order."""

import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
from unittest.mock import Mock

import pytest

from virtscope.perf.kernel import PID_CGROUP, Attr, Kernel
from virtscope.toolkit.collect import SourceUnavailable


@pytest.mark.skipif(sys.byteorder == "big", reason="the numbers here are a little-endian machine's")
def test_a_counter_is_opened_with_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is enabled when its group is complete. Both times and the whole group are read."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    opener = Kernel()
    opener._libc = libc = Mock()
    libc.syscall.return_value = 42
    for leader, exclude_guest, flags in ((-1, False, 1), (0, False, 0), (-1, True, 1 | 1 << 20), (7, True, 1 << 20)):
        attr = Attr(4, 0xFFFF_FFFF_0000_0001, 2**64 - 1, 5, exclude_guest)
        assert opener.open(attr, 3, 1, leader, PID_CGROUP) == 42
        read = 0x1 | 0x2 | 0x8
        encoded = struct.pack("<IIQQQQQIIQQ", 4, 72, 0xFFFF_FFFF_0000_0001, 0, 0, read, flags, 0, 0, 2**64 - 1, 5)
        _, pointer, *arguments = libc.syscall.call_args.args
        assert bytes(pointer._obj) == encoded, (leader, exclude_guest)
        assert [argument.value for argument in arguments] == [3, 1, leader, PID_CGROUP | 0x8]
    libc.syscall.return_value = 0
    assert opener.open(Attr(0, 0), -1, 0, -1, 0) == 0
    libc.syscall.return_value = -1
    ctypes.set_errno(errno.EMFILE)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        opener.open(Attr(0, 0), -1, 0, -1, 0)


def test_the_call_has_the_number_of_the_machine_and_of_its_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {("x86_64", 8): 298, ("x86_64", 4): 336, ("aarch64", 8): 241, ("ppc64le", 8): 319, ("armv7l", 4): 364}
    for (machine, pointer), number in numbers.items():
        with monkeypatch.context() as patch:
            patch.setattr(platform, "machine", lambda machine=machine: machine)
            patch.setattr(ctypes, "sizeof", lambda _type, pointer=pointer: pointer)
            assert Kernel()._number == number, (machine, pointer)
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(SourceUnavailable, match=r"isn't known for vax at (32|64) bits"):
        Kernel()


def test_a_group_is_started_as_the_machine_numbers_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(fcntl, "ioctl", lambda *arguments: asked.append(arguments))
    for machine in ("x86_64", "ppc64le"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        Kernel().start(42)
    assert asked == [(42, 0x2400, 0), (42, 0x2000_2400, 0)]
