"""A disk that serves each request for the same time, one after the other or side by side: nbdkit below a loop device.

Needs root.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.needs import lacking
from tests.support.waiting import wait_for

MIB = 64


def why_not_here() -> str | None:
    """The remedy if this machine lacks the programs."""
    return lacking(nbdkit="nbdkit", nbdfuse="nbdfuse", fuse3="fusermount3", mount="losetup")


@contextlib.contextmanager
def slow_disk(folder: Path, milliseconds: int, *, parallel: bool = False) -> Iterator[str]:
    """Its name, such as loop0, until the end of the block; `folder` is its own."""
    socket, mounted = folder / "socket", folder / "mounted"
    mounted.mkdir(parents=True)
    delay = [f"{what}={milliseconds}ms" for what in ("rdelay", "wdelay")]
    order = ([], []) if parallel else (["--filter=noparallel"], ["serialize=all-requests"])
    memory = [*order[0], "--filter=delay", "memory", f"{MIB}M", *delay, *order[1]]
    with contextlib.ExitStack() as at_end:
        server = subprocess.Popen(["nbdkit", "--foreground", "--unix", str(socket), *memory])
        at_end.callback(_end, server)
        wait_for(socket.exists, every=0.05)
        fuse = subprocess.Popen(["nbdfuse", mounted, f"nbd+unix:///?socket={socket}"])
        at_end.callback(_end, fuse)
        file = mounted / "nbd"
        wait_for(file.exists, every=0.05)
        at_end.callback(_run, "fusermount3", "-u", "-z", mounted)
        device = _run("losetup", "--find", "--show", "--direct-io=on", file).strip()
        at_end.callback(_run, "losetup", "--detach", device)
        yield Path(device).name


def _run(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)
