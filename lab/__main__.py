"""The lab's commands: `python -m lab --help`."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "exporters"))  # for its parsers of xl and vestat

from deploy import StackError
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.programs import CHECKOUT
from lab import LabError, run, scenario
from lab.prometheus import Prometheus
from lab.report import allocation, consolidation, controller, factors, network, recorded, suites
from lab.report.page import Page
from lab.report.recorded import Recording

REPORTS = CHECKOUT / ".stack" / "lab" / "reports"
REPORT: Mapping[str, Callable[[Recording], Page]] = {
    "consolidation": consolidation.write_up,
    "allocation": allocation.write_up,
    "controller": controller.write_up,
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


def main() -> int:
    """Run a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab", description="Experiments of the studies, and their reports.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("run", help="run a scenario and write its report", description=run.__doc__)
    command.add_argument(
        "scenario", metavar="SCENARIO", help=f"{', '.join(scenario.shipped())}, or a path to a .yml file"
    )
    command.add_argument("--new", action="store_true", help="start over, even if the latest run is unfinished")
    command.add_argument("--dry-run", action="store_true", help="print the steps and what they would change, no more")
    command.set_defaults(func=run.main)
    command = commands.add_parser("report", help="write the report of a run, from what Prometheus recorded")
    command.add_argument("run", nargs="?", metavar="RUN", help="its name; without, the newest run")
    command.add_argument("--prometheus", metavar="URL", help="where it was recorded; default: the stack's own")
    command.add_argument("--output", metavar="DIR", type=Path, help="where to write; default: .stack/lab/reports/RUN")
    command.set_defaults(func=_written, collect=_of_run)
    command = commands.add_parser(
        "suites", help="write the report of benchmark results that were made elsewhere", description=OF_FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument("files", nargs="+", metavar="[ENVIRONMENT=]FILE", help="results, as above")
    command.add_argument("--output", metavar="DIR", type=Path, required=True, help="where the report goes")
    command.set_defaults(func=_written, collect=lambda given: (suites.of_files(given.files), given.output))
    arguments = parser.parse_args()
    status: int = arguments.func(arguments)
    return status


def _written(arguments: argparse.Namespace) -> int:
    """Write a report and print its summary; returns the exit status: 1 without a run, Prometheus or a file."""
    try:
        recording, folder = arguments.collect(arguments)
        page = REPORT[recording.study](recording)
        file = page.write(folder)
    except (LabError, StackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join([*page.verdict, "", f"Report: {file}, and as Markdown beside it"]))
    return 0


def _of_run(arguments: argparse.Namespace) -> tuple[Recording, Path]:
    prometheus = Prometheus(arguments.prometheus or f"http://127.0.0.1:{ports_in_use()[PROMETHEUS.name]}")
    found = recorded.find_run(prometheus, arguments.run)
    recording = recorded.collect(prometheus, found, time.time())
    if not recording.measurements:
        raise LabError(f"run {found.name} has not measured a step yet")
    return recording, arguments.output or REPORTS / found.name


if __name__ == "__main__":
    sys.exit(main())
