"""The cgroups that are the lab's virtual servers, under either version of the kernel's interface.

Version 2 is one tree for everything (Documentation/admin-guide/cgroup-v2.rst). Under version 1 each controller has a
tree of its own (Documentation/admin-guide/cgroup-v1); there a virtual server is the same path in each of them, and in
the tree of version 2 beside them, which has perf_event and pressure. All paths begin with /virtscope.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab import LabError, wait_until

PARENT = "virtscope"
CONTROLLERS = ("cpu", "cpuset", "memory")
CPU_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}  # by version; 1024 is to version 1 what 100 is to version 2
# Shorter than the kernel's default of 0.1 s: a throttled server accepts no requests, and the time that they wait is
# missing in its log.
CAP_PERIOD = 0.02  # seconds
PERIOD_US = round(CAP_PERIOD * 1e6)
SMALLEST_CAP = 0.001 / CAP_PERIOD  # the kernel lets a group run for no less than 1 ms at a time
KILL_SECONDS = 10.0
LOCK_SECONDS = 3.0  # for the guard of a run that was killed to have cleaned up
# Joins all cgroups before it starts the command, so that the program never runs outside of them.
_JOIN = 'set -e; while [ "$1" != -- ]; do echo 0 >"$1"; shift; done; shift; exec "$@"'


class CgroupError(LabError):
    """A cgroup can't be created, changed or removed; the message names the file and says what to do."""

    def __init__(self, message: str, number: int | None = None) -> None:
        """`number` is the kernel's errno, if it was the kernel that refused."""
        super().__init__(message)
        self.errno = number


@dataclass(frozen=True)
class TierLimits:
    """What a virtual server may use of the machine."""

    cpu_weight: int = 100  # 1 to 10,000: its share relative to others' weights when there is too little CPU
    cap: float | None = None  # CPUs that it may use at most, such as 0.2
    cpus: str | None = None  # CPUs that it may run on, such as "0" or "0-1,3"; all if None


@dataclass(frozen=True)
class Hierarchies:
    """Where the trees of cgroups are mounted."""

    unified: Path | None  # version 2's
    by_controller: dict[str, Path]  # version 1's, which may share a tree

    @property
    def version(self) -> int:
        """The version whose files limit the CPU."""
        return 1 if "cpu" in self.by_controller else 2

    @property
    def roots(self) -> tuple[Path, ...]:
        """All trees that a virtual server is in, without duplicates."""
        return tuple(dict.fromkeys([*([self.unified] if self.unified else []), *self.by_controller.values()]))


def mounted() -> Hierarchies:
    """Return this machine's mounts; raises as `parse_mounts`."""
    return parse_mounts(Path("/proc/self/mountinfo").read_text())


def parse_mounts(mountinfo: str) -> Hierarchies:
    """Return the mounts in mountinfo (man proc); raises `CgroupError` if CPU can't be limited."""
    unified = None
    by_controller: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        # ID parent major:minor root mount-point options optional... - type source super-options
        before, _, after = line.partition(" - cgroup")
        if not after:
            continue
        mount_point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split(" ")[4]))
        version_2, _, options = after.partition(" ")
        if version_2 == "2":
            unified = mount_point
        else:
            for controller in {*CONTROLLERS, "cpuacct", "perf_event"}.intersection(options.split(" ")[-1].split(",")):
                by_controller[controller] = mount_point
    absent = {*CONTROLLERS, "cpuacct"} - by_controller.keys() if "cpu" in by_controller else set()
    if absent:
        raise CgroupError(f"cgroup version 1 lacks a mount of {', '.join(sorted(absent))}: mount it, or use version 2")
    if "cpu" not in by_controller:
        if unified is None:
            raise CgroupError("no cgroups are mounted: mount -t cgroup2 none /sys/fs/cgroup")
        by_controller.pop("perf_event", None)
    return Hierarchies(unified, by_controller)


