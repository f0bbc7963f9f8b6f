"""A real Prometheus with samples written by a test."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.program import program_path
from tests.support.prometheus import Prometheus


@contextlib.contextmanager
def backfilled(folder: Path, *samples: str) -> Iterator[Prometheus]:
    """The project's Prometheus over blocks that promtool makes of these samples in OpenMetrics's format."""
    prometheus = Prometheus(folder, {})
    file = folder / "samples.om"
    file.write_text("".join(samples) + "# EOF\n")
    promtool = str(program_path("promtool"))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(file), str(prometheus.folder / "data")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    with prometheus:
        yield prometheus
