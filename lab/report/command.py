"""The commands that write a report: of a run, or of external results of benchmark suites."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy import StackError
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.programs import CHECKOUT
from lab import LabError
from lab.prometheus import Prometheus
from lab.report import allocation, consolidation, factors, network, recorded, suites
from lab.report.page import Page
from lab.report.recorded import Recording

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


def _written(collect: Callable[[argparse.Namespace], tuple[Recording, Path]], arguments: argparse.Namespace) -> int:
    """Write a report and print its summary; returns the exit status: 1 without a run, Prometheus or a file."""
    try:
        recording, folder = collect(arguments)
        page = STUDIES[recording.study](recording)
        file = page.write(folder)
    except (LabError, StackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([*page.verdict, "", f"Report: {file}, and as Markdown beside it"]))
    return 0


def _of_run(arguments: argparse.Namespace) -> tuple[Recording, Path]:
    prometheus = Prometheus(arguments.prometheus or f"http://127.0.0.1:{ports_in_use()[PROMETHEUS.name]}")
    run = recorded.find_run(prometheus, arguments.run)
    recording = recorded.collect(prometheus, run, time.time())
    if not recording.measurements:
        raise LabError(f"run {run.name} has not measured a step yet")
    return recording, arguments.output or REPORTS / run.name


def _of_files(arguments: argparse.Namespace) -> tuple[Recording, Path]:
    return suites.of_files(arguments.files), arguments.output
