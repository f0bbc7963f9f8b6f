"""Fetch the stack's programs: python3 -m deploy.programs [--update]."""

import argparse
import sys

from deploy import programs
from deploy.programs import ProgramsError, catalogue

STACK = (catalogue.PROMETHEUS, catalogue.ALERTMANAGER, catalogue.NODE_EXPORTER)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m deploy.programs", description="Fetch the stack's programs.")
    parser.add_argument("--update", action="store_true", help="look again for releases, and for newer packages")
    arguments = parser.parse_args()
    try:
        if arguments.update:
            programs.update()
        programs.get(*STACK)
        for suite in catalogue.SUITES:
            found = programs.got(suite)
            if found is not None:
                why = f" ({found.because})" if found.because else ""
                print(f"{suite.title:14} {found.version:24} {found.source}{why}")
    except (ProgramsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
