"""The cgroups that are the lab's virtual servers, under either version of the kernel's interface.

Version 2 is a single tree (Documentation/admin-guide/cgroup-v2.rst). Under version 1 each controller has its own tree
(Documentation/admin-guide/cgroup-v1); a virtual server is the same path in each of them, and in the additional tree of
version 2, which has perf_event and pressure. All paths begin with /virtscope.
"""

import contextlib
import errno
import fcntl
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab import LabError, wait_until

PARENT = "virtscope"
CONTROLLERS = ("cpu", "cpuset", "memory")
IO = "io"  # version 2's; a kernel may lack it, and only a limit for a disk needs it
CPU_WEIGHT = {1: "cpu.shares", 2: "cpu.weight"}  # by version; 1024 in version 1 corresponds to 100 in version 2
MAX_WEIGHT = {1: 2**18, 2: 10_000}
# Shorter than the kernel's default of 0.1 s: a throttled server accepts no requests, and their waiting time is missing
# in its log.
CAP_PERIOD = 0.02  # seconds
PERIOD_US = round(CAP_PERIOD * 1e6)
SMALLEST_CAP = 0.001 / CAP_PERIOD  # the kernel's minimum quota is 1 ms
KILL_SECONDS = 10.0
LOCK_SECONDS = 3.0  # for the guard of a killed run to clean up
# Joins all cgroups before starting the command, so the program never runs outside them.
_JOIN = 'set -e; while [ "$1" != -- ]; do echo 0 >"$1"; shift; done; shift; exec "$@"'


class CgroupError(LabError):
    """The kernel refuses a cgroup, or lacks it; the message has what to do."""


@dataclass(frozen=True)
class TierLimits:
    cpu_weight: int = 100  # 1 to 10,000: its share relative to others' weights under CPU contention
    cap: float | None = None  # maximum CPUs, such as 0.2
    cpus: str | None = None  # allowed CPUs, such as "0" or "0-1,3"; None for all


@dataclass(frozen=True)
class Hierarchies:
    unified: Path | None  # version 2's
    by_controller: dict[str, Path]  # version 1's, which may share a tree

    @property
    def version(self) -> int:
        return 1 if "cpu" in self.by_controller else 2

    @property
    def roots(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys([*([self.unified] if self.unified else []), *self.by_controller.values()]))


def mounted() -> Hierarchies:
    return parse_mounts(Path("/proc/self/mountinfo").read_text())


def parse_mounts(mountinfo: str) -> Hierarchies:
    """Return the mounts in mountinfo (man proc); raises `CgroupError` if CPU can't be limited."""
    unified = None
    by_controller: dict[str, Path] = {}
    # ID parent major:minor root mount-point options optional... - type source super-options
    mounts = re.findall(r"^(?:\S+ ){4}(\S+) .* - cgroup(2?) \S+ (\S+)$", mountinfo, re.MULTILINE)
    for mount_point, version_2, options in mounts:
        root = Path(unescaped(mount_point))
        if version_2:
            unified = root
        else:
            wanted = {*CONTROLLERS, "cpuacct", "blkio", "perf_event"}.intersection(options.split(","))
            by_controller |= dict.fromkeys(wanted, root)
    if "cpu" in by_controller:
        if absent := {*CONTROLLERS, "cpuacct"} - by_controller.keys():
            lacking = ", ".join(sorted(absent))
            raise CgroupError(f"cgroup version 1 lacks a mount of {lacking}: mount it, or use version 2")
        return Hierarchies(unified, by_controller)
    if unified is None:
        raise CgroupError("no cgroups are mounted: mount -t cgroup2 none /sys/fs/cgroup")
    return Hierarchies(unified, {name: root for name, root in by_controller.items() if name != "perf_event"})


def require_throttling(hierarchies: Hierarchies) -> None:
    """Raise `CgroupError` if reads of a disk can't be limited here."""
    unified = hierarchies.unified
    if "blkio" not in hierarchies.by_controller and (
        unified is None or IO not in (unified / "cgroup.controllers").read_text().split()
    ):
        raise CgroupError(
            "a disk can't be throttled here: there is neither version 2's controller io nor version 1's blkio"
        )


