"""A load that reads a disk."""

SCRIPT = """
# Reads blocks of a disk at random, past the page cache, with some threads.
import mmap, os, random, sys, threading
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
blocks = os.lseek(disk, 0, os.SEEK_END) // 4096
def read():
    buffer = mmap.mmap(-1, 4096)
    while True:
        os.preadv(disk, [buffer], 4096 * random.randrange(blocks))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=read).start()
"""
