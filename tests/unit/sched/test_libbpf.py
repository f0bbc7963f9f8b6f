"""Messages if libbpf or the kernel refuse a program, and a check of the objects against their sources.

The programs' results: tests/e2e/test_sched_exporter.py, test_disk_delays.py and test_interrupts.py, and on other
kernels tests/kernels.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from tools import bpf
from virtscope.sched import cpu, disk, irq, memory
from virtscope.sched.reasons import Machine
from virtscope.toolkit.collect import SourceError, SourceUnavailable

MACHINE = Machine("6.1.0-18-amd64", Path("/sys/kernel/btf/vmlinux"), "", 2**41 - 1)

either_libbpf = pytest.mark.parametrize("version", [0, 1])


class FakeLibbpf:
    """A library whose functions succeed, except one that is missing and those with an errno here."""

    def __init__(
        self, *, version: int = 1, without: str = "", said: str = "", errors: Mapping[str, int] | None = None
    ) -> None:
        self.version, self.without, self.said, self.errors = version, without, said, errors or {}
        self.called: dict[str, Mock] = {}

    def open(self, name: str, *, use_errno: bool) -> FakeLibbpf:
        """Replaces ctypes.CDLL."""
        assert use_errno
        if name != f"libbpf.so.{self.version}":
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return self

    def __getattr__(self, name: str) -> Mock:
        if name == self.without:
            raise AttributeError(f"undefined symbol: {name}")
        return self.called.setdefault(name, Mock(side_effect=partial(self._call, name)))

    def _call(self, name: str, *arguments: Any) -> int | None:
        if name.endswith("_by_name"):  # libbpf puts the file's name before that of a section
            modules = {b"cpu": cpu, b"disk": disk, b"irq": irq, b"memory": memory}
            objects = {name: module.OBJECT for name, module in modules.items()}
            assert any(arguments[-1].removeprefix(of) + b"\0" in path.read_bytes() for of, path in objects.items())
        error = self.errors.get(name, 0)
        ctypes.set_errno(error)
        if name == "bpf_object__load":
            os.write(2, self.said.encode())
        if error and name == "bpf_object__open_file":  # NULL, and in libbpf.so.0 a negative errno as a pointer
            return None if self.version else 2**64 - error
        return -error or 2


def loaded(lib: FakeLibbpf) -> cpu.Waits:
    return cpu.Waits(2, MACHINE, lib.open)


def test_what_can_no_longer_be_read_is_an_error() -> None:
    maps = "bpf_map_lookup_batch", "bpf_map_lookup_elem", "bpf_map_delete_elem"
    for number, words in ((errno.EPERM, "unprivileged_bpf_disabled"), (errno.EFAULT, "can't be read: Bad address")):
        running = loaded(FakeLibbpf(errors=dict.fromkeys(maps, number)))
        for read in (running.pairs, running.totals, partial(running.forget, [(2, 3)])):
            with pytest.raises(SourceError, match=words) as raised:
                read()
            assert not isinstance(raised.value, SourceUnavailable), number


@either_libbpf
def test_what_libbpf_printed_is_in_the_error_and_not_in_the_log(
    version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "libbpf: prog 'on_switch': BPF program load failed: Invalid argument\nlibbpf: failed to load object\n"
    lib = FakeLibbpf(version=version, said=said, errors={"bpf_object__load": errno.EINVAL})
    with pytest.raises(SourceError, match="prog 'on_switch': BPF program load failed: Invalid argument"):
        loaded(lib)
    assert capfd.readouterr().err == ""
    lib.bpf_object__close.assert_called_once()


@either_libbpf
def test_an_object_that_can_t_be_opened_is_an_error(version: int) -> None:
    with pytest.raises(SourceError, match="No such file or directory"):
        loaded(FakeLibbpf(version=version, errors={"bpf_object__open_file": errno.ENOENT}))


def test_without_libbpf_there_is_a_word_about_each_and_what_to_install() -> None:
    with pytest.raises(SourceUnavailable, match=r"^libbpf\.so\.1: .*; libbpf\.so\.0: .*: install libbpf \(Debian: lib"):
        loaded(FakeLibbpf(version=7))
    with pytest.raises(SourceUnavailable, match=r"libbpf\.so\.0 is too old \(undefined symbol: bpf_map_lookup_batch\)"):
        loaded(FakeLibbpf(version=0, without="bpf_map_lookup_batch"))


@pytest.mark.parametrize("of", [cpu, disk, irq, memory])
def test_the_object_is_what_clang_makes_of_its_source(of: ModuleType, tmp_path: Path) -> None:
    """Byte for byte with Debian 12's clang, which `make bpf` requires too."""
    if not shutil.which(bpf.CLANG) or not shutil.which(bpf.STRIP):
        pytest.skip(f"{bpf.CLANG} or {bpf.STRIP} is absent: install what tests/packages.txt lists")
    source, built = of.OBJECT.with_suffix(".c"), tmp_path / of.OBJECT.name
    assert source in bpf.SOURCES
    bpf.build(source, built)
    assert built.read_bytes() == of.OBJECT.read_bytes(), f"{source.name} has changed since: run `make bpf`"


@pytest.mark.parametrize("of", [cpu, disk, irq, memory])
def test_the_kernel_has_room_for_as_many_pairs_as_the_reader_believes(of: ModuleType) -> None:
    """The reader decides with this limit when idle pairs are forgotten."""
    source = of.OBJECT.with_suffix(".c").read_text()
    (rooms,) = re.findall(r"max_entries, (\d+)\);\s*__type\(key, struct pair\)", source)
    assert int(rooms) == of.MAX_PAIRS


def test_a_kernel_that_refuses_to_watch_io_max_measures_other_delays() -> None:
    class Fussy(FakeLibbpf):
        """Refuses the object unless the optional program is left out."""

        def _call(self, name: str, *arguments: Any) -> int | None:
            left_out = self.called["bpf_program__set_autoload"].called
            self.errors = {"bpf_object__load": 0 if left_out else errno.EPERM}
            return super()._call(name, *arguments)

    assert not disk.Delays(2, MACHINE, Fussy().open).sees_io_max
    assert disk.Delays(2, MACHINE, FakeLibbpf().open).sees_io_max
    with pytest.raises(SourceUnavailable, match="bpf"):
        disk.Delays(2, MACHINE, FakeLibbpf(errors={"bpf_object__load": errno.EPERM}).open)


@pytest.mark.parametrize(("attempts", "sees_swap"), [(1, True), (2, True), (3, False)])
def test_a_kernel_has_either_hook_of_swap_or_neither(attempts: int, sees_swap: bool) -> None:
    class Older(FakeLibbpf):
        """Refuses the object until this attempt."""

        def _call(self, name: str, *arguments: Any) -> int | None:
            tried = self.called["bpf_object__load"].call_count
            self.errors = {"bpf_object__load": 0 if tried >= attempts else errno.ESRCH}
            return super()._call(name, *arguments)

    assert memory.Evictions(2, MACHINE, Older().open).sees_swap == sees_swap
