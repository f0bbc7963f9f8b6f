"""A load that reads a disk."""

SCRIPT = """
# Reads blocks of a disk at random, past the page cache, with some threads.
import mmap, os, random, sys, threading, time
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
blocks = os.lseek(disk, 0, os.SEEK_END) // 4096
end = time.monotonic() + 900
def read():
    buffer = mmap.mmap(-1, 4096)
    while time.monotonic() < end:
        os.preadv(disk, [buffer], 4096 * random.randrange(blocks))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=read).start()
"""
