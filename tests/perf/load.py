"""A load that reads commands from standard input, one per line, and reports when each is done.

busy SECONDS SHARE    computes for this share of the time
fault PAGES           touches this many pages for the first time
switch TIMES          switches to a child and back this many times
cpu NUMBER            runs everything after it on this CPU
"""

import mmap
import os
import sys
import time

_SLICE = 0.05  # seconds; the share is kept within each slice


def busy(seconds: float, share: float) -> None:
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        while time.monotonic() < begun + _SLICE * share:
            pass
        time.sleep(max(begun + _SLICE - time.monotonic(), 0))


def fault(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # otherwise one fault could map 512 of them
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
