"""Makes the mistakes of listed.yml, one at a time, and shows unnoticed ones: make mutants-listed.

    python -m tools.mutants.listed [--only REGEX]

Each is tried in a copy of the checkout, with the tests that must notice it: pytest's, or promtool's for rules.
Dashboards' JSON is generated first. Exits with 1 for an unnoticed mistake, or if its text isn't exactly once in its
file.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml

from deploy.programs import CHECKOUT
from tools.mutants.judging import Cost, Court, JudgesError
from tools.mutants.mutant import Mutant, plain

LIST = Path(__file__).with_name("listed.yml")
WRITTEN = {"dashboards/": ("-m", "dashboards.build")}  # generators of files from Python below a folder


@dataclass(frozen=True)
class Mistake:
    """An entry of the list; `killed_by` are paths of tests, below the checkout."""

    file: str
    text: str
    instead: str
    why: str
    killed_by: tuple[str, ...]

    @property
    def mutant(self) -> Mutant:
        """The file with the mistake; JudgesError unless its text occurs exactly once."""
        original = (CHECKOUT / self.file).read_text()
        if original.count(self.text) != 1:
            raise JudgesError(f"{self.file} has this {original.count(self.text)} times, not once: {self.text!r}")
        return Mutant(
            self.file, original, plain(self.text), self.instead, lambda: original.replace(self.text, self.instead)
        )

    @property
    def writer(self) -> tuple[str, ...]:
        """The arguments for Python to generate files from this file; empty if there are none."""
        return next((how for folder, how in WRITTEN.items() if self.file.startswith(folder)), ())


def listed() -> list[Mistake]:
    """All entries, in the order of the file."""
    areas = yaml.safe_load(LIST.read_text())
    return [
        Mistake(entry["file"], entry["text"], entry["instead"], entry["why"], tuple(entry["killed by"]))
        for entries in areas.values()
        for entry in entries
    ]


def is_noticed(mistake: Mistake, court: Court, costs: dict[str, Cost]) -> bool:
    """Whether one of its tests fails with the mistake. Raises JudgesError."""
    mutant = mistake.mutant
    return any(court.kills(mutant, [test], costs[test], mistake.writer) for test in mistake.killed_by)


def tried(mistakes: Sequence[Mistake], at_once: int = 2) -> list[bool]:
    """Whether each is noticed; all tests must pass without mistakes first. Raises JudgesError."""
    for mistake in mistakes:
        _ = mistake.mutant
    with ExitStack() as stack:
        courts: SimpleQueue[Court] = SimpleQueue()
        for _ in range(at_once):
            courts.put(stack.enter_context(Court()))
        pool = stack.enter_context(ThreadPoolExecutor(at_once))

        def cost(test: str) -> Cost:
            court = courts.get()
            try:
                return court.cost([test])
            finally:
                courts.put(court)

        def notice(mistake: Mistake) -> bool:
            court = courts.get()
            try:
                noticed = is_noticed(mistake, court, costs)
            finally:
                courts.put(court)
            print(f"{'noticed  ' if noticed else 'UNNOTICED'} {mistake.file}: {mistake.why}", flush=True)
            return noticed

        tests = sorted({test for mistake in mistakes for test in mistake.killed_by})
        costs = dict(zip(tests, pool.map(cost, tests), strict=True))
        return list(pool.map(notice, mistakes))


def main() -> int:
    parser = argparse.ArgumentParser(description="Make listed mistakes, and show those that no test notices.")
    parser.add_argument("--only", default="", metavar="REGEX", help="those whose file or reason has this")
    only = parser.parse_args().only
    mistakes = [mistake for mistake in listed() if re.search(only, f"{mistake.file} {mistake.why}")]
    try:
        noticed = tried(mistakes)
    except (JudgesError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{sum(noticed)} of {len(mistakes)} mistakes noticed")
    for mistake, well in zip(mistakes, noticed, strict=True):
        if not well:
            print(f"\n{mistake.why}\n{mistake.mutant.diff()}\nby none of {' '.join(mistake.killed_by)}")
    return 0 if all(noticed) else 1


if __name__ == "__main__":
    sys.exit(main())
