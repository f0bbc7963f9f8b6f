"""Results of benchmark suites from elsewhere: their own output, or comma-separated values in the study's columns.

    suite,group,test,unit,better,environment,run1,run2,run3,run4,run5,mean,stddev
    lmbench,processor_processes,fork proc,microseconds,lower,host,105.00,97.50,95.70,106.00,103.00,101.44,4.59

The number of runs may vary; an empty one has no value. Mean and standard deviation may be absent.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import LabError
from lab.metrics import Measurement
from lab.suites import outputs
from lab.suites.rows import HIGHER, LOWER, OutputError, Test

COLUMNS = ("suite", "group", "test", "unit", "better", "environment", "run1")


@dataclass(frozen=True)
class Published:
    test: Test
    environment: str
    runs: tuple[float | None, ...]
    mean: float | None


def parse(text: str, file_name: str) -> tuple[Published, ...]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    found: dict[tuple[str, str], Published] = {}
    try:
        if absent := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise ValueError(f"the columns lack {', '.join(absent)}")
        for cells in reader:
            row = _row(cells)
            if found.setdefault((row.test.key, row.environment), row) is not row:
                raise ValueError(f"{row.test.name} in {row.environment} is there twice")
    except (csv.Error, ValueError) as error:
        raise LabError(f"{file_name}:{reader.reader.line_num}: {error}") from None
    return tuple(found.values())


def _row(cells: Mapping[str | None, str | None]) -> Published:
    """Raises `ValueError`."""
    if None in cells or None in cells.values():
        raise ValueError("has more or fewer cells than the first line")
    of = {str(name): str(cell).strip() for name, cell in cells.items()}
    for name in COLUMNS[:-1]:
        if not of[name] or (name in {"suite", "group"} and "/" in of[name]):
            raise ValueError(f"{name}: {of[name]!r} is empty or has a /")
    if of["better"] not in {LOWER, HIGHER}:
        raise ValueError(f"better: {of['better']!r} is neither {LOWER} nor {HIGHER}")
    test = Test(of["suite"], of["group"], of["test"], of["unit"], HIGHER if of["better"] == HIGHER else LOWER)
    runs = [_number(name, cell) for name, cell in of.items() if re.fullmatch(r"run\d+", name, re.ASCII)]
    return Published(test, of["environment"], tuple(runs), _number("mean", of.get("mean", "")))


def _number(name: str, cell: str) -> float | None:
    if not cell:
        return None
    try:
        if 0 < (value := float(cell)) < math.inf:
            return value
    except ValueError:
        pass
    raise ValueError(f"{name}: {cell!r} is not a number above 0")


def measurements(rows: Sequence[Published]) -> Iterator[Measurement]:
    """The runs as measurements; a table lacks the environments' virtualization, and whether they are emulated."""
    for row in rows:
        for repetition, value in enumerate(row.runs, 1):
            if value is not None:
                yield _measurement(row.environment, row.test, repetition, value)


def read(files: Sequence[str]) -> Iterator[Measurement]:
    """The measurements in files from the command line; raises `LabError` with the file's name, and `OSError`."""
    seen: Counter[tuple[str, str]] = Counter()
    for file in files:
        environment, is_output, name = file.partition("=")
        if not is_output or Path(file).is_file():
            yield from measurements(parse(Path(file).read_text(errors="replace"), file))
            continue
        try:
            rows = outputs.parse(Path(name).read_text(errors="replace"))
        except OutputError as error:
            raise LabError(f"{name}: {error}") from None
        seen.update((environment, suite) for suite in {row.test.suite for row in rows})
        for test, value in rows:
            yield _measurement(environment, test, seen[environment, test.suite], value)


def _measurement(environment: str, test: Test, repetition: int, value: float) -> Measurement:
    return Measurement(environment, "", False, test.key, test.unit, test.better, repetition, value)
