"""BPF objects: loaded by libbpf through ctypes, attached; their maps read.

The watched host needs no compiler, headers or tracefs: libbpf relocates the committed objects by the running kernel's
types (BTF). Notes on libbpf:
- Failed calls return the negative errno as a pointer in libbpf.so.0 (Debian 11, Ubuntu 22.04), and NULL with errno in
  libbpf.so.1. All functions used here are in both.
- It prints to standard error. A callback needs writable and executable memory, which the systemd unit forbids. So
  standard error is redirected to a file while loading.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from itertools import product
from pathlib import Path
from typing import IO, Any, Callable

from virtscope.sched.reasons import Machine, no_library, why
from virtscope.toolkit.collect import SourceError

_BATCH = 1024  # entries per read
_PER_CPU = (5, 6, 10)  # types of maps, include/uapi/linux/bpf.h


class Object:
    """An object file in the kernel, until close()."""

    def __init__(
        self,
        path: Path,
        constants: Sequence[Sequence[int]],
        programs: Sequence[bytes],
        machine: Machine,
        open_library: Callable[..., Any] = ctypes.CDLL,
        *,
        without: Sequence[Sequence[bytes]] = ((),),
    ) -> None:
        """Load it with values of its constants, the first ones that the kernel accepts, and attach these programs.

        Leaves out the first ones of `without` with which the kernel accepts the others. Raises SourceUnavailable, with
        the remedy, if this machine can't run them; SourceError if loading fails otherwise.
        """
        self.library, lib = _library(open_library)
        self._lib = lib
        self._object = 0
        self._links: list[int] = []
        for left_out, values in product(without, constants):
            with _kept_away() as said:
                try:
                    self._load(path, values, [name for name in programs if name not in left_out], left_out)
                    break
                except OSError as error:
                    self.close()
                    failure = why(error.errno or 0, said(), self.library, machine)
        else:
            raise failure
        self.without = left_out

    def _load(self, path: Path, constants: Sequence[int], programs: Sequence[bytes], without: Sequence[bytes]) -> None:
        lib = self._lib
        self._object = _have(lib.bpf_object__open_file(os.fsencode(path), None))
        values = (c_uint32 * len(constants))(*constants)
        rodata = self._map(path.name.partition(".")[0].encode() + b".rodata")
        _succeed(lib.bpf_map__set_initial_value(rodata, values, ctypes.sizeof(values)))
        for name in without:
            _succeed(lib.bpf_program__set_autoload(self._program(name), False))
        _succeed(lib.bpf_object__load(self._object))
        for name in programs:
            self._links.append(_have(lib.bpf_program__attach(self._program(name))))

    def _program(self, name: bytes) -> int:
        return _have(self._lib.bpf_object__find_program_by_name(self._object, name))

    def _map(self, name: bytes) -> int:
        return _have(self._lib.bpf_object__find_map_by_name(self._object, name))

    def close(self) -> None:
        """Detach and unload it. (So does the end of the process.)"""
        for link in self._links:
            self._lib.bpf_link__destroy(link)
        if self._object:
            self._lib.bpf_object__close(self._object)
        self._links, self._object = [], 0

    def table(self, name: bytes) -> Table:
        """Return a map of the object."""
        lib, found = self._lib, self._map(name)
        copies = lib.libbpf_num_possible_cpus() if lib.bpf_map__type(found) in _PER_CPU else 1
        return Table(lib, lib.bpf_map__fd(found), lib.bpf_map__key_size(found), lib.bpf_map__value_size(found), copies)


class Table:
    """A map, whose values consist of 64-bit counters; those of a map per CPU are summed over CPUs.

    All methods raise SourceError if the kernel refuses.
    """

    def __init__(self, lib: Any, fd: int, key_bytes: int, value_bytes: int, copies: int) -> None:
        self._lib, self._fd = lib, fd
        self._key_words, self._words, self._copies = key_bytes // 8, value_bytes // 8, copies
        self._keys = (c_uint64 * (max(1, self._key_words) * _BATCH))()
        self._one = (c_uint64 * (self._words * copies))()

    def entries(self) -> Iterator[tuple[tuple[int, ...], list[int]]]:
        """Yield keys, which consist of 64-bit words, and values of a hash map."""
        after, count = c_uint64(), c_uint32()
        begin = None
        width = self._words * self._copies
        values = (c_uint64 * (width * _BATCH))()
        while True:
            count.value = _BATCH
            failed = self._lib.bpf_map_lookup_batch(
                self._fd, begin, ctypes.byref(after), self._keys, values, ctypes.byref(count), None
            )
            if failed and ctypes.get_errno() != errno.ENOENT:  # ENOENT: the last batch
                raise _unreadable()
            keys = _integers(self._keys, self._key_words * count.value)
            words = _integers(values, width * count.value)
            for at in range(count.value):
                key = tuple(keys[at * self._key_words : (at + 1) * self._key_words])
                yield key, self._sums(words[at * width : (at + 1) * width])
            if failed:
                return
            begin = ctypes.byref(after)

    def element(self, index: int) -> list[int]:
        """Return a value of an array."""
        if self._lib.bpf_map_lookup_elem(self._fd, ctypes.byref(c_uint32(index)), self._one):
            raise _unreadable()
        return self._sums(_integers(self._one, len(self._one)))

    def _sums(self, words: list[int]) -> list[int]:
        return [sum(words[at :: self._words]) for at in range(self._words)] if self._copies > 1 else words

    def delete(self, key: tuple[int, ...]) -> None:
        """Delete an entry of a hash map, if it is there."""
        failed = self._lib.bpf_map_delete_elem(self._fd, (c_uint64 * len(key))(*key))
        if failed and ctypes.get_errno() != errno.ENOENT:
            raise _unreadable()


# --- libbpf -----------------------------------------------------------------------------------------------------------


def _library(open_library: Callable[..., Any]) -> tuple[str, Any]:
    """Load the newest installed libbpf; return its name and the library, with its functions' types."""
    problems = []
    for name in ("libbpf.so.1", "libbpf.so.0"):
        try:
            lib = open_library(name, use_errno=True)
        except OSError as error:
            problems.append(str(error))
            continue
        try:
            for function, (result, *arguments) in _FUNCTIONS.items():
                getattr(lib, function).restype = result
                getattr(lib, function).argtypes = arguments
        except AttributeError as error:
            problems.append(f"{name} is too old ({error})")
            continue
        return name, lib
    raise no_library(problems)


