"""What is handed to perf_event_open(2), byte for byte, in either byte order."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from virtscope.perf import kernel
from virtscope.perf.kernel import PID_CGROUP, Attr, Linux


class Little(ctypes.LittleEndianStructure):
    _fields_ = kernel.ATTR_FIELDS


class Big(ctypes.BigEndianStructure):
    _fields_ = kernel.ATTR_FIELDS


# The flags are the 64 bits after five others of which the first is two halves. include/uapi/linux/perf_event.h has
# `disabled` as the first of their bit fields, and `exclude_guest` as the twenty-first.
FLAGS = slice(40, 48)


@pytest.mark.parametrize(
    ("order", "field", "flags"),
    [
        (Little, "disabled", "01 00 00 00 00 00 00 00"),
        (Little, "exclude_guest", "00 00 10 00 00 00 00 00"),
        (Big, "disabled", "80 00 00 00 00 00 00 00"),
        (Big, "exclude_guest", "00 00 08 00 00 00 00 00"),
    ],
)
def test_the_flags_are_where_c_has_its_bit_fields(order: Callable[..., Any], field: str, flags: str) -> None:
    whole = bytes(order(**{field: 1}))
    assert whole[FLAGS] == bytes.fromhex(flags)
    assert not any(whole[: FLAGS.start] + whole[FLAGS.stop :])


@pytest.mark.parametrize(("order", "sign"), [(Little, "<"), (Big, ">")])
def test_the_fields_are_where_c_has_them(order: Callable[..., Any], sign: str) -> None:
    attr = order(type=1, size=2, config=3, sample_period=4, sample_type=5, read_format=6, wakeup_events=7, bp_type=8)
    attr.config1, attr.config2 = 9, 10
    assert bytes(attr) == struct.pack(f"{sign}IIQQQQQIIQQ", 1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10)


class Libc:
    """Takes down what the system call is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, list[int]]] = []

    def syscall(self, number: Any, attr: Any, *arguments: Any) -> int:
        assert number.value > 0
        self.calls.append((bytes(attr._obj), [argument.value for argument in arguments]))
        return 42


@pytest.mark.parametrize(
    ("leader", "exclude_guest", "flags"),
    [(-1, False, 1 << 0), (7, False, 0), (-1, True, 1 << 0 | 1 << 20), (7, True, 1 << 20)],
)
@pytest.mark.skipif(sys.byteorder == "big", reason="the numbers here are a little-endian machine's")
def test_a_counter_is_opened_with_these(
    monkeypatch: pytest.MonkeyPatch, leader: int, exclude_guest: bool, flags: int
) -> None:
    """A leader waits until its group is whole. Both times and the whole group are read."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    opener, libc = Linux(), Libc()
    monkeypatch.setattr(opener, "_libc", libc)
    attr = Attr(4, 0xFFFF_FFFF_0000_0001, 2**64 - 1, 5, exclude_guest)
    assert opener.open(attr, 3, 1, leader, PID_CGROUP) == 42
    encoded = struct.pack(
        "<IIQQQQQIIQQ", 4, 72, 0xFFFF_FFFF_0000_0001, 0, 0, 0x1 | 0x2 | 0x8, flags, 0, 0, 2**64 - 1, 5
    )
    assert libc.calls == [(encoded, [3, 1, leader, PID_CGROUP | 0x8])]
