"""Why the program can't be loaded on this machine: one line with cause and remedy."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from virtscope.sched.privileges import CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, effective
from virtscope.toolkit.bounded import first_line, kernel_version
from virtscope.toolkit.collect import SourceError, SourceUnavailable

OLDEST = (5, 6)  # Linux: BPF programs of this type need 5.5, batch reads of maps 5.6


class Machine(NamedTuple):
    """What loading depends on."""

    release: str  # of Linux, such as "6.1.0-18-amd64"
    types: Path  # the kernel's types (BTF), if it has them
    lockdown: str  # /sys/kernel/security/lockdown, such as "none [integrity] confidentiality"; "" without
    capabilities: int  # effective capabilities, a bit each

    @classmethod
    def read(cls, procfs: Path, sysfs: Path) -> Machine:
        """Return the machine's current state."""
        return cls(
            first_line(procfs / "sys/kernel/osrelease"),
            sysfs / "kernel/btf/vmlinux",
            first_line(sysfs / "kernel/security/lockdown"),
            effective(),
        )

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version of Linux; (0, 0) if unknown."""
        return kernel_version(self.release)


def no_library(problems: Sequence[str]) -> SourceUnavailable:
    """Return the reason why no libbpf can be opened; `problems` are the loader's errors."""
    return SourceUnavailable(
        f"{'; '.join(problems)}: install libbpf (Debian: libbpf1, Ubuntu 22.04: libbpf0, Fedora: libbpf) and restart "
        "the exporter"
    )


def before_loading(machine: Machine) -> SourceUnavailable | None:
    """Return why loading can't work; None if it may."""
    if sys.byteorder != "little":
        return SourceUnavailable("its program is compiled for little-endian machines; this one is big-endian")
    if machine.types.exists():
        return None
    if machine.version < OLDEST:
        return _too_old(machine)
    return SourceUnavailable(
        f"{machine.types} is absent: this kernel was built without its types (BTF); it needs a kernel with "
        "CONFIG_DEBUG_INFO_BTF=y, as those of Debian 11, Ubuntu 22.04, Fedora and newer have"
    )


def why(error: int, said: str, library: str, machine: Machine) -> SourceError:
    """Return why loading failed: SourceUnavailable if this machine can't run the program, otherwise SourceError.

    `error` is the errno, `said` libbpf's output.

    Checked only after a failure: some kernels support more than their version or settings suggest.
    """
    if error == errno.EPERM:
        return _not_permitted(machine)
    if machine.version < OLDEST:
        return _too_old(machine)
    if "[confidentiality]" in machine.lockdown:
        return SourceUnavailable(_LOCKED_DOWN)
    if error == errno.ENOSYS:
        return SourceUnavailable("this kernel was built without BPF (CONFIG_BPF_SYSCALL)")
    first = _first_line(said) or os.strerror(error)
    if library == "libbpf.so.0":
        return SourceUnavailable(
            f"libbpf.so.0 can't load the program into this kernel ({first}): install libbpf 1 and restart the exporter"
        )
    return SourceError(f"the kernel refused the program ({os.strerror(error)}): {first}")


_LOCKED_DOWN = (
    "the kernel is locked down (confidentiality), so that no program may read its structures: lockdown=integrity, or "
    "none, on the kernel's command line"
)


def _not_permitted(machine: Machine) -> SourceUnavailable:
    both = 1 << CAP_BPF | 1 << CAP_PERFMON
    if not (machine.capabilities >> CAP_SYS_ADMIN & 1 or machine.capabilities & both == both):
        needed = "CAP_BPF and CAP_PERFMON" if machine.version >= (5, 8) else "CAP_SYS_ADMIN (before Linux 5.8)"
        return SourceUnavailable(
            f"loading its program takes {needed}: run it as root, or give it these "
            "(AmbientCapabilities in a systemd unit, --cap-add in a container; a rootless container's don't count)"
        )
    if "[confidentiality]" in machine.lockdown:
        return SourceUnavailable(_LOCKED_DOWN)
    if machine.version < (5, 11):
        return SourceUnavailable(
            "the limit on locked memory leaves no room for the program's maps: LimitMEMLOCK=infinity in a systemd "
            "unit, --ulimit memlock=-1 for a container"
        )
    return SourceUnavailable(
        "bpf(2) is refused, though the capabilities for it are there: a seccomp filter or a security module forbids "
        "it (SystemCallFilter in a systemd unit, --security-opt of a container), or the container is rootless"
    )


def _too_old(machine: Machine) -> SourceUnavailable:
    major, minor = OLDEST
    return SourceUnavailable(f"Linux {major}.{minor} or newer is needed; this is {machine.release}")


def _first_line(said: str) -> str:
    """Return the first error of libbpf's output, the cause of those after it."""
    lines = (line.partition("libbpf: ")[2].strip() for line in said.splitlines())
    return next((line for line in lines if line), "")[:300]
