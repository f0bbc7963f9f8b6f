"""Tries the mutants of a file, and collects the results."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from deploy.programs import CHECKOUT
from tools.mutants import code, rules
from tools.mutants.judging import Court
from tools.mutants.mutant import Mutant, equivalents

SAMPLE = 10
"""Number of mutants tried per file: all 6,000 would take hours, these a quarter of an hour."""


@dataclass
class Verdict:
    """The results of a file's mutants."""

    file: str
    killed: int
    equivalent: int
    survivors: list[Mutant]

    @property
    def mutants(self) -> int:
        """The number of mutants."""
        return self.killed + self.equivalent + len(self.survivors)

    def __str__(self) -> str:
        summary = f"{self.file}: {self.killed} of {self.mutants} killed, {self.equivalent} equivalent"
        return "\n".join([summary, *(mutant.diff() for mutant in self.survivors)])


class Trials:
    """Tries mutants on all CPUs, each with a copy of the checkout, made for the first file."""

    def __init__(self) -> None:
        self._known = equivalents()
        self._stack = ExitStack()
        self._courts: SimpleQueue[Court] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def of(self, file: str, tests: Sequence[str], sample: int | None = SAMPLE) -> Verdict:
        """Try a sample of a file's mutants (None: all) with its tests. Raises `JudgesError`."""
        pool = self._pool = self._pool or self._open()
        known = self._known.get(file, {})
        mutants = mutants_of(file)[:sample]
        doubtful = [mutant for mutant in mutants if mutant.change not in known]
        court = self._courts.get()
        usual = court.cost(tests)
        self._courts.put(court)

        def is_killed(mutant: Mutant) -> bool:
            court = self._courts.get()
            try:
                return court.kills(mutant, tests, usual)
            finally:
                self._courts.put(court)

        killed = list(pool.map(is_killed, doubtful))
        survivors = [mutant for mutant, dead in zip(doubtful, killed, strict=True) if not dead]
        return Verdict(file, sum(killed), len(mutants) - len(doubtful), survivors)

    def _open(self) -> ThreadPoolExecutor:
        cpus = os.cpu_count() or 1
        for _ in range(cpus):
            self._courts.put(self._stack.enter_context(Court()))
        return self._stack.enter_context(ThreadPoolExecutor(cpus))


def mutants_of(file: str) -> list[Mutant]:
    """All mutants of a file below the checkout, in the order of samples."""
    text = (CHECKOUT / file).read_text()
    found = code.mutants(file, text) if file.endswith(".py") else rules.mutants(file, text)
    return sorted(found, key=lambda mutant: mutant.order)


def stale() -> list[str]:
    """Entries of equivalent.yml whose file is gone, or whose line has changed."""
    gone = []
    for file, changes in equivalents().items():
        lines = {change.line.partition("\n")[0] for change in changes}
        there = (CHECKOUT / file).exists()
        found = {mutant.change for mutant in mutants_of(file) if mutant.line in lines} if there else set()
        gone += [f"equivalent.yml: {file} has no such mutant: {change}" for change in changes if change not in found]
    return gone
