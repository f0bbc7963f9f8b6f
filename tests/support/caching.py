"""A load that keeps a file in the page cache, or tries to."""

SCRIPT = """
# Reads a file again and again, and prints a line after each pass; rests after each MiB.
import os, sys, time
file, rest = os.open(sys.argv[1], os.O_RDONLY), float(sys.argv[2])
size = os.fstat(file).st_size
while True:
    for at in range(0, size, 1 << 20):
        os.pread(file, 1 << 20, at)
        if rest:
            time.sleep(rest)
    print(flush=True)
"""