def settings(limits: TierLimits, version: int) -> list[tuple[str, str, str]]:
    """The controller, the file and what to write to it for each limit."""
    if version == 2:
        cpu = [("cpu", CPU_WEIGHT[2], str(limits.cpu_weight))]
    else:
        cpu = [
            ("cpu", CPU_WEIGHT[1], str(max(2, round(limits.cpu_weight * 1024 / 100)))),
            ("cpu", "cpu.cfs_period_us", str(PERIOD_US)),
        ]
    cpu.append(("cpu", *cap_setting(limits.cap, version)))
    return [*cpu, ("cpuset", "cpuset.cpus", limits.cpus)] if limits.cpus else cpu


def cap_setting(cap: float | None, version: int) -> tuple[str, str]:
    """The file that a cap is in, and what to write to it; under version 1 the period has a file of its own."""
    quota = None if cap is None else round(cap * PERIOD_US)
    if version == 2:
        return "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}"
    return "cpu.cfs_quota_us", str(-1 if quota is None else quota)


class Cgroup:
    """One virtual server: a cgroup of the same path in each tree."""

    def __init__(self, name: str, hierarchies: Hierarchies) -> None:
        """`name` is the path below /virtscope; nothing is created yet."""
        self.name = name
        self.path = f"/{PARENT}/{name}"
        self._hierarchies = hierarchies
        self._folders = [root / PARENT / name for root in hierarchies.roots]
        self.lock: int | None = None  # a descriptor: as long as it is open anywhere, the cgroup has an owner

    @property
    def is_ours(self) -> bool:
        """Whether this object has created it, and it still exists."""
        return self.lock is not None

    def make(self, limits: TierLimits) -> None:
        """Create it with limits, replacing what a killed run left; raises `CgroupError`."""
        self._remove_left_over()
        try:
            for folder in self._folders:
                with _explained(folder):
                    _make(folder, self._hierarchies)
                    if self.lock is None:
                        self.lock = _locked(folder)
            _inherit_cpuset(self._folder("cpuset"))
            self.limit(limits)
        except CgroupError:
            if self.is_ours:
                self.remove()
            raise

    def limit(self, limits: TierLimits) -> None:
        """Set its limits, also while it is in use; raises `CgroupError`."""
        version = self._hierarchies.version
        if limits.cpus is None:
            # The set can't be empty under version 1, nor under version 2 once there are processes.
            name = "cpuset.cpus" if version == 1 else "cpuset.cpus.effective"
            limits = replace(limits, cpus=(self._folder("cpuset").parent / name).read_text().strip())
        for controller, name, value in settings(limits, version):
            _write(self._folder(controller) / name, value)
        self._weigh_parent()

    def cap(self, cpus: float) -> None:
        """Change its cap alone, in CPUs: a single write to a single file. Raises `CgroupError`."""
        name, value = cap_setting(cpus, self._hierarchies.version)
        _write(self._folder("cpu") / name, value)

    def joining(self, command: Sequence[str | Path]) -> list[str]:
        """A command that joins the cgroup in each tree and then becomes this command."""
        procs = [str(folder / "cgroup.procs") for folder in self._folders]
        return ["sh", "-c", _JOIN, "join", *procs, "--", *map(str, command)]

    def processes(self) -> list[int]:
        """Pids of its processes."""
        found: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):  # gone, or going
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return sorted(found)

    def kill(self) -> None:
        """Kill all processes in it; raises `CgroupError` if some remain."""

        def killed() -> bool:
            for pid in (there := self.processes()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not there

        if not wait_until(killed, KILL_SECONDS, 0.01):
            pids = " ".join(map(str, self.processes()))
            raise CgroupError(f"{self.path} has processes that can't be stopped: {pids}")

    def remove(self) -> None:
        """Kill its processes and remove it; does nothing if it is gone already. Raises `CgroupError`."""
        self.kill()
        for folder in reversed(self._folders):  # the one with the lock last: until then no other run can take the name
            with _explained(folder):
                _remove(folder)
            with contextlib.suppress(OSError):  # it isn't empty
                folder.parent.rmdir()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def cpu_seconds(self) -> float:
        """CPU time that its processes have used so far."""
        if self._hierarchies.version == 2:
            [usage] = re.findall(r"^usage_usec (\d+)$", (self._folder("cpu") / "cpu.stat").read_text(), re.MULTILINE)
            return int(usage) / 1e6
        return int((self._folder("cpuacct") / "cpuacct.usage").read_text()) / 1e9

    def _folder(self, controller: str) -> Path:
        root = self._hierarchies.by_controller.get(controller, self._hierarchies.unified)
        assert root is not None  # one of them exists: see parse_mounts
        return root / self.path[1:]

    def _weigh_parent(self) -> None:
        """Give /virtscope the sum of its children's weights.

        So each competes with the rest of the machine directly, not all of them together as one.
        """
        name = CPU_WEIGHT[self._hierarchies.version]
        parent = self._folder("cpu").parent
        weights = []
        for child in parent.glob(f"*/{name}"):
            with contextlib.suppress(OSError):  # another run's, and just gone
                weights.append(int(child.read_text()))
        most = 10_000 if self._hierarchies.version == 2 else 2**18
        _write(parent / name, str(min(sum(weights), most)))

    def _remove_left_over(self) -> None:
        if not any(folder.is_dir() for folder in self._folders):
            return
        if self._folders[0].is_dir():
            lock = _locked(self._folders[0])  # raises if it is in use
            os.close(lock)
        self.remove()


def _make(folder: Path, hierarchies: Hierarchies) -> None:
    """Create it below /virtscope, which the end of another run may remove as long as it is empty."""

    def made() -> bool:
        try:
            _make_parent(folder.parent, hierarchies)
            folder.mkdir()
        except (OSError, CgroupError) as error:
            # The second is that of a file which was open already.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
            return False
        return True

    if not wait_until(made, LOCK_SECONDS, 0.01):
        raise CgroupError(f"{folder.parent} is removed again and again by another run: wait for it")


def _make_parent(parent: Path, hierarchies: Hierarchies) -> None:
    """Create /virtscope in a tree, with controllers enabled for its children."""
    parent.mkdir(exist_ok=True)
    if hierarchies.version == 2:
        # A controller must be enabled for children in each cgroup, all the way from the top.
        for folder in (parent.parent, parent):
            there = set((folder / "cgroup.controllers").read_text().split())
            if absent := set(CONTROLLERS) - there:
                raise CgroupError(
                    f"{folder}/cgroup.controllers lacks {', '.join(sorted(absent))}: "
                    "the lab needs a machine, or a container, whose cgroups have these controllers"
                )
            _write(folder / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in CONTROLLERS))
    elif parent.parent == hierarchies.by_controller["cpuset"]:
        _inherit_cpuset(parent)


