"""vzlist, vzctl's program: containers' names, host names and templates, which the kernel doesn't know.

It is asked in the background, as it reads every container's configuration.

Format: print_one_ve() in src/vzlist.c of vzctl, OpenVZ's and Virtuozzo's. A line for each container, its id first. Only
the last field of a line can be distinguished from the others: names hold blanks, and fields before it may be cut to 32
bytes. So each field is asked for on its own; `-j`, where there is one, doesn't escape quotes.

By hand: `vzlist -H -o veid,name`, and likewise `hostname` and `ostemplate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.bounded import Commands, Programs
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.families import Info, Labels, family

TIMEOUT = 20.0  # seconds for each run; a second is usual on a host of hundreds

# The label of each field. An old vzlist doesn't know them all: names came with 3.0.11, templates with 3.0.24.
LABELS = {"name": "name", "hostname": "hostname", "ostemplate": "template"}

_ROW = re.compile(r" *([0-9]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?: +(.*))?")
_NONE = {"", "-", "(null)"}


class Field(NamedTuple):
    """A field of all containers that have one, by ctid, and how many lines were malformed."""

    values: Mapping[str, str]
    refused: int


def parse(output: bytes) -> Field:
    """Return what `vzlist -H -o veid,FIELD` printed; never fails. Bytes that aren't UTF-8 are given as \\xNN."""
    values: dict[str, str] = {}
    refused = 0
    for line in output.decode("utf-8", "backslashreplace").split("\n"):
        row = _ROW.fullmatch(line.rstrip())
        if not row:
            refused += bool(line.strip())
        elif (row[2] or "") not in _NONE:
            values[row[1]] = row[2]
    return Field(values, refused)


def families(fields: Mapping[str, Field], living: Iterable[str]) -> list[Metric]:
    """Return an info metric of those living containers of which a field is known; a label is "" where there is none."""
    described = [
        {"ctid": ctid, **{LABELS[name]: field.values.get(ctid, "") for name, field in fields.items()}}
        for ctid in living
        if any(ctid in field.values for field in fields.values())
    ]
    metric: Info[Labels] = Info("openvz_container", "Name, host name and template of the container, from vzlist.")
    return [metric.family([({}, labels) for labels in described])]


class Vzlist:
    """Asks vzlist of running containers, from start() to close(); it answers to root alone."""

    def __init__(self, interval: float, programs: Programs | None = None) -> None:
        """Ask each `interval` seconds, and early when there is a new container; by `programs`, if it isn't here."""
        self._commands = programs or Commands(TIMEOUT)
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
        return self._commands.find("vzlist") or "vzlist"

    def read(self) -> list[Metric]:
        """Return what belongs to no container; raises as Background.latest() does."""
        refused = sum(field.refused for field in self.background.latest().values())
        metric = "openvz_vzlist_refused_rows", "Malformed lines in what vzlist printed."
        return [family(*metric, [({}, refused)])]

    def describe(self, living: Sequence[str]) -> list[Metric]:
        """Return what is known of the living containers; nothing while there is no recent answer."""
        fields = self.background.peek()
        if fields is None:
            return []
        strangers = {ctid for ctid in living if not any(ctid in field.values for field in fields.values())}
        if strangers - self._woken_for:  # once for each: a container may have neither name, host name nor template
            self.background.wake()
        self._woken_for = strangers
        return families(fields, living)

    def _ask(self) -> dict[str, Field]:
        """Return each field that this vzlist knows.

        Raises SourceUnavailable where there is no vzlist or it refuses to serve, SourceTimeout where it hangs, and
        SourceError where it fails.
        """
        program = self._commands.find("vzlist")
        if not program:
            raise SourceUnavailable("vzlist is not in PATH, so containers' names are not known; install vzctl")
        fields: dict[str, Field] = {}
        problem = ""
        for name in LABELS:
            finished = self._commands.run(program, "-H", "-o", f"veid,{name}")
            problem = finished.problem()
            if not problem:
                fields[name] = parse(finished.output)
            elif " root" in problem:
                raise SourceUnavailable(f"vzlist shows containers' names to root alone: it {problem}")
            elif "field" not in problem:  # if it is, this one is too new for it
                raise SourceError(f"vzlist -H -o veid,{name} {problem}")
        if not fields:
            raise SourceError(f"vzlist knows no field that is asked for: it {problem}")
        return fields
