"""A load that uses a CPU for as long as it is wanted."""

SCRIPT = """
# Ends by itself, should the test that started it hang: it may keep the kernel's own threads from a CPU.
import time
end = time.monotonic() + 240
while time.monotonic() < end:
    pass
"""
