"""`python -m lab report [RUN] [--prometheus URL] [--output DIR]`: the report of a run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab import LabError
from lab.factors import scenario as factors
from lab.network import scenario as network
from lab.prometheus import Prometheus
from lab.report import collection, document, measurements, queries, runs, study
from lab.report.allocation import document as allocation_document
from lab.report.allocation import recording as allocation_recording
from lab.report.allocation import study as allocation_study
from lab.report.allocation.recording import AllocationRun
from lab.report.document import Document
from lab.report.factors import document as factors_document
from lab.report.measurements import MeasuredRun, Recording
from lab.report.network import document as network_document
from lab.report.rendering import write
from lab.report.runs import Run
from lab.report.suites import document as suites_document
from lab.suites import scenario as suites
from tools import StackError, stack
from tools.parts import PROMETHEUS
from tools.programs import CHECKOUT

AnyRun = Run | AllocationRun | MeasuredRun
# The studies whose steps end in measurements, and what writes up their runs.
MEASURED: Mapping[str, Callable[[Recording, str], Document]] = {
    factors.STUDY: factors_document.write_up,
    network.STUDY: network_document.write_up,
    suites.STUDY: suites_document.write_up,
}
REPORTS = CHECKOUT / ".stack" / "lab" / "reports"


def add_to(commands: Any) -> None:
    """Add the subcommand to argparse's; `func` of its arguments runs it and returns the exit status."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report", help="write the report of a run, from what Prometheus recorded", description=__doc__
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="its name; without, the newest run")
    parser.add_argument(
        "--prometheus", metavar="URL", help="where it was recorded; default: the stack's own, on 127.0.0.1"
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, help="where the files go; default: .stack/lab/reports/RUN"
    )
    parser.set_defaults(func=main)


def main(arguments: argparse.Namespace) -> int:
    """Return the exit status: 0 if the report was written, 1 if there is no run or no Prometheus."""
    try:
        url = arguments.prometheus or f"http://127.0.0.1:{stack.ports_in_use()[PROMETHEUS.name]}"
        print(report(arguments.run, url, arguments.output))
    except (LabError, StackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def report(run_name: str | None, url: str, folder: Path | None = None) -> str:
    """Write the report of a run, or of the newest, and return a summary to print. Raises `LabError`."""
    prometheus = Prometheus(url)
    found: list[AnyRun] = [
        *runs.runs(prometheus.recorded(queries.RUNS)),
        *allocation_recording.runs(prometheus.recorded(allocation_recording.RUNS)),
        *(run for study in MEASURED for run in measurements.runs(prometheus.recorded(measurements.runs_of(study)))),
    ]
    run = collection.choose(sorted(found, key=lambda run: run.start, reverse=True), run_name, prometheus.url)
    content = _content(prometheus, run)
    page = write(content, folder or REPORTS / run.name)
    return "\n".join([*content.verdict, "", f"Report: {page}, and as Markdown beside it"])


def _content(prometheus: Prometheus, run: AnyRun) -> Document:
    now = time.time()
    match run:
        case AllocationRun():
            recording = allocation_recording.collect(prometheus, run, now)
            return allocation_document.write_up(recording, allocation_study.load(), prometheus.url)
        case MeasuredRun():
            return MEASURED[run.study](measurements.collect(prometheus, run, now), prometheus.url)
        case Run():
            return document.write_up(collection.collect(prometheus, run, now), study.load(), prometheus.url)
