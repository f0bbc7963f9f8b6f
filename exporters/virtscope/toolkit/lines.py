"""The parts of a line of the exposition: names, labels and numbers, byte for byte as the client library writes them."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from prometheus_client.utils import floatToGoString


def start_of_line(name: str, labels: Mapping[str, str]) -> str:
    """Return a sample's line up to its value, with the line break before it; names outside the classic set get `_`."""
    if not labels:
        return f"\n{metric_name(name)} "
    pairs = ",".join([f'{_label_name(key)}="{quoted(value)}"' for key, value in sorted(labels.items())])
    return f"\n{metric_name(name)}{{{pairs}}} "


_EXACT = 2**53  # floats are exact up to here
_EXPONENTS = {digits: f"e+{digits - 1:02}" for digits in range(7, 17)}


def numbers(values: Iterable[float]) -> list[str]:
    """Format values like the client; inlined for common ones, as scrapes spend most of their time here."""
    return [
        (
            f"{value}.0"
            if -1_000_000 < value < 1_000_000
            else f"{(digits := repr(value))[0]}.{digits[1:]}{_EXPONENTS[len(digits)]}"
            if 0 < value < _EXACT and value % 10
            else floatToGoString(value)
        )
        if value.__class__ is int
        else repr(value)
        if value.__class__ is float and -1e16 < value < 1e6
        else floatToGoString(value)
        for value in values
    ]


# Like the client's, but rejects a line break at a name's end, which would break the whole page.
_NOT_IN_METRIC_NAME = re.compile("^[0-9]|[^a-zA-Z0-9_:]")
_NOT_IN_LABEL_NAME = re.compile("^[0-9]|[^a-zA-Z0-9_]")


@lru_cache(maxsize=1024)
def metric_name(name: str) -> str:
    """Return a metric's name with underscores for characters outside the classic set."""
    return _NOT_IN_METRIC_NAME.sub("_", name)


@lru_cache(maxsize=1024)
def _label_name(name: str) -> str:
    return _NOT_IN_LABEL_NAME.sub("_", name)


def quoted(text: str) -> str:
    """Escape text for quotation marks."""
    return escaped(text).replace('"', r"\"")


def escaped(text: str) -> str:
    """Escape a help text."""
    return text.replace("\\", r"\\").replace("\n", r"\n")