def unescaped(field: str) -> str:
    """A field of mountinfo as it is: the kernel writes spaces as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def settings(limits: TierLimits, version: int) -> list[tuple[str, str, str]]:
    """The controller, the file and its value for each limit."""
    weight = limits.cpu_weight if version == 2 else max(2, round(limits.cpu_weight * 1024 / 100))
    return [
        ("cpu", CPU_WEIGHT[version], str(weight)),
        *([("cpu", "cpu.cfs_period_us", str(PERIOD_US))] if version == 1 else []),
        ("cpu", *cap_setting(limits.cap, version)),
        *([("cpuset", "cpuset.cpus", limits.cpus)] if limits.cpus else []),
    ]


def cap_setting(cap: float | None, version: int) -> tuple[str, str]:
    quota = None if cap is None else round(cap * PERIOD_US)
    if version == 2:
        return "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}"
    return "cpu.cfs_quota_us", str(-1 if quota is None else quota)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the kernel's errors into `CgroupError`."""
    try:
        yield
    except OSError as error:
        needed = "cgroups need root and, in a container, a writable /sys/fs/cgroup"
        raise CgroupError(f"{error.filename}: {error.strerror}; {needed}") from None


class Cgroup:
    """One virtual server: a cgroup of the same path in each tree. Its methods raise `CgroupError`."""

    def __init__(self, name: str, hierarchies: Hierarchies) -> None:
        """`name` is the path below /virtscope; nothing is created yet."""
        self.path = f"/{PARENT}/{name}"
        self._hierarchies = hierarchies
        self._folders = [root / PARENT / name for root in hierarchies.roots]
        self.lock: int | None = None  # a descriptor: the cgroup has an owner while it is open

    @_explained()
    def make(self, limits: TierLimits) -> None:
        """Create it with limits, replacing a killed run's."""
        if self._folders[0].is_dir():
            os.close(lock(self._folders[0]))  # raises if it is in use
        self.remove()
        try:
            for folder in self._folders:
                if not wait_until(partial(self._create, folder), LOCK_SECONDS, 0.01):
                    raise CgroupError(f"{folder.parent} is removed again and again by another run: wait for it")
                if self.lock is None:
                    self.lock = lock(folder)
            self._inherit_cpuset(self._folder("cpuset"))
            self.limit(limits)
        except BaseException:
            if self.lock is not None:  # this object created it
                self.remove()
            raise

    @_explained()
    def limit(self, limits: TierLimits) -> None:
        """Set its limits, also while it is in use."""
        version = self._hierarchies.version
        if limits.cpus is None:
            # The set can't be empty under version 1, nor under version 2 once there are processes.
            name = "cpuset.cpus" if version == 1 else "cpuset.cpus.effective"
            limits = replace(limits, cpus=(self._folder("cpuset").parent / name).read_text().strip())
        for controller, name, value in settings(limits, version):
            _write(self._folder(controller) / name, value)
        # /virtscope has the sum of its children's weights, so that each child competes directly with the rest of the
        # machine, instead of all children together as one.
        parent, weights = self._folder("cpu").parent, []
        for child in parent.glob(f"*/{CPU_WEIGHT[version]}"):
            with contextlib.suppress(OSError):  # another run's, just removed
                weights.append(int(child.read_text()))
        _write(parent / CPU_WEIGHT[version], str(min(sum(weights), MAX_WEIGHT[version])))

    @_explained()
    def cap(self, cpus: float | None) -> None:
        """Change only its cap, in CPUs or None, by a single write to a single file."""
        name, value = cap_setting(cpus, self._hierarchies.version)
        _write(self._folder("cpu") / name, value)

    @_explained()
    def throttle(self, device: Path, reads: int | None) -> None:
        """Limit its reads of a block device, in requests per second; None: no longer."""
        found = device.stat().st_rdev
        name = f"{os.major(found)}:{os.minor(found)}"
        if "blkio" in self._hierarchies.by_controller:
            _write(self._folder("blkio") / "blkio.throttle.read_iops_device", f"{name} {reads or 0}")
        else:
            _write(self._folder(IO) / "io.max", f"{name} riops={reads or 'max'}")

    def joining(self, command: Sequence[str | Path]) -> list[str]:
        """A command that joins the cgroup in each tree and then executes this command."""
        procs = [str(folder / "cgroup.procs") for folder in self._folders]
        return ["sh", "-c", _JOIN, "join", *procs, "--", *map(str, command)]

    def processes(self) -> list[int]:
        found: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):  # gone, or ending
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return sorted(found)

    def kill(self) -> None:
        """Kill all processes in it."""

        def killed() -> bool:
            for pid in (there := self.processes()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not there

        if not wait_until(killed, KILL_SECONDS, 0.01):
            pids = " ".join(map(str, self.processes()))
            raise CgroupError(f"{self.path} has processes that can't be stopped: {pids}")

    @_explained()
    def remove(self) -> None:
        """Kill its processes and remove it; does nothing if it doesn't exist."""
        self.kill()
        for folder in reversed(self._folders):  # the lock's folder last: until then no other run can take the name
            # It stays busy for a moment after its last process has ended.
            if not wait_until(partial(_removed, folder), KILL_SECONDS, 0.01, not_yet=(OSError,)):
                folder.rmdir()
            with contextlib.suppress(OSError):  # it isn't empty
                folder.parent.rmdir()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def cpu_seconds(self) -> float:
        if self._hierarchies.version == 2:
            [usage] = re.findall(r"^usage_usec (\d+)$", (self._folder("cpu") / "cpu.stat").read_text(), re.MULTILINE)
            return int(usage) / 1e6
        return int((self._folder("cpuacct") / "cpuacct.usage").read_text()) / 1e9

    def _folder(self, controller: str) -> Path:
        root = self._hierarchies.by_controller.get(controller, self._hierarchies.unified)
        assert root is not None  # one of them exists: see parse_mounts
        return root / self.path[1:]

    def _create(self, folder: Path) -> bool:
        """Whether it was created: another run may remove /virtscope at its end, while it is empty."""
        parent = folder.parent
        try:
            parent.mkdir(exist_ok=True)
            if self._hierarchies.version == 2:
                # A controller must be enabled for children in each cgroup from the root down.
                _enable_controllers(parent.parent)
                _enable_controllers(parent)
            else:
                self._inherit_cpuset(parent)
            folder.mkdir()
        except OSError as error:
            # The second error is from a file that was already open.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
            return False
        return True

    def _inherit_cpuset(self, folder: Path) -> None:
        """Under version 1 a new cgroup has no CPUs and memory nodes; under version 2 it has its parent's."""
        if self._hierarchies.version == 1 and (folder / "cpuset.mems").exists():
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not (folder / name).read_text().strip():
                    _write(folder / name, (folder.parent / name).read_text().strip())


def _enable_controllers(folder: Path) -> None:
    """Enable version 2's controllers for a cgroup's children."""
    available = set((folder / "cgroup.controllers").read_text().split())
    if absent := set(CONTROLLERS) - available:
        raise CgroupError(
            f"{folder}/cgroup.controllers lacks {', '.join(sorted(absent))}: "
            "the lab needs a machine, or a container, whose cgroups have these controllers"
        )
    there = (*CONTROLLERS, *({IO} & available))
    _write(folder / "cgroup.subtree_control", " ".join(f"+{controller}" for controller in there))


def _removed(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    return True


def remove_abandoned() -> None:
    """Remove all cgroups below /virtscope that have no owner; raises `CgroupError`."""
    hierarchies = mounted()
    for folder in (hierarchies.roots[0] / PARENT).glob("*/"):
        with contextlib.suppress(CgroupError, FileNotFoundError):
            os.close(lock(folder, 0))
            Cgroup(folder.name, hierarchies).remove()


def lock(folder: Path, seconds: float = LOCK_SECONDS) -> int:
    """A descriptor that holds the cgroup's lock; raises `CgroupError` if others keep it locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def locked() -> bool:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True

    if not wait_until(locked, seconds, not_yet=(BlockingIOError,)):
        os.close(descriptor)
        raise CgroupError(f"{folder} is in use by another run on this machine: wait for it")
    return descriptor


def _write(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"writing {value!r} to {file}") from None
