"""Series as OpenMetrics, in files that promtool converts to blocks."""

import itertools
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

# Its name with labels, and Unix times with values.
Series = tuple[str, Iterable[tuple[int, object]]]
_FILES = 2  # in parallel: promtool uses little more than one CPU for each
_FEW = 100  # series for which a second promtool isn't worthwhile


def write(folder: Path, series: Iterable[Series]) -> list[Path]:
    """Write series to files, and return these; none if there are no series."""
    wanted = list(series)
    number = min(len(wanted), _FILES if len(wanted) > _FEW else 1)
    files = [folder / f"samples-{each}.om" for each in range(number)]
    with ExitStack() as at_end:
        opened = [at_end.enter_context(file.open("w", encoding="utf-8")) for file in files]
        for out, (name, values) in zip(itertools.cycle(opened), wanted, strict=False):
            out.writelines(f"{name} {value} {at}\n" for at, value in values)
        for out in opened:
            out.write("# EOF\n")
    return files


def blocks(promtool: Path, files: list[Path], data: Path) -> None:
    """Convert files to blocks in Prometheus's data folder, and delete them.

    Raises CalledProcessError with promtool's output if it fails.
    """
    # By default blocks are of two hours, and promtool reads the whole file again for each.
    command: list[str | Path] = [
        promtool,
        "tsdb",
        "create-blocks-from",
        "--max-block-duration=720h",
        "openmetrics",
        "--quiet",
    ]
    pipe = subprocess.PIPE
    with ExitStack() as at_end:
        running = [
            subprocess.Popen([*command, file, data], stdout=pipe, stderr=subprocess.STDOUT, text=True) for file in files
        ]
        for process in running:
            at_end.enter_context(process)
        for process in running:
            said, _ = process.communicate()
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, process.args, said)
    for file in files:
        file.unlink()
