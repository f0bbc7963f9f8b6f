"""A computational load in a closed loop: each task is the same amount of work, the next begins when it is done.

    python3 -m lab.allocation.load DESCRIPTOR

The descriptor is of shared memory that holds the number of finished tasks, which the lab reads.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import sys

LOAD = "SHA-256 without pause, by python3 -m lab.allocation.load"  # in words
COUNTER = struct.Struct("@Q")  # native: written and read as a whole
ROUNDS = 1000  # about half a millisecond of CPU, as a task of the study; hashing needs neither memory nor the kernel


def main() -> None:
    with mmap.mmap(int(sys.argv[1]), COUNTER.size) as memory:
        done = 0
        while True:
            hashlib.pbkdf2_hmac("sha256", b"virtscope", b"allocation", ROUNDS)
            done += 1
            COUNTER.pack_into(memory, 0, done)


class Count:
    """The lab's end of the counter."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("virtscope-tasks")
        os.ftruncate(self.descriptor, COUNTER.size)
        self._memory = mmap.mmap(self.descriptor, COUNTER.size)

    def read(self) -> int:
        """How many tasks are finished."""
        done: int = COUNTER.unpack_from(self._memory)[0]
        return done

    def close(self) -> None:
        """Release the lab's end."""
        self._memory.close()
        os.close(self.descriptor)


if __name__ == "__main__":
    main()
