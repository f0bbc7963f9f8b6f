"""Why the program isn't loaded: a sentence that says what is missing and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from virtscope.sched.reasons import Machine, Refused, before_loading, why
from virtscope.toolkit.collect import SourceError, SourceUnavailable

BPF_AND_PERFMON = 1 << 39 | 1 << 38
SYS_ADMIN = 1 << 21
HAS_TYPES = Path(__file__)  # a file that is there
MACHINE = Machine("6.1.0-18-amd64", HAS_TYPES, "[none] integrity confidentiality", BPF_AND_PERFMON)


def refused(error: int, machine: Machine = MACHINE, said: str = "", library: str = "libbpf.so.1") -> SourceError:
    return why(Refused(error, said, library), machine)


def test_a_machine_with_types_may_be_tried_whatever_its_version() -> None:
    assert before_loading(MACHINE) is None
    assert before_loading(MACHINE._replace(release="4.18.0-553.el8.x86_64")) is None


def test_without_types() -> None:
    for release, words in (
        ("4.19.0-27-amd64", "Linux 5.6 or newer is needed; this is 4.19.0-27-amd64"),
        ("5.10.0-30-cloud", "no/vmlinux is absent: .*CONFIG_DEBUG_INFO_BTF=y"),
    ):
        with pytest.raises(SourceUnavailable, match=words):
            raise before_loading(MACHINE._replace(release=release, types=Path("/no/vmlinux"))) or AssertionError


def test_a_big_endian_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.byteorder", "big")
    assert "big-endian" in str(before_loading(MACHINE))


def test_without_a_capability() -> None:
    for release, capabilities, needed in (
        ("6.1.0", 0, "CAP_BPF and CAP_PERFMON"),
        ("5.8.0", 1 << 39, "CAP_BPF and CAP_PERFMON"),
        ("6.1.0", 1 << 38, "CAP_BPF and CAP_PERFMON"),
        ("5.7.19", 0, r"CAP_SYS_ADMIN \(before Linux 5.8\)"),
    ):
        with pytest.raises(SourceUnavailable, match=f"takes {needed}: run it as root, or give it these"):
            raise refused(errno.EPERM, MACHINE._replace(release=release, capabilities=capabilities))


def test_with_the_capabilities_something_else_forbids_it() -> None:
    for capabilities in (BPF_AND_PERFMON, SYS_ADMIN):
        machine = MACHINE._replace(capabilities=capabilities)
        for release, words in (("6.1.0", "seccomp filter"), ("5.10.0", "LimitMEMLOCK=infinity")):
            with pytest.raises(SourceUnavailable, match=words):
                raise refused(errno.EPERM, machine._replace(release=release))


def test_locked_down() -> None:
    for error in (errno.EPERM, errno.EINVAL):
        machine = MACHINE._replace(lockdown="none integrity [confidentiality]")
        with pytest.raises(SourceUnavailable, match="locked down"):
            raise refused(error, machine)


def test_too_old_a_kernel_is_said_once_it_has_refused() -> None:
    with pytest.raises(SourceUnavailable, match=r"this is 5\.4\.0"):
        raise refused(errno.EINVAL, MACHINE._replace(release="5.4.0"))


def test_a_kernel_without_bpf() -> None:
    with pytest.raises(SourceUnavailable, match="CONFIG_BPF_SYSCALL"):
        raise refused(errno.ENOSYS)


def test_an_old_libbpf_may_not_understand_a_newer_kernel() -> None:
    said = "libbpf: Unsupported BTF_KIND:19\nlibbpf: failed to find valid kernel BTF\n"
    with pytest.raises(SourceUnavailable, match=r"\(Unsupported BTF_KIND:19\): install libbpf 1"):
        raise refused(errno.ESRCH, said=said, library="libbpf.so.0")


def test_what_nothing_explains_is_a_failure_with_the_first_words_of_libbpf() -> None:
    said = "warning: x\nlibbpf: prog 'on_switch': failed to attach: Device or resource busy\nlibbpf: and so on\n"
    error = refused(errno.EBUSY, said=said)
    assert not isinstance(error, SourceUnavailable)
    assert str(error) == (
        "the kernel refused the program (Device or resource busy): "
        "prog 'on_switch': failed to attach: Device or resource busy"
    )
    assert str(refused(errno.EBUSY)).endswith("(Device or resource busy): Device or resource busy")


def test_the_version_of_a_kernel() -> None:
    for release, version in (("6.18.44-fc", (6, 18)), ("5.10.0-30-amd64", (5, 10)), ("", (0, 0)), ("zen", (0, 0))):
        assert MACHINE._replace(release=release).version == version, release


def test_what_a_machine_says(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0-18-amd64\n")
    (tmp_path / "sys/kernel/security").mkdir(parents=True)
    (tmp_path / "sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    found = Machine.read(tmp_path / "proc", tmp_path / "sys")
    assert found[:3] == ("6.1.0-18-amd64", tmp_path / "sys/kernel/btf/vmlinux", "none [integrity] confidentiality")
    silent = Machine.read(tmp_path, tmp_path)
    assert (silent.release, silent.lockdown) == ("", "")
