"""A program that takes commands, a line each on its standard input, and says when each is done.

busy SECONDS SHARE    computes for that share of the time
fault PAGES           touches so many pages for the first time
switch TIMES          gives the CPU to a child and gets it back, so many times
cpu NUMBER            does all that follows on this CPU
"""

from __future__ import annotations

import mmap
import os
import sys
import time

_SLICE = 0.05  # seconds in which a share is kept


def busy(seconds: float, share: float) -> None:
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        while time.monotonic() < begun + _SLICE * share:
            pass
        time.sleep(max(begun + _SLICE - time.monotonic(), 0))


def fault(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # else one fault could bring 512 of them
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


def switch(times: int) -> None:
    (to_read, to), (back_read, back) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for _ in range(times):
            os.read(to_read, 1)
            os.write(back, b"x")
        os._exit(0)
    for _ in range(times):
        os.write(to, b"x")
        os.read(back_read, 1)
    os.waitpid(child, 0)
    for pipe in (to_read, to, back_read, back):
        os.close(pipe)


def main() -> None:
    for line in sys.stdin:
        match line.split():
            case ["busy", seconds, share]:
                busy(float(seconds), float(share))
            case ["fault", pages]:
                fault(int(pages))
            case ["switch", times]:
                switch(int(times))
            case ["cpu", number]:
                os.sched_setaffinity(0, {int(number)})
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
