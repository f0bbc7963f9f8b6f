"""A file of xentrace, built record by record."""

import struct

RUNNING, RUNNABLE, BLOCKED, OFFLINE = range(4)
IDLE = 0x7FFF


def on(cpu: int, *records: bytes) -> bytes:
    """xentrace's output for a CPU's buffer."""
    data = b"".join(records)
    return record(0x1F003, cpu, len(data)) + data


def change(tsc: int, domid: int, old: int, new: int, vcpu: int = 0) -> bytes:
    return record(0x21001 | old << 8 | new << 4, vcpu | domid << 16, tsc=tsc)


def goes_on(tsc: int, domid: int, vcpu: int = 0) -> bytes:
    return record(0x21002, vcpu | domid << 16, tsc=tsc)


def lost(tsc: int, count: int, since: int) -> bytes:
    return record(0x1F001, count, 0, since & 0xFFFFFFFF, since >> 32, tsc=tsc)


def record(event: int, *words: int, tsc: int | None = None) -> bytes:
    stamp = b"" if tsc is None else struct.pack("<Q", tsc)
    head = event | len(words) << 28 | (1 << 31 if stamp else 0)
    return struct.pack("<I", head) + stamp + struct.pack(f"<{len(words)}I", *words)
