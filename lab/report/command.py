"""`python -m lab report [RUN] [--prometheus URL] [--output DIR]`: the report of a run."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from lab import LabError
from lab.prometheus import Prometheus
from lab.report.collection import collect, find_run
from lab.report.document import write_up
from lab.report.rendering import write
from lab.report.study import load
from tools import StackError, stack
from tools.parts import PROMETHEUS
from tools.programs import CHECKOUT

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
    run = find_run(prometheus, run_name)
    document = write_up(collect(prometheus, run, time.time()), load(), prometheus.url)
    page = write(document, folder or REPORTS / run.name)
    return "\n".join([*document.verdict, "", f"Report: {page}, and as Markdown beside it"])
