"""`python -m lab suites FILE...`: the report of benchmark results that were made elsewhere.

    python -m lab suites base=host.0 base=host.1 xen=guest.0 --output DIR
    python -m lab suites results.csv

ENVIRONMENT=FILE is what a suite has printed there: lmbench's results file or summary, UnixBench's report, nbench's
output, stress-ng's --yaml; files of the same environment and suite are repetitions. Any other FILE is a table with the
columns of lab/report/suites/fisher2012.csv. The environment `base` or `host` is that with which the others
are compared.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab import LabError
from lab.measurements import Measurement
from lab.report.rendering import write
from lab.report.suites import published
from lab.report.suites.document import of_files
from lab.suites import outputs
from lab.suites.rows import OutputError


def add_to(commands: Any) -> None:
    """Add the subcommand to argparse's; `func` of its arguments runs it and returns the exit status."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "suites",
        help="write the report of benchmark results that were made elsewhere",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="[ENVIRONMENT=]FILE", help="results, as above")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="where the report goes")
    parser.set_defaults(func=main)


def main(arguments: argparse.Namespace) -> int:
    """Return the exit status: 0 if the report was written, 1 if a file can't be used."""
    try:
        content = of_files(tuple(measurements(arguments.files)), arguments.files)
        page = write(content, arguments.output)
    except (LabError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([*content.verdict, "", f"Report: {page}, and as Markdown beside it"]))
    return 0


def measurements(files: Sequence[str]) -> Iterator[Measurement]:
    """What is measured in files as on the command line; raises `LabError` with the file's name, and `OSError`."""
    seen: Counter[tuple[str, str]] = Counter()
    for file in files:
        environment, is_output, name = file.partition("=")
        if not is_output or Path(file).is_file():
            yield from published.measurements(published.parse(_text(Path(file)), file))
            continue
        try:
            runs = outputs.parse(_text(Path(name)))
        except OutputError as error:
            raise LabError(f"{name}: {error}") from None
        for run in runs:
            suites = {row.test.suite for row in run}
            seen.update((environment, suite) for suite in suites)
            for row in run:
                of, repetition = row.test, seen[environment, row.test.suite]
                yield Measurement(environment, "", False, of.key, of.unit, of.better, repetition, row.value)


def _text(file: Path) -> str:
    return file.read_text(errors="replace")
