"""Exposes to Prometheus what Xen's Dom0 knows of its domains."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from prometheus_client import Metric

from virtscope.shell import flags, program
from virtscope.shell.exporter import Exporter, Source
from virtscope.shell.sources import SourceUnavailable
from virtscope.xentop import metrics, model, text
from virtscope.xentop.identity import Namesakes
from virtscope.xentop.source.libxenstat import Libxenstat
from virtscope.xentop.source.xentop import Xentop, find_xentop

log = logging.getLogger(__name__)

DEFAULT_PORT = 10290


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter until it is told to stop; exits with 1 and one line when it can't start."""
    known_flags = flags.parser("xentop-exporter", __doc__, DEFAULT_PORT)
    known_flags.add_argument(
        "--source",
        choices=["libxenstat", "xentop"],
        default=argparse.SUPPRESS,
        help="where the figures come from (default: libxenstat if it can be opened at the start, else xentop if it is "
        "installed)",
    )
    given = program.start(known_flags, arguments)
    with contextlib.ExitStack() as at_end:
        source = choose_source(getattr(given, "source", None), given.sysfs, at_end)
        program.serve(Exporter("xentop", [source], given.procfs), given)


def choose_source(wanted: str | None, sysfs: str, at_end: contextlib.ExitStack) -> Source:
    """Return the source that the user wants, or the best that can be used now; `at_end` ends what it started."""
    library = Libxenstat(sysfs)
    xentop = find_xentop()
    if wanted == "xentop" and not xentop:
        sys.exit("xentop-exporter: xentop is not in PATH; install Xen's tools (Debian: xen-utils)")
    if wanted is None and xentop:
        try:
            library.open()
        except SourceUnavailable as error:
            log.warning("libxenstat can't be used, so xentop is", extra={"fields": {"err": error}})
            wanted = "xentop"
    if wanted == "xentop" and xentop:
        child = Xentop(xentop)
        child.start()
        at_end.callback(child.close)
        return Source("xentop", TextReader(child).read, child.origin)
    return Source("libxenstat", lambda: metrics.families(model.from_libxenstat(library.read())), library.origin)


class TextReader:
    """Turns xentop's iterations into metric families, and keeps what that needs from one iteration to the next."""

    def __init__(self, child: Xentop) -> None:
        self._child = child
        self._namesakes = Namesakes()
        self._unknown_line_said = False

    def read(self) -> list[Metric]:
        """Return the families of the last whole iteration; raises SourceError as the child and the parser do."""
        iteration = self._child.read()
        host = text.parse(iteration.text)
        if host.unknown and not self._unknown_line_said:
            self._unknown_line_said = True
            log.warning(
                "xentop printed a line that is not understood", extra={"fields": {"line": host.unknown[0][:200]}}
            )
        told_apart = self._namesakes.tell_apart(model.from_text(host))
        return metrics.families(told_apart) + metrics.text_families(iteration, len(host.unknown))
