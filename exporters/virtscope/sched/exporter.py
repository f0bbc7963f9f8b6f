"""Exposes run-queue wait by victim and by what ran meanwhile: containers, KVM guests, systemd units."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from prometheus_client import Metric

from virtscope.sched import privileges, top
from virtscope.sched.counting import Counting, add_flags
from virtscope.sched.metrics import families
from virtscope.sched.privileges import PrivilegesError
from virtscope.toolkit import cli
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import GlobError
from virtscope.toolkit.scrape import Exporter, Source

log = logging.getLogger(__name__)

DEFAULT_PORT = 10298


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `top`, until it is stopped; exits with 1 and one line on error."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["top"]:
        top.main(arguments[1:])
        return
    known_flags = cli.parser("sched-exporter", __doc__, DEFAULT_PORT)
    known_flags.epilog = "To see who waits for whom in this terminal: sched-exporter top --help"
    add_flags(known_flags)
    given = cli.start(known_flags, arguments)
    try:
        source = _source(given)
    except (GlobError, PrivilegesError) as error:
        sys.exit(f"sched-exporter: {error}")
    cli.serve(Exporter("sched", [source]), given)


def _source(given: argparse.Namespace) -> Source:
    """Load the program, or return why that failed; then drop all capabilities that aren't needed any more.

    The program is loaded once, before other threads start; without the capabilities it can't be loaded later.
    """
    try:
        counting = Counting(given)
    except SourceError as error:
        privileges.keep_only(0)
        log.warning("waits can't be measured", extra={"fields": {"why": error}})
        return _absent(error)
    privileges.keep_only(counting.needed())
    return Source("sched_switch", lambda: families(*counting.read()), counting.origin, required=False)


def _absent(error: SourceError) -> Source:
    def read() -> list[Metric]:
        raise error.with_traceback(None)  # raising the same exception again would accumulate tracebacks

    return Source("sched_switch", read, str, required=False)
