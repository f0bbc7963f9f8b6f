"""What is handed to perf_event_open(2), byte for byte, in either byte order."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from virtscope.perf import kernel
from virtscope.perf.kernel import PID_CGROUP, Attr, Linux
from virtscope.toolkit.collect import SourceUnavailable


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

    def __init__(self, descriptor: int = 42) -> None:
        self.calls: list[tuple[bytes, list[int]]] = []
        self.descriptor = descriptor

    def syscall(self, number: Any, attr: Any, *arguments: Any) -> int:
        assert number.value > 0
        self.calls.append((bytes(attr._obj), [argument.value for argument in arguments]))
        return self.descriptor


@pytest.mark.parametrize(
    ("leader", "exclude_guest", "flags"),
    [(-1, False, 1 << 0), (0, False, 0), (7, False, 0), (-1, True, 1 << 0 | 1 << 20), (7, True, 1 << 20)],
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


@pytest.mark.parametrize("descriptor", [0, 42])
def test_any_descriptor_is_given_and_a_refusal_raised(monkeypatch: pytest.MonkeyPatch, descriptor: int) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    opener = Linux()
    monkeypatch.setattr(opener, "_libc", Libc(descriptor))
    assert opener.open(Attr(0, 0), -1, 0, -1, 0) == descriptor
    monkeypatch.setattr(opener, "_libc", Libc(-1))
    ctypes.set_errno(errno.EMFILE)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        opener.open(Attr(0, 0), -1, 0, -1, 0)


@pytest.mark.parametrize(
    ("machine", "pointer", "number"),
    [("x86_64", 8, 298), ("x86_64", 4, 336), ("aarch64", 8, 241), ("ppc64le", 8, 319), ("armv7l", 4, 364)],
)
def test_the_call_has_the_number_of_the_machine_and_of_its_pointers(
    monkeypatch: pytest.MonkeyPatch, machine: str, pointer: int, number: int
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(ctypes, "sizeof", lambda _type: pointer)
    assert Linux()._number == number


def test_an_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(SourceUnavailable, match=r"isn't known for vax at (32|64) bits"):
        Linux()


@pytest.mark.parametrize(("machine", "request_number"), [("x86_64", 0x2400), ("ppc64le", 0x2000_2400)])
def test_a_group_is_started_as_the_machine_numbers_requests(
    monkeypatch: pytest.MonkeyPatch, machine: str, request_number: int
) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(fcntl, "ioctl", lambda *arguments: asked.append(arguments))
    Linux().start(42)
    assert asked == [(42, request_number, 0)]


def test_an_event_has_no_further_configuration_by_default() -> None:
    assert Attr(4, 1) == Attr(4, 1, 0, 0, exclude_guest=False)
