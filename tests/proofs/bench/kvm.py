"""A simulated KVM host: processes and threads with QEMU's names that do almost nothing.

Reading them costs as much as on a real host; only the guests' CPU time is missing.
"""

import os
import subprocess
from pathlib import Path
from typing import Self

THREADS = 8  # per guest, including the main thread
VCPUS = 2

# Each vCPU wakes up ten times a second, so that its values change between scrapes.
_SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static void *thread(void *name) {
    struct timespec rest = {0, 100000000};
    pthread_setname_np(pthread_self(), name);
    if (((char *)name)[0] != 'C') for (;;) pause();
    for (;;) nanosleep(&rest, 0);
}
int main(void) {
    static char *names[] = {%s};
    pthread_attr_t small;
    pthread_t each;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++) pthread_create(&each, &small, thread, names[n]);
    for (;;) pause();
}
"""


class Qemus:
    """Runs `count` guests until the `with` block ends; the program is compiled into a folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self._program = folder / "qemu-system-x86_64"
        self._count = count
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        names = [f"CPU {number}/KVM" for number in range(VCPUS)] + ["call_rcu", "IO mon_iothread", "IO iothread1"]
        names += ["worker"] * (THREADS - 1 - len(names))
        source = _SOURCE % ", ".join(f'"{name}"' for name in names)
        compiler = ["cc", "-x", "c", "-", "-O1", "-pthread", "-o", str(self._program)]
        subprocess.run(compiler, input=source.encode(), check=True)
        self._interfaces("add {} mode tap")
        for number in range(self._count):
            words = ["-name", f"guest=guest{number},debug-threads=on", "-machine", "q35", "-accel", "kvm"]
            words += ["-smp", str(VCPUS), "-m", "4096", "-netdev", f"tap,id=net0,ifname={_interface(number)}"]
            self._running.append(subprocess.Popen([str(self._program), *words]))
        return self

    def tasks(self) -> list[Path]:
        """The folders of all their threads."""
        return [task for process in self._running for task in Path(f"/proc/{process.pid}/task").iterdir()]

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait(30)
        self._interfaces("delete {} mode tap")

    def _interfaces(self, what: str) -> None:
        """Run the block with a tap per guest, because no two may share one; needs root."""
        if os.geteuid() == 0:
            lines = "".join(f"tuntap {what.format(_interface(number))}\n" for number in range(self._count))
            subprocess.run(["ip", "-force", "-batch", "-"], input=lines.encode(), check=True)


def _interface(number: int) -> str:
    return f"vsbench{number}"
