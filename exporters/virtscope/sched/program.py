"""The BPF program waits.bpf.c: loaded by libbpf through ctypes, attached to sched_switch; reads its maps.

The watched host needs no compiler, headers or tracefs: libbpf relocates the one waits.bpf.o by the running kernel's
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
from collections.abc import Iterable, Iterator
from ctypes import c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import IO, Any, Callable, NamedTuple

from virtscope.sched.reasons import Machine, no_library, why
from virtscope.toolkit.collect import SourceError

OBJECT = Path(__file__).with_name("waits.bpf.o")

# Pseudo ids from waits.bpf.c.
IDLE, OTHER, THROTTLED, STOLEN = 0, 2**64 - 1, 2**64 - 2, 2**64 - 3

MAX_PAIRS = 8192  # size of the kernel's map
_BATCH = 1024  # pairs per read

Pair = tuple[int, int]
"""Ids of the cgroup that waited and of the one that ran meanwhile, which may be a pseudo id."""


class Waited(NamedTuple):
    """A pair's totals since the program was loaded, or since the pair was deleted."""

    ns: int
    waits: int  # each wait counts in one pair only


class Totals(NamedTuple):
    """The first fields of struct cpu, summed over CPUs, since the program was loaded."""

    switches: int
    waited: int  # attributed ns
    run_delay: int  # ns of wait by the kernel's own count; 0 if it has none
    lost: int  # ns not attributed because the map of pairs was full


class Program:
    """The loaded program, until close()."""

    def __init__(self, version: int, machine: Machine, open_library: Callable[..., Any] = ctypes.CDLL) -> None:
        """Load and attach it, for cgroups of this version.

        Raises SourceUnavailable, with the remedy, if this machine can't run it; SourceError if loading fails otherwise.
        """
        self.library, lib = _library(open_library)
        self._lib = lib
        self._object = self._link = 0
        with _kept_away() as said:
            try:
                self._load(version)
            except OSError as error:
                self.close()
                raise why(error.errno or 0, said(), self.library, machine) from None
        self._cpus = lib.libbpf_num_possible_cpus()
        self._words = lib.bpf_map__value_size(self._map(b"cpus")) // 8
        self._fds = {name: lib.bpf_map__fd(self._map(name)) for name in (b"pairs", b"rests", b"cpus")}
        self._keys = (c_uint64 * (2 * _BATCH))()
        self._values = (c_uint64 * (2 * self._cpus * _BATCH))()
        self._total = (c_uint64 * (self._words * self._cpus))()

    def _load(self, version: int) -> None:
        lib = self._lib
        self._object = _have(lib.bpf_object__open_file(os.fsencode(OBJECT), None))
        constants, rodata = c_uint32(version), self._map(b"waits.rodata")
        _succeed(lib.bpf_map__set_initial_value(rodata, ctypes.byref(constants), ctypes.sizeof(constants)))
        _succeed(lib.bpf_object__load(self._object))
        program = _have(lib.bpf_object__find_program_by_name(self._object, b"on_switch"))
        self._link = _have(lib.bpf_program__attach(program))

    def _map(self, name: bytes) -> int:
        return _have(self._lib.bpf_object__find_map_by_name(self._object, name))

    def close(self) -> None:
        """Detach and unload it. (So does the end of the process.)"""
        if self._link:
            self._lib.bpf_link__destroy(self._link)
        if self._object:
            self._lib.bpf_object__close(self._object)
        self._link = self._object = 0

    def pairs(self) -> dict[Pair, Waited]:
        """Return the totals of each pair, OTHER including pairs that didn't fit; raises SourceError."""
        found = {(words[0], words[1]): waited for words, waited in self._entries(b"pairs", 2)}
        for (waiting,), (ns, waits) in self._entries(b"rests", 1):
            known = found.get((waiting, OTHER), Waited(0, 0))
            found[waiting, OTHER] = Waited(known.ns + ns, known.waits + waits)
        return found

    def _entries(self, name: bytes, key_words: int) -> Iterator[tuple[list[int], Waited]]:
        """Yield each key of a map, of this many words, with its sums over all CPUs."""
        after, count = c_uint64(), c_uint32()
        begin = None
        width = 2 * self._cpus
        while True:
            count.value = _BATCH
            failed = self._lib.bpf_map_lookup_batch(
                self._fds[name], begin, ctypes.byref(after), self._keys, self._values, ctypes.byref(count), None
            )
            if failed and ctypes.get_errno() != errno.ENOENT:  # ENOENT: the last batch
                raise _unreadable()
            keys, words = _integers(self._keys, key_words * count.value), _integers(self._values, width * count.value)
            for at in range(count.value):
                of_cpus = words[at * width : (at + 1) * width]
                key = keys[at * key_words : (at + 1) * key_words]
                yield key, Waited(sum(of_cpus[0::2]), sum(of_cpus[1::2]))
            if failed:
                return
            begin = ctypes.byref(after)

    def totals(self) -> Totals:
        """Return the totals of all CPUs; raises SourceError."""
        key = c_uint32(0)
        if self._lib.bpf_map_lookup_elem(self._fds[b"cpus"], ctypes.byref(key), self._total):
            raise _unreadable()
        words = _integers(self._total, len(self._total))
        return Totals(*(sum(words[at :: self._words]) for at in range(len(Totals._fields))))

    def forget(self, pairs: Iterable[Pair]) -> None:
        """Delete these pairs from the map; raises SourceError."""
        for waiting, running in pairs:
            self._delete(b"pairs", (c_uint64 * 2)(waiting, running))
            if running == OTHER:
                self._delete(b"rests", c_uint64(waiting))

    def _delete(self, name: bytes, key: ctypes.Array[c_uint64] | c_uint64) -> None:
        failed = self._lib.bpf_map_delete_elem(self._fds[name], ctypes.byref(key))
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
