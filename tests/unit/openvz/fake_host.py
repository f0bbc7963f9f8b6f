"""Files of /proc/vz as printed by OpenVZ's kernels, for made-up containers."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import Metric

from virtscope.openvz.vestat import COLUMNS, Row

WIDTHS_32 = [10] * 5 + [20] * 6 + [10]
WIDTHS_64 = [20] * 12


def row(ctid: str, seconds: int, *, hz: int = 1000, per_second: int = 10**9, waits: int = 0) -> Row:
    """A container with this uptime that used half a CPU: 4/10 in user mode, 1/100 nice, the rest system."""
    jiffies, ticks = seconds * hz, seconds * per_second
    user, nice = jiffies // 5, jiffies // 200
    system = jiffies // 2 - user - nice
    wait = per_second // 5000  # 0.2 ms
    return Row(
        ctid, user, nice, system, jiffies, ticks * 3 // 2, 0, ticks, ticks // 2, wait * bool(waits), wait * waits, waits
    )


def vestat(rows: Iterable[Row], widths: list[int] = WIDTHS_64) -> str:
    """/proc/vz/vestat, with the version line padded as by the kernel."""
    lines = [
        " ".join(f"{value:>{width}}" for value, width in zip(line, widths, strict=True)) for line in (COLUMNS, *rows)
    ]
    return "\n".join(["Version: 2.2".ljust(sum(widths) + 11), *lines, ""])


def stats(cycles_per_jiffy: int, jiffies_per_second: int) -> str:
    return (
        f"Version: 2.6\ncycles_per_jiffy: {cycles_per_jiffy}\njiffies_per_second: {jiffies_per_second}\n"
        "\nLoad avg: 0.31 0.27 0.20\n  VEs: 3\n  Processes: R 1, S 122, D 0, Z 0, T 0, X 0\n"
    )


def write(procfs: Path, **files: str) -> None:
    (procfs / "vz").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (procfs / "vz" / name).write_text(text)


def exposed(families: Iterable[Metric], prefix: str) -> dict[tuple[str, ...], float]:
    """Every sample: by name without the prefix, and label values."""
    return {
        (sample.name.removeprefix(prefix), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
