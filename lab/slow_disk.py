"""A disk that serves each request for the same time, one after the other or side by side: nbdkit below a loop device.

Needs root. What of it belongs to the kernel ends with `release`, also by the guard of a killed lab.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which

from lab import LabError, wait_until
from lab.cgroups import unescaped
from lab.processes import Process, output

_FROM = {"nbdkit": "nbdkit", "nbdfuse": "libnbd-bin", "fusermount3": "fuse3"}  # Debian's package of each program
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
    loops = [
        f"/dev/{backing.parts[-3]}"
        for backing in Path("/sys/block").glob("loop*/loop/backing_file")
        if backing.read_text().startswith(below)
    ]
    points = re.findall(r"^(?:\S+ ){4}(\S+) ", Path("/proc/self/mountinfo").read_text(), re.MULTILINE)
    for point in reversed([unescaped(point) for point in points]):  # the last mounted one first
        if point.startswith(below):
            _run("umount", "--lazy", point)  # also if its server is gone
    for device in loops:
        _run("losetup", "--detach", device)


def _await(file: Path, server: Process) -> None:
    def there() -> bool:
        server.check()
        return file.exists()

    if not wait_until(there, _SECONDS):
        raise server.failure(f"hasn't made {file} within {_SECONDS:g} s")


def _run(*command: str | Path) -> str:
    return output(str(command[0]), command, _SECONDS)