def _inherit_cpuset(folder: Path) -> None:
    """Under version 1 a new cgroup has no CPUs and memory nodes; under version 2 it has its parent's."""
    if not (folder / "tasks").exists():  # version 1's
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text().strip():
            _write(folder / name, (folder.parent / name).read_text().strip())


def _locked(folder: Path) -> int:
    """A descriptor that holds the cgroup's lock; raises `CgroupError` if it stays locked by others."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def locked() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    if not wait_until(locked, LOCK_SECONDS):
        os.close(descriptor)
        raise CgroupError(f"{folder} is in use by another run on this machine: wait for it")
    return descriptor


def _remove(folder: Path) -> None:
    def removed() -> bool:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    # It stays busy for a moment after its last process has ended.
    if not wait_until(removed, KILL_SECONDS, 0.01):
        folder.rmdir()


def _write(file: Path, value: str) -> None:
    with _explained(file, value):
        file.write_text(value)


@contextlib.contextmanager
def _explained(file: Path, value: str | None = None) -> Iterator[None]:
    """Turn the kernel's errors into `CgroupError`."""
    try:
        yield
    except OSError as error:
        what = f"writing {value!r} to {file}" if value is not None else str(error.filename or file)
        if os.geteuid() != 0:
            advice = "only root may create cgroups: use sudo"
        elif isinstance(error, PermissionError) or "Read-only" in str(error.strerror):
            advice = "in a container, run the lab on the host, or give the container /sys/fs/cgroup to write to"
        else:
            advice = "the kernel refuses it: see Documentation/admin-guide/cgroup-v2.rst or cgroup-v1"
        raise CgroupError(f"{what}: {error.strerror}; {advice}", error.errno) from None
