"""Results of benchmark suites from elsewhere: their own output, or comma-separated values in the study's columns.

    suite,group,test,unit,better,environment,run1,run2,run3,run4,run5,mean,stddev
    lmbench,processor_processes,fork proc,microseconds,lower,host,105.00,97.50,95.70,106.00,103.00,101.44,4.59

The number of runs may vary; an empty one has no value. Mean and sample standard deviation (n - 1) may be absent.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from lab import LabError
from lab.metrics import Measurement
from lab.suites import lmbench, outputs
from lab.suites.rows import HIGHER, LOWER, Better, OutputError, Row, Test, number

COLUMNS = ("suite", "group", "test", "unit", "better", "environment")


@dataclass(frozen=True)
class Published:
    test: Test
    environment: str
    runs: tuple[float | None, ...]
    mean: float | None
    deviation: float | None


def parse(text: str, file_name: str) -> tuple[Published, ...]:
    reader = csv.reader(io.StringIO(text), strict=True)
    found: dict[tuple[str, str], Published] = {}
    try:
        head = next(reader, [])
        runs = [name for name in head if re.fullmatch(r"run\d{1,4}", name, re.ASCII)]
        if absent := [name for name in (*COLUMNS, *([] if runs else ["run1"])) if name not in head]:
            raise ValueError(f"the columns lack {', '.join(absent)}")
        if len(set(head)) < len(head):
            raise ValueError("a column is there twice")
        for cells in filter(None, reader):
            if len(cells) != len(head):
                raise ValueError(f"{len(cells)} cells in place of {len(head)}")
            row = _row(dict(zip(head, cells, strict=True)), runs)
            if found.setdefault((row.test.key, row.environment), row) is not row:
                raise ValueError(f"{row.test.name} in {row.environment} is there twice")
    except csv.Error as error:
        raise LabError(f"{file_name}:{reader.line_num}: is no line of comma-separated values: {error}") from None
    except ValueError as error:
        raise LabError(f"{file_name}:{reader.line_num}: {error}") from None
    return tuple(found.values())


def _row(cells: Mapping[str, str], runs: Sequence[str]) -> Published:
    """Raises `ValueError`."""
    for name in COLUMNS:
        if not cells[name].strip() or (name in {"suite", "group"} and "/" in cells[name]):
            raise ValueError(f"{name}: {cells[name]!r} is empty or has a /")
    suite, group, test, unit, better, environment = (cells[name] for name in COLUMNS)
    if better not in get_args(Better):
        raise ValueError(f"better: {better!r} is neither {LOWER} nor {HIGHER}")
    values = {name: number(cells[name]) for name in (*runs, "mean", "stddev") if cells.get(name)}
    for name, value in values.items():
        if value is None or (value == 0 and name != "stddev"):
            raise ValueError(f"{name}: {cells[name]!r} is not a number above 0")
    of = Test(suite, group, test, unit, HIGHER if better == HIGHER else LOWER)
    return Published(
        of, environment, tuple(values.get(name) for name in runs), values.get("mean"), values.get("stddev")
    )


def measurements(rows: tuple[Published, ...]) -> tuple[Measurement, ...]:
    """The runs as measurements; a table lacks the environments' virtualization, and whether they are emulated."""
    return tuple(
        Measurement(row.environment, "", False, row.test.key, row.test.unit, row.test.better, repetition, value)
        for row in rows
        for repetition, value in enumerate(row.runs, 1)
        if value is not None
    )


def parse_output(text: str) -> tuple[Row, ...]:
    """The rows of a run in the output of any suite, recognised by its text; raises `OutputError`."""
    if "BYTEMARK" in text.upper():  # without its title, "ORIGINAL BYTEMARK RESULTS" is still there
        return outputs.nbench(text)
    if "BYTE UNIX Benchmarks" in text or "in system; running" in text:
        return outputs.unixbench(text)
    if re.search(r"^metrics:", text, re.MULTILINE):
        return outputs.stress_ng(text)
    if "[lmbench" in text:
        return lmbench.parse(text)
    first = next((line for line in text.split("\n") if line.strip()), "")
    raise OutputError(1, first, "begins no results of lmbench, UnixBench, nbench or stress-ng (--yaml)")
