"""A disk that serves each request for the same time, one after the other or side by side: nbdkit below a loop device.

Needs root. `release` ends its mounts and its loop device; for a killed lab, the guard calls it.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which

from lab import LabError, wait_until
from lab.cgroups import unescaped
from lab.processes import Process, output

_FROM = {  # Debian's package of each program
    "nbdkit": "nbdkit", "nbdfuse": "libnbd-bin", "fusermount3": "fuse3", "losetup": "mount", "mkfs.ext4": "e2fsprogs",
}  # fmt: skip
_SECONDS = 60.0  # for each program, on a busy machine


def why_not_here() -> str | None:
    """The remedy if this machine lacks the programs."""
    packages = [package for program, package in _FROM.items() if which(program) is None]
    return f"needs: apt-get install --no-install-recommends {' '.join(packages)}" if packages else None


@contextlib.contextmanager
def slow_disk(
    folder: Path, seconds: float, *, mebibytes: int = 64, parallel: bool = False, runs_as: Sequence[str | Path] = ()
) -> Iterator[Path]:
    """Its device, such as /dev/loop0, until the end of the block; `folder` is its own. Raises `LabError`.

    runs_as: begins the command of its programs, such as with taskset.
    """
    if reason := why_not_here():
        raise LabError(f"a slow disk {reason}")
    socket, server = folder / "socket", folder / "server"
    server.mkdir(parents=True)
    delays = [f"{what}={round(seconds * 1000)}ms" for what in ("rdelay", "wdelay")]
    order = ([], []) if parallel else (["--filter=noparallel"], ["serialize=all-requests"])
    memory = [*order[0], "--filter=delay", "memory", f"{mebibytes}M", *delays, *order[1]]
    with contextlib.ExitStack() as at_end:
        serving = [*runs_as, "nbdkit", "--foreground", "--unix", socket, *memory]
        _await(socket, at_end.enter_context(Process("nbdkit", serving)))
        showing = [*runs_as, "nbdfuse", server, f"nbd+unix:///?socket={socket}"]
        fuse = at_end.enter_context(Process("nbdfuse", showing))
        at_end.callback(release, folder)
        _await(server / "nbd", fuse)
        device = _run("losetup", "--find", "--show", "--direct-io=on", server / "nbd").strip()
        yield Path(device)


def mount(device: Path, folder: Path) -> None:
    """An empty file system of this device; `release` ends it. Raises `ProgramError`."""
    folder.mkdir()
    _run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0", device)
    _run("mount", "-o", "noatime", device, folder)


def write_back(folder: Path) -> None:
    """Write to the disk what the kernel keeps of its files; raises `ProgramError`."""
    _run("sync", "--file-system", folder)


def release(folder: Path) -> None:
    """Unmount everything below this folder, and detach the loop devices of files there; raises `ProgramError`."""
    below = f"{folder}/"
    mountinfo = Path("/proc/self/mountinfo").read_text()
    mounts = [
        (unescaped(point), source)
        for point, source in re.findall(r"^(?:\S+ ){4}(\S+) .* - \S+ (\S+) ", mountinfo, re.MULTILINE)
        if unescaped(point).startswith(below)
    ]
    loops = {source for _, source in mounts if source.startswith("/dev/loop")}
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # another's, detached just now
            loops |= {f"/dev/{backing.parts[-3]}"} if backing.read_text().startswith(below) else set()
    for device in loops:  # first, as their files' names disappear with the mounts
        _run("losetup", "--detach", device)  # takes effect once it is unmounted
    for point, _ in reversed(mounts):  # the last mounted one first
        _run("umount", "--lazy", point)  # also if its server is gone


def _await(file: Path, server: Process) -> None:
    def there() -> bool:
        server.check()
        return file.exists()

    if not wait_until(there, _SECONDS):
        raise server.failure(f"hasn't made {file} within {_SECONDS:g} s")


def _run(*command: str | Path) -> str:
    return output(str(command[0]), command, _SECONDS)
