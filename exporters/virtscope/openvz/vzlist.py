"""What vzlist tells of containers: their names, host names and templates, which the kernel doesn't know.

Format: print_one_ve() in src/vzlist.c of vzctl, OpenVZ's and Virtuozzo's. A line for each container, its id first. Only
the last field of a line can be told from the others: names hold blanks, and fields before it may be cut to 32 bytes. So
each field is asked for on its own, as `vzlist -H -o veid,name`; `-j`, where there is one, doesn't escape quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client import Metric

from virtscope.toolkit.families import info

# The label of each field. An old vzlist doesn't know them all: names came with 3.0.11, templates with 3.0.24.
LABELS = {"name": "name", "hostname": "hostname", "ostemplate": "template"}

_ROW = re.compile(r" *([0-9]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?: +(.*))?")
_NONE = {"", "-", "(null)"}


class Field(NamedTuple):
    """A field of all containers that have one, by ctid, and how many lines could not be understood."""

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
    """Return an info metric of those living containers of which a field is known; a label is "" where there is none.

    openvz_container_info{ctid="101",name="web shop",hostname="shop.example.org",template="debian-7.0-x86_64"} 1
    """
    described = [
        {"ctid": ctid, **{LABELS[name]: field.values.get(ctid, "") for name, field in fields.items()}}
        for ctid in living
        if any(ctid in field.values for field in fields.values())
    ]
    return [info("openvz_container", "The container's name, host name and template, as vzlist tells them.", described)]
