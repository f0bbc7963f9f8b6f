"""vzlist, vzctl's program: asked in the background, as it reads every container's configuration."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from prometheus_client import Metric

from virtscope.openvz import vzlist
from virtscope.openvz.vzlist import Field
from virtscope.toolkit.background import Background
from virtscope.toolkit.commands import Commands
from virtscope.toolkit.families import gauge
from virtscope.toolkit.sources import SourceError, SourceUnavailable

TIMEOUT = 20.0  # seconds for each run; a second is usual on a host of hundreds


class Vzlist:
    """Asks vzlist of running containers, from start() to close(); it gives figures to root alone."""

    def __init__(self, interval: float) -> None:
        """Ask each `interval` seconds, and early when there is a new container."""
        self._commands = Commands(TIMEOUT)
        self._woken_for: set[str] = set()
        self.background = Background("vzlist", self._ask, interval, lambda: self._commands.cpu_seconds)

    def start(self) -> None:
        """Begin asking."""
        self.background.start()

    def close(self) -> None:
        """End asking, and what is being run."""
        self.background.close()
        self._commands.close()

    def origin(self) -> str:
        """Return the program's path."""
        return shutil.which("vzlist") or "vzlist"

    def read(self) -> list[Metric]:
        """Return what belongs to no container; raises as Background.latest() does."""
        refused = sum(field.refused for field in self.background.latest().values())
        return [gauge("openvz_vzlist_refused_rows", "Lines of vzlist that could not be understood.", refused)]

    def describe(self, living: Sequence[str]) -> list[Metric]:
        """Return what is known of the living containers; nothing while vzlist has told nothing young enough."""
        fields = self.background.peek()
        if fields is None:
            return []
        strangers = {ctid for ctid in living if not any(ctid in field.values for field in fields.values())}
        if strangers - self._woken_for:  # once for each: a container may have neither name, host name nor template
            self.background.wake()
        self._woken_for = strangers
        return vzlist.families(fields, living)

    def _ask(self) -> dict[str, Field]:
        """Return each field that this vzlist knows.

        Raises SourceUnavailable where there is no vzlist or it refuses to serve, SourceTimeout where it hangs, and
        SourceError where it fails.
        """
        program = shutil.which("vzlist")
        if not program:
            raise SourceUnavailable("vzlist is not in PATH, so containers' names are not known; install vzctl")
        fields: dict[str, Field] = {}
        problem = ""
        for name in vzlist.LABELS:
            finished = self._commands.run(program, "-H", "-o", f"veid,{name}")
            problem = finished.problem()
            if not problem:
                fields[name] = vzlist.parse(finished.output)
            elif " root" in problem:
                raise SourceUnavailable(f"vzlist tells containers' names to root alone: it {problem}")
            elif "field" not in problem:  # if it is, this one is too new for it
                raise SourceError(f"vzlist -H -o veid,{name} {problem}")
        if not fields:
            raise SourceError(f"vzlist knows no field that is asked for: it {problem}")
        return fields
