"""Results of benchmark suites from elsewhere: their own output, or comma-separated values in the study's columns.

    suite,group,test,unit,better,environment,run1,run2,run3,run4,run5,mean,stddev
    lmbench,processor_processes,fork proc,microseconds,lower,host,105.00,97.50,95.70,106.00,103.00,101.44,4.59

The number of runs may vary; an empty one has no value. Mean and standard deviation may be absent. Results lack the
environments' virtualization, and whether they are emulated.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab import LabError
from lab.metrics import Measurement
from lab.suites import outputs
from lab.suites.rows import HIGHER, LOWER, OutputError

NAMES = ("suite", "group", "test", "unit", "better", "environment")
MEAN = 0  # the repetition of a printed mean


def parse(text: str, file_name: str) -> list[Measurement]:
    """A table's values, and its means as repetition `MEAN`; raises `LabError`."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    found: dict[tuple[str, str, int], Measurement] = {}
    try:
        if absent := [name for name in (*NAMES, "run1") if name not in (reader.fieldnames or ())]:
            raise ValueError(f"the columns lack {', '.join(absent)}")
        for cells in reader:
            for one in _of_line(cells):
                if found.setdefault((one.test, one.environment, one.repetition), one) is not one:
                    raise ValueError(f"{one.test} in {one.environment} is there twice")
    except (csv.Error, ValueError) as error:
        raise LabError(f"{file_name}:{reader.reader.line_num}: {error}") from None
    return list(found.values())


def _of_line(cells: Mapping[str | None, str | None]) -> Iterator[Measurement]:
    """Raises `ValueError`."""
    if None in cells or None in cells.values():
        raise ValueError("has more or fewer cells than the first line")
    of = {str(name): str(cell).strip() for name, cell in cells.items()}
    for name in NAMES:
        if not of[name] or (name in {"suite", "group"} and "/" in of[name]):
            raise ValueError(f"{name}: {of[name]!r} is empty or has a /")
    if of["better"] not in {LOWER, HIGHER}:
        raise ValueError(f"better: {of['better']!r} is neither {LOWER} nor {HIGHER}")
    test, more = "/".join((of["suite"], of["group"], of["test"])), (of["unit"], of["better"])
    for name, cell in of.items():
        if cell and (column := re.fullmatch(r"run(\d+)|mean", name, re.ASCII)):
            if not re.fullmatch(r"[\d.e+-]+", cell, re.ASCII) or not 0 < float(cell) < math.inf:
                raise ValueError(f"{name}: {cell!r} is not a number above 0")
            yield Measurement(of["environment"], "", False, test, *more, int(column[1] or MEAN), float(cell))


def read(files: Sequence[str]) -> Iterator[Measurement]:
    """The measurements in files from the command line; raises `LabError` with the file's name, and `OSError`."""
    seen: Counter[tuple[str, str]] = Counter()
    for file in files:
        environment, is_output, name = file.partition("=")
        if not is_output or Path(file).is_file():
            table = parse(Path(file).read_text(errors="replace"), file)
            yield from (one for one in table if one.repetition != MEAN)
            continue
        try:
            rows = outputs.parse(Path(name).read_text(errors="replace"))
        except OutputError as error:
            raise LabError(f"{name}: {error}") from None
        seen.update((environment, suite) for suite in {row.test.suite for row in rows})
        for row in rows:
            yield row.measured(environment, seen[environment, row.test.suite])
