"""Exposes to Prometheus what Xen's Dom0 knows of its domains."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from prometheus_client import Metric

from virtscope import __version__
from virtscope.shell import flags, logs
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.server import Server, serve_until_stopped
from virtscope.shell.webconfig import WebConfig, WebConfigError
from virtscope.xentop import metrics, model
from virtscope.xentop.source.libxenstat import Libxenstat

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    flags_given = flags.parser("xentop-exporter", __doc__, DEFAULT_PORT).parse_args(arguments)
    logs.configure(flags_given.log_level, flags_given.log_format)
    log.info("starting xentop-exporter", extra={"fields": {"version": __version__}})
    try:
        web = WebConfig.load(flags_given.web_config_file) if flags_given.web_config_file else None
    except WebConfigError as error:
        sys.exit(f"xentop-exporter: {error}")
    library = Libxenstat(flags_given.sysfs)

    def read() -> list[Metric]:
        return metrics.families(model.from_libxenstat(library.read()))

    exporter = Exporter("xentop", [Source("libxenstat", read, library.origin)], flags_given.procfs)
    try:
        server = Server(flags_given.listen_address, flags_given.telemetry_path, web, exporter)
    except OSError as error:
        address = flags.address_text(*flags_given.listen_address)
        sys.exit(f"xentop-exporter: can't listen on {address}: {error.strerror}; choose another --web.listen-address")
    serve_until_stopped(server)
