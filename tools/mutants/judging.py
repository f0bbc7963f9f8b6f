"""Runs the tests of mutants in a copy of the checkout with the changed file."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from deploy import programs
from deploy.programs import CHECKOUT, cache
from tools.mutants.mutant import Mutant

PATIENCE = 4  # limit for a mutant's tests: PATIENCE times the duration without it, plus MIN_SECONDS seconds
MIN_SECONDS = 5
LONGEST = 600  # seconds, limit for tests without a mutant


class JudgesError(Exception):
    """Tests fail without any change; the message names them."""


class Cost(NamedTuple):
    """The duration of tests; on a busy machine, CPU time distinguishes an endless loop from waiting."""

    seconds: float
    cpu_seconds: float


class Court:
    """A copy of the checkout, uncommitted changes included, for as long as the `with` block."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="virtscope-mutants-")
        self.root = Path(self._folder.name)

    def __enter__(self) -> Self:
        listed = subprocess.run(
            ["git", "-C", CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, copy = CHECKOUT / name, self.root / name
            if source.is_file():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)
        # Makes results reproducible, and prevents use of another mutant's byte code.
        fixed = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "VIRTSCOPE_CACHE": str(cache("."))}
        self._pytest = subprocess.Popen(
            [sys.executable, "-m", "tools.mutants.forks"],
            cwd=self.root, env={**os.environ, **fixed}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pytest.kill()
        self._pytest.communicate()
        self._folder.cleanup()

    def cost(self, tests: Sequence[str]) -> Cost:
        """The cost of these tests without any change. Raises `JudgesError`."""
        began = time.monotonic()
        passed, cpu_seconds = self._run(tests, Cost(LONGEST, LONGEST), keep=True)
        if not passed:
            raise JudgesError(f"these tests fail without any change: {' '.join(tests)}")
        return Cost(time.monotonic() - began, cpu_seconds)

    def kills(self, mutant: Mutant, tests: Sequence[str], usual: Cost, writer: Sequence[str] = ()) -> bool:
        """Whether these tests fail or don't end with the mutant; `usual` is their cost without it.

        `writer`: arguments for Python to generate files from the changed file, in the copy.
        """
        changed = self.root / mutant.file
        changed.write_text(mutant.text)
        most = Cost(*(MIN_SECONDS + PATIENCE * seconds for seconds in usual))
        try:
            return not (self._writes(writer) and self._run(tests, most, keep=False)[0])
        finally:
            shutil.copy2(CHECKOUT / mutant.file, changed)
            self._writes(writer)

    def _writes(self, writer: Sequence[str]) -> bool:
        """Whether the writer succeeds, or there is none."""
        return (
            not writer
            or not subprocess.run(
                [sys.executable, "-B", *writer], cwd=self.root, capture_output=True, check=False, timeout=LONGEST
            ).returncode
        )

    def _run(self, tests: Sequence[str], most: Cost, *, keep: bool) -> tuple[bool, float]:
        """Whether they pass, and pytest's CPU seconds."""
        if tests[0].endswith(".yml"):
            return self._promtool_passes(tests, most.seconds), 0
        assert self._pytest.stdin
        assert self._pytest.stdout
        limits = {"seconds": most.seconds, "cpu_seconds": math.ceil(most.cpu_seconds)}
        print(json.dumps({"tests": tests, "keep": keep, **limits}), file=self._pytest.stdin, flush=True)
        status, cpu_seconds = self._pytest.stdout.readline().split()
        return int(status) == 0, float(cpu_seconds)

    def _promtool_passes(self, tests: Sequence[str], seconds: float) -> bool:
        """Run the files one by one, to stop at a failure: promtool itself continues."""
        command = [str(programs.path("promtool")), "test", "rules"]
        for test in tests:
            try:
                subprocess.run([*command, test], cwd=self.root, capture_output=True, check=True, timeout=seconds)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return False
        return True
