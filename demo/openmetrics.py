"""Series as OpenMetrics, in files that promtool converts to blocks."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Its name with labels, and Unix times with values.
Series = tuple[str, Iterable[tuple[int, object]]]
_FILES = 2  # in parallel: promtool uses little more than one CPU for each
_FEW = 100  # series for which a second promtool isn't worthwhile


def series_name(metric: str, labels: Mapping[str, str]) -> str:
    """A series in OpenMetrics's notation; empty labels are left out."""
    inner = (f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in sorted(labels.items()) if value)
    return f"{metric}{{{','.join(inner)}}}"


def write(folder: Path, series: Iterable[Series]) -> list[Path]:
    """Write series to files, and return these; none if there are no series."""
    wanted = list(series)
    number = min(len(wanted), _FILES if len(wanted) > _FEW else 1)
    files = [folder / f"samples-{each}.om" for each in range(number)]
    for each, file in enumerate(files):
        with file.open("w", encoding="utf-8") as out:
            for name, values in wanted[each::number]:
                out.writelines(f"{name} {value} {at}\n" for at, value in values)
            out.write("# EOF\n")
    return files


def blocks(promtool: Path, files: list[Path], data: Path) -> None:
    """Convert files to blocks in Prometheus's data folder, and delete them.

    Raises CalledProcessError with promtool's output if it fails.
    """
    # By default blocks are of two hours, and promtool reads the whole file again for each.
    options = ["--max-block-duration=720h", "openmetrics", "--quiet"]

    def convert(file: Path) -> None:
        command: list[str | Path] = [promtool, "tsdb", "create-blocks-from", *options, file, data]
        subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        file.unlink()

    with ThreadPoolExecutor(_FILES) as pool:
        list(pool.map(convert, files))
