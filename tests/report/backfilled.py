"""A real Prometheus with samples written by a test."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.report.synthetic_run import SyntheticRun
from tests.support.program import program_path
from tests.support.prometheus import Prometheus


@contextlib.contextmanager
def backfilled(folder: Path, *runs: SyntheticRun) -> Iterator[Prometheus]:
    """The project's Prometheus over blocks that promtool makes of these runs, oldest first."""
    prometheus = Prometheus(folder, {})
    samples = folder / "samples.om"
    samples.write_text("".join(run.openmetrics() for run in runs) + "# EOF\n")
    promtool = str(program_path("promtool"))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(samples), str(prometheus.folder / "data")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    with prometheus:
        yield prometheus
