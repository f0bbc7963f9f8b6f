"""Changes files one line at a time, and shows changes that no test notices: make mutants.

    python -m tools.mutants             a sample of each file's mutants
    python -m tools.mutants PATH ...    all mutants of these files

Exits with 1 if fewer than 90 % are killed, if a survivor isn't in equivalent.yml, or if equivalent.yml has an obsolete
entry.
"""

import argparse
import sys

from tools.mutants.judges import BAR, judges
from tools.mutants.judging import JudgesError
from tools.mutants.trial import SAMPLE, Trials, Verdict, stale


def main() -> int:
    parser = argparse.ArgumentParser(description="Change files one line at a time; show which changes no test notices.")
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="all mutants of these files, not a sample of every one"
    )
    paths: list[str] = parser.parse_args().paths
    if unknown := set(paths) - judges().keys():
        parser.error(f"tools/mutants/judges.py names no tests of {' '.join(sorted(unknown))}")
    chosen = {file: tests for file, tests in judges().items() if not paths or file in paths}
    verdicts: list[Verdict] = []
    try:
        with Trials() as trials:
            for file, tests in chosen.items():
                verdicts.append(trials.of(file, tests, None if paths else SAMPLE))
                print(verdicts[-1], flush=True)
    except JudgesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    mutants = sum(verdict.mutants for verdict in verdicts)
    killed = sum(verdict.killed for verdict in verdicts)
    survived = sum(len(verdict.survivors) for verdict in verdicts)
    print(f"{killed} of {mutants} mutants killed, {killed / (mutants or 1):.1%}; {survived} survived unexplained")
    gone = stale()
    print(*gone, sep="\n", end="", file=sys.stderr)
    return 1 if survived or gone or killed < BAR * mutants else 0


if __name__ == "__main__":
    sys.exit(main())
