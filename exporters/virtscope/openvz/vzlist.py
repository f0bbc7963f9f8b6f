"""vzlist, a program of vzctl: containers' names, host names and templates, which the kernel doesn't know.

It runs in the background, because it reads every container's configuration.

Format: print_one_ve() in src/vzlist.c of vzctl, OpenVZ's and Virtuozzo's. A line for each container, its id first.
Names contain blanks, and all fields but the last may be truncated to 32 bytes, so each field needs its own call. `-j`,
if supported, doesn't escape quotes.

By hand: `vzlist -H -o veid,name`, or `hostname` or `ostemplate` instead of `name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.bounded import Commands, Programs
from virtscope.toolkit.collect import Background, SourceError, SourceUnavailable
from virtscope.toolkit.families import info, scalar

TIMEOUT = 20.0  # seconds per run; usually one on a host of hundreds

# The label of each field. Names need vzlist 3.0.11, templates 3.0.24.
LABELS = {"name": "name", "hostname": "hostname", "ostemplate": "template"}

_ROW = re.compile(r" *([0-9]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?: +(.*))?")
_NONE = {"", "-", "(null)"}


class Field(NamedTuple):
    """A field of all containers by ctid, and the number of malformed lines."""

    values: Mapping[str, str]
    refused: int


def parse(output: bytes) -> Field:
    """Parse the output of `vzlist -H -o veid,FIELD`; never fails. Invalid UTF-8 becomes \\xNN."""
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
    """Return an info metric of the running containers with a known field; unknown labels are ""."""
    described = [
        {"ctid": ctid, **{LABELS[name]: field.values.get(ctid, "") for name, field in fields.items()}}
        for ctid in living
        if any(ctid in field.values for field in fields.values())
    ]
    text = "Name, host name and template of the container, from vzlist."
    return [info("openvz_container_info", text, described)]


class Vzlist:
    """Polls vzlist for running containers; needs root."""

    def __init__(self, interval: float, programs: Programs | None = None) -> None:
        """Poll each `interval` seconds, earlier for a new container; `programs` runs it on another host."""
        self._commands = programs or Commands(TIMEOUT)
        self.background = Background("vzlist", self._ask, interval, self._commands)

    def origin(self) -> str:
        """Return the program's path."""
        return self._commands.find("vzlist") or "vzlist"

    def read(self) -> list[Metric]:
        """Return the metrics of no container; raises like Background.latest()."""
        refused = sum(field.refused for field in self.background.latest().values())
        return [scalar("openvz_vzlist_refused_rows", "Malformed lines of vzlist's output.", refused)]

    def describe(self, living: Sequence[str]) -> list[Metric]:
        """Return the running containers' names; none without a recent answer."""
        fields = self.background.peek()
        if fields is None:
            return []
        # Some containers have neither name, host name nor template.
        self.background.wake_for(set(living).difference(*[field.values for field in fields.values()]))
        return families(fields, living)

    def _ask(self) -> dict[str, Field]:
        """Return each field that this vzlist supports.

        Raises SourceUnavailable if vzlist is missing or refuses, SourceTimeout if it hangs, and SourceError if it
        fails.
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
            elif "field" not in problem:  # as root, this vzlist doesn't support the field
                raise SourceError(f"vzlist -H -o veid,{name} {problem}")
        if not fields:
            raise SourceError(f"vzlist knows no field that is asked for: it {problem}")
        return fields
