"""A libbpf with a kernel below it that takes the program, or refuses it as a real one does."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

MAPS = {b"waits.rodata": 1, b"pairs": 2, b"cpus": 3, b"rests": 4}
OBJECT, PROGRAM, LINK = 100, 101, 102
WORDS = 20  # of struct cpu
BATCH = 3  # pairs that it gives at once


class FakeLibbpf:
    """What is called of the library; all of it is as ctypes gives it: pointers are integers, and None is NULL."""

    def __init__(self, *, version: int = 1, refuses: int = 0, said: str = "", without: str = "") -> None:
        """`refuses` is the errno with which the kernel refuses the program, `without` a function that isn't there."""
        self.version, self.refuses, self.said, self.without = version, refuses, said, without
        self.constants = b""
        self.pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}  # ns and waits on each of two CPUs
        self.rests: dict[int, list[tuple[int, int]]] = {}  # what found no room among the pairs, by who waited
        self.cpus = [[0] * WORDS, [0] * WORDS]
        self.closed: list[int] = []
        self.unreadable = 0  # the errno with which maps are refused
        self.functions: dict[str, Any] = {}

    def open(self, name: str, *, use_errno: bool) -> FakeLibbpf:
        """What ctypes.CDLL does."""
        assert use_errno
        if name != f"libbpf.so.{self.version}":
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return self

    def __getattr__(self, name: str) -> Any:
        if name == self.without:
            raise AttributeError(f"undefined symbol: {name}")
        if name not in self.functions:
            method = getattr(type(self), f"_{name.replace('__', '_')}")

            def function(*arguments: Any) -> Any:  # which takes restype and argtypes
                return method(self, *arguments)

            self.functions[name] = function
        return self.functions[name]

    def _failed(self, number: int) -> int:
        ctypes.set_errno(number)
        return -1

    def _libbpf_num_possible_cpus(self) -> int:
        return len(self.cpus)

    def _bpf_object_open_file(self, path: bytes, _options: None) -> int | None:
        if os.path.exists(path):  # noqa: PTH110
            return OBJECT
        self._failed(errno.ENOENT)
        return None if self.version else 2**64 - errno.ENOENT

    def _bpf_object_find_map_by_name(self, _object: int, name: bytes) -> int | None:
        return MAPS[name]

    def _bpf_map_set_initial_value(self, _map: int, data: Any, size: int) -> int:
        self.constants = ctypes.string_at(ctypes.addressof(data._obj), size)
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

    def _bpf_map_lookup_elem(self, _fd: int, _key: Any, values: Any) -> int:
        for index, word in enumerate(word for words in self.cpus for word in words):
            values[index] = word
        return self._failed(self.unreadable) if self.unreadable else 0

    def _bpf_map_lookup_batch(self, fd: int, begin: Any, after: Any, keys: Any, values: Any, *rest: Any) -> int:
        at = begin._obj.value if begin else 0
        entries: Any = self.pairs if fd == MAPS[b"pairs"] else self.rests
        given = list(entries.items())[at : at + BATCH]
        for index, (key, of_cpus) in enumerate(given):
            if fd == MAPS[b"pairs"]:
                keys[2 * index], keys[2 * index + 1] = key
            else:
                keys[index] = key
            values[4 * index : 4 * index + 4] = [value for both in of_cpus for value in both]
        rest[0]._obj.value = len(given)  # count
        after._obj.value = at + len(given)
        ended = self.unreadable or (errno.ENOENT if at + len(given) == len(entries) else 0)
        return self._failed(ended) if ended else 0

    def _bpf_map_delete_elem(self, fd: int, key: Any) -> int:
        entries: Any = self.pairs if fd == MAPS[b"pairs"] else self.rests
        wanted: Any = tuple(key._obj) if fd == MAPS[b"pairs"] else key._obj.value
        if self.unreadable or wanted not in entries:
            return self._failed(self.unreadable or errno.ENOENT)
        del entries[wanted]
        return 0
