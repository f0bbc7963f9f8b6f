"""Reasons why the program can't be loaded: a sentence with the missing part and a remedy."""

import errno
import re
from pathlib import Path

import pytest

from virtscope.sched.reasons import Machine, before_loading, why
from virtscope.toolkit.collect import SourceUnavailable

BPF_AND_PERFMON = 1 << 39 | 1 << 38
SYS_ADMIN = 1 << 21
HAS_TYPES = Path(__file__)  # any existing file
MACHINE = Machine("6.1.0-18-amd64", HAS_TYPES, "[none] integrity confidentiality", BPF_AND_PERFMON)


def test_before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert before_loading(MACHINE) is None
    assert before_loading(MACHINE._replace(release="4.18.0-553.el8.x86_64")) is None, (
        "it has types, whatever its version"
    )
    for release, words in (
        ("4.19.0-27-amd64", "Linux 5.6 or newer is needed; this is 4.19.0-27-amd64"),
        ("5.10.0-30-cloud", "no/vmlinux is absent: .*CONFIG_DEBUG_INFO_BTF=y"),
    ):
        error = before_loading(MACHINE._replace(release=release, types=Path("/no/vmlinux")))
        assert isinstance(error, SourceUnavailable)
        assert re.search(words, str(error)), release
    monkeypatch.setattr("sys.byteorder", "big")
    assert "big-endian" in str(before_loading(MACHINE))


def test_what_the_kernel_refuses_and_what_would_help() -> None:
    def machine(release: str, capabilities: int = BPF_AND_PERFMON, lockdown: str = "[none]") -> Machine:
        return MACHINE._replace(release=release, capabilities=capabilities, lockdown=lockdown)

    missing = "takes {}: run it as root, or give it these"
    locked = "none integrity [confidentiality]"
    for error, on, words in (
        (errno.EPERM, machine("6.1.0", 0), missing.format("CAP_BPF and CAP_PERFMON")),
        (errno.EPERM, machine("5.8.0", 1 << 39), missing.format("CAP_BPF and CAP_PERFMON")),
        (errno.EPERM, machine("6.1.0", 1 << 38), missing.format("CAP_BPF and CAP_PERFMON")),
        (errno.EPERM, machine("5.7.19", 0), missing.format("CAP_SYS_ADMIN (before Linux 5.8)")),
        (errno.EPERM, machine("6.1.0"), "seccomp filter"),
        (errno.EPERM, machine("6.1.0", SYS_ADMIN), "seccomp filter"),
        (errno.EPERM, machine("5.10.0"), "LimitMEMLOCK=infinity"),
        (errno.EPERM, machine("6.1.0", lockdown=locked), "locked down"),
        (errno.EINVAL, machine("6.1.0", lockdown=locked), "locked down"),
        (errno.EINVAL, machine("5.4.0"), "this is 5.4.0"),
        (errno.ENOSYS, machine("6.1.0"), "CONFIG_BPF_SYSCALL"),
    ):
        refused = why(error, "", "libbpf.so.1", on)
        assert isinstance(refused, SourceUnavailable)
        assert words in str(refused), on


def test_what_libbpf_says_is_in_the_reason() -> None:
    said = "libbpf: Unsupported BTF_KIND:19\nlibbpf: failed to find valid kernel BTF\n"
    refused = why(errno.ESRCH, said, "libbpf.so.0", MACHINE)
    assert isinstance(refused, SourceUnavailable)
    assert "(Unsupported BTF_KIND:19): install libbpf 1" in str(refused)
    cause = "prog 'on_switch': failed to attach: Device or resource busy"
    error = why(errno.EBUSY, f"warning: x\nlibbpf: {cause}\nlibbpf: and so on\n", "libbpf.so.1", MACHINE)
    assert not isinstance(error, SourceUnavailable), "nothing explains it"
    assert str(error) == f"the kernel refused the program (Device or resource busy): {cause}"


def test_what_a_machine_says(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0-18-amd64\n")
    (tmp_path / "sys/kernel/security").mkdir(parents=True)
    (tmp_path / "sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    found = Machine.read(tmp_path / "proc", tmp_path / "sys")
    assert found[:3] == ("6.1.0-18-amd64", tmp_path / "sys/kernel/btf/vmlinux", "none [integrity] confidentiality")
    silent = Machine.read(tmp_path, tmp_path)
    assert (silent.release, silent.lockdown) == ("", "")
