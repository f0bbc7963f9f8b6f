"""Exposes to Prometheus what an OpenVZ host knows of its containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope.shell import flags, program
from virtscope.shell.exporter import Exporter, Source
from virtscope.vestat import beancounter_metrics, beancounters, ioacct, metrics
from virtscope.vestat.source.vz import Vz

DEFAULT_PORT = 10291


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    given = program.start(flags.parser("vestat-exporter", __doc__, DEFAULT_PORT), arguments)
    procfs = Path(given.procfs)
    vz = Vz(procfs)

    def read_vz() -> list[Metric]:
        return metrics.families(vz.read())

    resources = beancounters.Reader(procfs)
    shown = beancounter_metrics.Families()

    def read_beancounters() -> list[Metric]:
        return shown.of(resources.read())

    def read_ioacct() -> list[Metric]:
        # Kernels before 2.6.18 have beancounters, but no /proc/bc and nothing counted in it: no fault of theirs.
        old = (procfs / "user_beancounters").exists() and not (procfs / "bc").exists()
        return [] if old else ioacct.families(ioacct.read(procfs))

    sources = [
        Source("vestat", read_vz, vz.origin),
        Source("beancounters", read_beancounters, lambda: str(procfs)),
        Source("ioacct", read_ioacct, lambda: str(procfs / "bc")),
    ]

    # The exporter's own process is always below /proc, also where --path.procfs is a folder with another host's files.
    program.serve(Exporter("vestat", sources), given)
