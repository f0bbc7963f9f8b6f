"""The commands that write a report: of a run, or of external results of benchmark suites."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy import StackError
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.programs import CHECKOUT
from lab import LabError
from lab.metrics import Measurement
from lab.prometheus import Prometheus
from lab.report import allocation, consolidation, factors, network, recorded, suites
from lab.report.page import Page
from lab.report.recorded import Recording
from lab.report.rendering import write
from lab.suites import table
from lab.suites.rows import OutputError

REPORTS = CHECKOUT / ".stack" / "lab" / "reports"
STUDIES: Mapping[str, Callable[[Recording], Page]] = {
    "consolidation": consolidation.write_up,
    "allocation": allocation.write_up,
    "factors": factors.write_up,
    "network": network.write_up,
    "suites": suites.write_up,
}
OF_FILES = """`python -m lab suites FILE...`: the report of benchmark results that were made elsewhere.

    python -m lab suites base=host.0 base=host.1 xen=guest.0 --output DIR
    python -m lab suites results.csv

ENVIRONMENT=FILE is what a suite has printed there: lmbench's results file, UnixBench's report, nbench's output,
stress-ng's --yaml; files of the same environment and suite are repetitions. Any other FILE is a table with the
columns of lab/report/studies/fisher2012.csv. The others are compared with the environment `base` or `host`.
"""


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "report", help="write the report of a run, from what Prometheus recorded"
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="its name; without, the newest run")
    parser.add_argument("--prometheus", metavar="URL", help="where it was recorded; default: the stack's own")
    parser.add_argument("--output", metavar="DIR", type=Path, help="where to write; default: .stack/lab/reports/RUN")
    parser.set_defaults(func=lambda arguments: _written(_of_run, arguments))
    parser = commands.add_parser(
        "suites",
        help="write the report of benchmark results that were made elsewhere",
        description=OF_FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="[ENVIRONMENT=]FILE", help="results, as above")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="where the report goes")
    parser.set_defaults(func=lambda arguments: _written(_of_files, arguments))


def _written(make: Callable[[argparse.Namespace], tuple[Page, Path]], arguments: argparse.Namespace) -> int:
    """Write a report and print its summary; returns the exit status: 1 without a run, Prometheus or a file."""
    try:
        content, folder = make(arguments)
        page = write(content, folder)
    except (LabError, StackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([*content.verdict, "", f"Report: {page}, and as Markdown beside it"]))
    return 0


def _of_run(arguments: argparse.Namespace) -> tuple[Page, Path]:
    prometheus = Prometheus(arguments.prometheus or f"http://127.0.0.1:{ports_in_use()[PROMETHEUS.name]}")
    run = recorded.find_run(prometheus, arguments.run)
    recording = recorded.collect(prometheus, run, time.time())
    if not recording.measurements:
        raise LabError(f"run {run.name} has not measured a step yet")
    return STUDIES[run.study](recording), arguments.output or REPORTS / run.name


def _of_files(arguments: argparse.Namespace) -> tuple[Page, Path]:
    return suites.of_files(tuple(measurements(arguments.files)), arguments.files), arguments.output


def measurements(files: Sequence[str]) -> Iterator[Measurement]:
    """The measurements in files from the command line; raises `LabError` with the file's name, and `OSError`."""
    seen: Counter[tuple[str, str]] = Counter()
    for file in files:
        environment, is_output, name = file.partition("=")
        if not is_output or Path(file).is_file():
            yield from table.measurements(table.parse(Path(file).read_text(errors="replace"), file))
            continue
        try:
            rows = table.parse_output(Path(name).read_text(errors="replace"))
        except OutputError as error:
            raise LabError(f"{name}: {error}") from None
        seen.update((environment, suite) for suite in {row.test.suite for row in rows})
        for of, value in rows:
            repetition = seen[environment, of.suite]
            yield Measurement(environment, "", False, of.key, of.unit, of.better, repetition, value)