_FUNCTIONS: dict[str, list[Any]] = {
    "libbpf_num_possible_cpus": [c_int],
    "bpf_object__open_file": [c_void_p, c_char_p, c_void_p],
    "bpf_object__load": [c_int, c_void_p],
    "bpf_object__close": [None, c_void_p],
    "bpf_object__find_program_by_name": [c_void_p, c_void_p, c_char_p],
    "bpf_object__find_map_by_name": [c_void_p, c_void_p, c_char_p],
    "bpf_program__attach": [c_void_p, c_void_p],
    "bpf_link__destroy": [c_int, c_void_p],
    "bpf_map__fd": [c_int, c_void_p],
    "bpf_program__set_autoload": [c_int, c_void_p, c_bool],
    "bpf_map__type": [c_int, c_void_p],
    "bpf_map__key_size": [c_uint32, c_void_p],
    "bpf_map__value_size": [c_uint32, c_void_p],
    "bpf_map__set_initial_value": [c_int, c_void_p, c_void_p, c_size_t],
    "bpf_map_lookup_elem": [c_int, c_int, c_void_p, c_void_p],
    "bpf_map_lookup_batch": [c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p],
    "bpf_map_delete_elem": [c_int, c_int, c_void_p],
}

_LARGEST_POINTER = 2 ** (8 * ctypes.sizeof(c_void_p)) - 1
_MAX_ERRORS = 4095  # include/linux/err.h


def _have(pointer: int | None) -> int:
    """Return a valid pointer; raises OSError for NULL and for libbpf.so.0's negative errno."""
    if not pointer:
        raise OSError(ctypes.get_errno() or errno.ENOENT, "NULL")
    if pointer > _LARGEST_POINTER - _MAX_ERRORS:
        raise OSError(_LARGEST_POINTER + 1 - pointer, "no pointer")
    return pointer


def _succeed(result: int) -> None:
    """Raise OSError for a result below 0, which is the negative errno."""
    if result < 0:
        raise OSError(-result, "failed")


def _integers(words: ctypes.Array[c_uint64], count: int) -> list[int]:
    return memoryview(words).cast("B").cast("Q")[:count].tolist()


def _unreadable() -> SourceError:
    error = ctypes.get_errno()
    if error == errno.EPERM:
        return SourceError(
            "the kernel no longer lets the program's counts be read: was kernel.unprivileged_bpf_disabled set since? "
            "Restart the exporter"
        )
    return SourceError(f"the program's counts can't be read: {os.strerror(error)}")


@contextlib.contextmanager
def _kept_away() -> Iterator[Callable[[], str]]:
    """Redirect standard error of C code to a file; yields a function that returns its text.

    Only for the start of the process, before other threads write there.
    """
    with contextlib.ExitStack() as at_end:
        try:
            kept: IO[bytes] = at_end.enter_context(tempfile.TemporaryFile())
        except OSError:  # no folder for temporary files: go on without the text
            kept = at_end.enter_context(Path(os.devnull).open("w+b", buffering=0))
        stderr = os.dup(2)
        at_end.callback(os.close, stderr)
        os.dup2(kept.fileno(), 2)
        at_end.callback(os.dup2, stderr, 2)

        def said() -> str:
            kept.seek(0)
            return kept.read(1 << 16).decode(errors="replace")

        yield said
