"""Durations as flags take them, written as Prometheus writes them."""

from __future__ import annotations

import argparse
import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str) -> float:
    """Return the seconds of a duration such as "90s", "1.5h" or "10m"."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd]?)", text, re.ASCII)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration above 0, such as 90s, 10m or 1h")
    return seconds


def interval_or_never(text: str) -> float:
    """Return the seconds of a duration; 0, which means never, for "0"."""
    return 0.0 if text == "0" else duration(text)
