"""The lab's commands: `python -m lab --help`."""

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "exporters"))  # for its parsers of xl and vestat

from lab import run
from lab.report import command as report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab", description="Experiments of the studies, and their reports.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run.add_to(commands)
    report.add_to(commands)
    arguments = parser.parse_args()
    status: int = arguments.func(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
