"""A disk that serves one request after the other, each for the same time: nbdkit below a loop device. As root."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.needs import need
from tests.support.waiting import wait_for

MIB = 64


@contextlib.contextmanager
def serial_disk(folder: Path, milliseconds: int) -> Iterator[str]:
    """Its name, such as loop0, until the end of the block; `folder` is its own."""
    need(nbdkit="nbdkit", nbdfuse="nbdfuse", fuse3="fusermount3", mount="losetup")
    socket, mounted = folder / "socket", folder / "mounted"
    mounted.mkdir(parents=True)
    delay = [f"{what}={milliseconds}ms" for what in ("rdelay", "wdelay")]
    serve = ["nbdkit", "--foreground", "--unix", socket, "--filter=noparallel", "--filter=delay", "memory", f"{MIB}M"]
    with contextlib.ExitStack() as at_end:
        server = subprocess.Popen([str(word) for word in (*serve, *delay, "serialize=all-requests")])
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
