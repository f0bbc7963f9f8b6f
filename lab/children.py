"""Programs that the lab runs beside the applications: not on the applications' CPUs, and they end with the lab."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.programs import CHECKOUT
from lab import LabError

STOP_SECONDS = 10.0
LOG_LINES = 5


class Child:
    """A running program. If it `talks`, it exchanges lines of text through `process.stdin` and `process.stdout`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        cpus: str,
        environment: Mapping[str, str] | None = None,
        niceness: int = 0,
        talks: bool = False,
    ) -> None:
        """Start it in the checkout, on these CPUs (such as "0-2"); its standard error goes to `log`."""
        self.name = name
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                # --pdeathsig: if the lab is killed, they end too.
                [
                    *("setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", cpus, "nice", "-n", str(niceness)),
                    *map(str, command),
                ],
                cwd=CHECKOUT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else file,
                stderr=file,
                text=True,
                start_new_session=True,  # Ctrl-C is for the lab, which then stops them
            )

    def check(self) -> None:
        """Raise `LabError` if it has ended by itself."""
        status = self.process.poll()
        if status is not None:
            raise self.failure(f"has ended with status {status}")

    def failure(self, what: str) -> LabError:
        """The error to raise about it, with the end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        end = "; its log ends:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return LabError(f"{self.name} {what}{end}")

    def stop(self) -> None:
        """Stop it, by force if it doesn't end in time."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
