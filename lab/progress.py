"""A run's progress for the user: a bar with the time left on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

TICK_SECONDS = 1.0


class Course:
    def __init__(self, planned_seconds: float, console: Console) -> None:
        self._planned = max(planned_seconds, 1.0)
        self._done = 0.0
        self._console = console
        self._bar = Progress(
            # The plan is exact to the second, so the time left needn't be estimated.
            *(BarColumn(), TextColumn("{task.fields[left]} left"), TextColumn("{task.description}")),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            refresh_per_second=1 / TICK_SECONDS,  # rich's default is ten times, which would disturb the measurement
        )
        self._task = self._bar.add_task("", total=self._planned, left=self._left())

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        left = "" if self._console.is_terminal else f"  ({self._left()} left)"
        self._console.print(f"{text}{left}", highlight=False, markup=False, soft_wrap=not self._console.is_terminal)

    def doing(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def pass_time(self, seconds: float, check: Callable[[], None]) -> None:
        before, start = self._done, time.monotonic()
        while (passed := time.monotonic() - start) < seconds:
            self.reach(before + passed)
            check()
            time.sleep(min(TICK_SECONDS, max(0.0, seconds - (time.monotonic() - start))))
        self.reach(before + seconds)

    def reach(self, planned_seconds: float) -> None:
        self._done = min(planned_seconds, self._planned)
        self._bar.update(self._task, completed=self._done, left=self._left())

    def _left(self) -> str:
        seconds = round(self._planned - self._done)
        return f"{seconds // 60} min {seconds % 60:02} s" if seconds >= 60 else f"{seconds} s"
