"""Exposes to Prometheus what an OpenVZ host knows of its containers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import Metric

from virtscope import __version__
from virtscope.shell import flags, logs
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.server import Server, serve_until_stopped
from virtscope.shell.webconfig import WebConfig, WebConfigError
from virtscope.vestat import beancounters, ioacct, metrics
from virtscope.vestat.source.vz import Vz

log = logging.getLogger(__name__)

DEFAULT_PORT = 10291


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    flags_given = flags.parser("vestat-exporter", __doc__, DEFAULT_PORT).parse_args(arguments)
    logs.configure(flags_given.log_level, flags_given.log_format)
    log.info("starting vestat-exporter", extra={"fields": {"version": __version__}})
    try:
        web = WebConfig.load(flags_given.web_config_file) if flags_given.web_config_file else None
    except WebConfigError as error:
        sys.exit(f"vestat-exporter: {error}")
    procfs = Path(flags_given.procfs)
    vz = Vz(procfs)

    def read_vz() -> list[Metric]:
        return metrics.families(vz.read())

    def read_beancounters() -> list[Metric]:
        return beancounters.families(beancounters.read(procfs))

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
    exporter = Exporter("vestat", sources)
    try:
        server = Server(flags_given.listen_address, flags_given.telemetry_path, web, exporter)
    except OSError as error:
        address = flags.address_text(*flags_given.listen_address)
        sys.exit(f"vestat-exporter: can't listen on {address}: {error.strerror}; choose another --web.listen-address")
    serve_until_stopped(server)
