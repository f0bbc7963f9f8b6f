"""The edges of the sensors' histogram; without dependencies, for the demo."""

import re

SCRIPT = "telegraf/access_log.pl"


def sensors_edges(script: str) -> tuple[float, ...]:
    """Upper edges in seconds, ascending, from the list in the sensors' script. Raises ValueError without that list."""
    listed = re.search(r"^my @EDGES = qw\(([\d.\s]+)\);", script, re.MULTILINE)
    if listed is None:
        raise ValueError("has no line `my @EDGES = qw(...)`, the edges of the sensors' histogram")
    return tuple(float(edge) for edge in listed[1].split())
