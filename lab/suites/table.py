"""Results of benchmark suites as a table of comma-separated values: a study's, or anybody's in the same columns.

    suite,group,test,unit,better,environment,run1,run2,run3,run4,run5,mean,stddev
    lmbench,processor_processes,fork proc,microseconds,lower,host,105.00,97.50,95.70,106.00,103.00,101.44,4.59

There may be any number of runs; an empty one has no value. Mean and sample standard deviation (n - 1) may be absent.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab import LabError
from lab.measurements import Measurement
from lab.suites.rows import HIGHER, LOWER, Test, number

COLUMNS = ("suite", "group", "test", "unit", "better", "environment")


class TableError(LabError):
    """A table that can't be read; the message has file, line and column."""


@dataclass(frozen=True)
class Published:
    """A test in an environment: its runs, in their order, and what is printed of them."""

    test: Test
    environment: str
    runs: tuple[float | None, ...]
    mean: float | None
    deviation: float | None


def parse(text: str, file_name: str) -> tuple[Published, ...]:
    """The rows of a table; raises `TableError`."""
    reader = csv.reader(io.StringIO(text), strict=True)
    found: dict[tuple[str, str], Published] = {}
    try:
        head = next(reader, [])
        runs = [name for name in head if re.fullmatch(r"run\d{1,4}", name, re.ASCII)]
        if absent := [name for name in (*COLUMNS, *([] if runs else ["run1"])) if name not in head]:
            raise _ProblemError(f"the columns lack {', '.join(absent)}")
        if len(set(head)) < len(head):
            raise _ProblemError("a column is there twice")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(head):
                raise _ProblemError(f"{len(cells)} cells in place of {len(head)}")
            row = _row(dict(zip(head, cells, strict=True)), runs)
            if (row.test.key, row.environment) in found:
                raise _ProblemError(f"{row.test.name} in {row.environment} is there twice")
            found[row.test.key, row.environment] = row
    except csv.Error as error:
        raise TableError(f"{file_name}:{reader.line_num}: is no line of comma-separated values: {error}") from None
    except _ProblemError as error:
        raise TableError(f"{file_name}:{reader.line_num}: {error}") from None
    return tuple(found.values())


class _ProblemError(Exception):
    """What is wrong with the line that was just read."""


def _row(cells: Mapping[str, str], runs: Sequence[str]) -> Published:
    for name in COLUMNS:
        if not cells[name].strip() or (name in {"suite", "group"} and "/" in cells[name]):
            raise _ProblemError(f"{name}: {cells[name]!r} is empty or has a /")
    if cells["better"] not in {LOWER, HIGHER}:
        raise _ProblemError(f"better: {cells['better']!r} is neither {LOWER} nor {HIGHER}")
    values = {name: number(cells[name]) for name in (*runs, "mean", "stddev") if cells.get(name)}
    for name, value in values.items():
        if value is None or (value == 0 and name != "stddev"):
            raise _ProblemError(f"{name}: {cells[name]!r} is not a number above 0")
    better = LOWER if cells["better"] == LOWER else HIGHER
    return Published(
        Test(cells["suite"], cells["group"], cells["test"], cells["unit"], better),
        cells["environment"],
        tuple(values.get(name) for name in runs),
        values.get("mean"),
        values.get("stddev"),
    )


def measurements(rows: tuple[Published, ...]) -> tuple[Measurement, ...]:
    """The runs as measurements; what virtualises an environment, and whether it is emulated, a table doesn't say."""
    return tuple(
        Measurement(row.environment, "", False, row.test.key, row.test.unit, row.test.better, repetition, value)
        for row in rows
        for repetition, value in enumerate(row.runs, 1)
        if value is not None
    )
