"""A libbpf over a kernel that accepts the program, or refuses it or its maps like a real one."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

MAPS = {b"waits.rodata": 1, b"pairs": 2, b"cpus": 3, b"rests": 4}
OBJECT, PROGRAM, LINK = 100, 101, 102
WORDS = 20  # of struct cpu


class FakeLibbpf:
    """The functions of the library that are called, with ctypes's types: pointers are integers, and None is NULL."""

    def __init__(self, *, version: int = 1, refuses: int = 0, said: str = "", without: str = "") -> None:
        """`refuses` is the errno with which the kernel refuses the program, `without` a missing function."""
        self.version, self.refuses, self.said, self.without = version, refuses, said, without
        self.closed: list[int] = []
        self.unreadable = 0  # the errno with which maps are refused
        self.functions: dict[str, Any] = {}

    def open(self, name: str, *, use_errno: bool) -> FakeLibbpf:
        """Replaces ctypes.CDLL."""
        assert use_errno
        if name != f"libbpf.so.{self.version}":
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return self

    def __getattr__(self, name: str) -> Any:
        if name == self.without:
            raise AttributeError(f"undefined symbol: {name}")
        if name not in self.functions:
            method = getattr(type(self), f"_{name.replace('__', '_')}")

            def function(*arguments: Any) -> Any:  # accepts restype and argtypes
                return method(self, *arguments)

            self.functions[name] = function
        return self.functions[name]

    def _failed(self, number: int) -> int:
        ctypes.set_errno(number)
        return -1

    def _libbpf_num_possible_cpus(self) -> int:
        return 2

    def _bpf_object_open_file(self, path: bytes, _options: None) -> int | None:
        if os.path.exists(path):  # noqa: PTH110
            return OBJECT
        self._failed(errno.ENOENT)
        return None if self.version else 2**64 - errno.ENOENT

    def _bpf_object_find_map_by_name(self, _object: int, name: bytes) -> int | None:
        return MAPS[name]

    def _bpf_map_set_initial_value(self, _map: int, _data: Any, _size: int) -> int:
        return 0

    def _bpf_object_load(self, _object: int) -> int:
        os.write(2, self.said.encode())
        return -self.refuses

    def _bpf_object_find_program_by_name(self, _object: int, name: bytes) -> int | None:
        assert name == b"on_switch"
        return PROGRAM

    def _bpf_program_attach(self, _program: int) -> int:
        return LINK

    def _bpf_link_destroy(self, link: int) -> None:
        self.closed.append(link)

    def _bpf_object_close(self, closed: int) -> None:
        self.closed.append(closed)

    def _bpf_map_value_size(self, _map: int) -> int:
        return 8 * WORDS

    def _bpf_map_fd(self, number: int) -> int:
        return number

    def _bpf_map_lookup_elem(self, *_: Any) -> int:
        return self._failed(self.unreadable)

    _bpf_map_lookup_batch = _bpf_map_delete_elem = _bpf_map_lookup_elem
