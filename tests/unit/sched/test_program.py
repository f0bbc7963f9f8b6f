"""Messages if libbpf or the kernel refuse the program, and a check of the object against its source.

The program's results: tests/e2e/test_sched_exporter.py, and on other kernels tests/kernels.
"""

from __future__ import annotations

import errno
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.unit.sched.fake_libbpf import OBJECT, FakeLibbpf
from tools import bpf
from virtscope.sched import program
from virtscope.sched.program import Program
from virtscope.sched.reasons import Machine
from virtscope.toolkit.collect import SourceError, SourceUnavailable

MACHINE = Machine("6.1.0-18-amd64", Path("/sys/kernel/btf/vmlinux"), "", 2**41 - 1)

either_libbpf = pytest.mark.parametrize("version", [0, 1])


def loaded(lib: FakeLibbpf, hierarchy: int = 2) -> Program:
    return Program(hierarchy, MACHINE, lib.open)


def test_what_can_no_longer_be_read_is_an_error() -> None:
    for number, words in ((errno.EPERM, "unprivileged_bpf_disabled"), (errno.EFAULT, "can't be read: Bad address")):
        lib = FakeLibbpf()
        running = loaded(lib)
        lib.unreadable = number
        for read in (running.pairs, running.totals, partial(running.forget, [(2, 3)])):
            with pytest.raises(SourceError, match=words) as raised:
                read()
            assert not isinstance(raised.value, SourceUnavailable), number


@either_libbpf
def test_what_libbpf_printed_is_in_the_error_and_not_in_the_log(
    version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "libbpf: prog 'on_switch': BPF program load failed: Invalid argument\nlibbpf: failed to load object\n"
    lib = FakeLibbpf(version=version, refuses=errno.EINVAL, said=said)
    with pytest.raises(SourceError, match="prog 'on_switch': BPF program load failed: Invalid argument"):
        loaded(lib)
    assert capfd.readouterr().err == ""
    assert lib.closed == [OBJECT]


@either_libbpf
def test_an_object_that_can_t_be_opened_is_an_error(
    version: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(program, "OBJECT", tmp_path / "waits.bpf.o")
    with pytest.raises(SourceError, match="No such file or directory"):
        loaded(FakeLibbpf(version=version))


def test_without_libbpf_there_is_a_word_about_each_and_what_to_install() -> None:
    with pytest.raises(SourceUnavailable, match=r"^libbpf\.so\.1: .*; libbpf\.so\.0: .*: install libbpf \(Debian: lib"):
        loaded(FakeLibbpf(version=7))
    with pytest.raises(SourceUnavailable, match=r"libbpf\.so\.0 is too old \(undefined symbol: bpf_map_lookup_batch\)"):
        loaded(FakeLibbpf(version=0, without="bpf_map_lookup_batch"))


def test_the_object_is_what_clang_makes_of_its_source(tmp_path: Path) -> None:
    """Byte for byte with Debian 12's clang, which `make bpf` requires too."""
    if not shutil.which(bpf.CLANG) or not shutil.which(bpf.STRIP):
        pytest.skip(f"{bpf.CLANG} or {bpf.STRIP} is absent: install what tests/packages.txt lists")
    built = tmp_path / program.OBJECT.name
    bpf.build(built)
    assert built.read_bytes() == program.OBJECT.read_bytes(), "waits.bpf.c has changed since: run `make bpf`"


def test_the_object_carries_no_path_and_says_its_licence() -> None:
    data = program.OBJECT.read_bytes()
    assert b"\0Dual BSD/GPL\0" in data
    assert not re.search(rb"\0/[a-z]+/", data)


def test_the_kernel_has_room_for_as_many_pairs_as_the_reader_believes() -> None:
    """The reader decides with this limit when idle pairs are forgotten."""
    (rooms,) = re.findall(r"max_entries, (\d+)\);\s*__type\(key, struct pair\)", bpf.SOURCE.read_text())
    assert int(rooms) == program.MAX_PAIRS
