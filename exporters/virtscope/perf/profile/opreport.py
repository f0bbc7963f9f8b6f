"""What OProfile's and Xenoprof's `opreport` prints: samples by image, or with -l by image and symbol.

Format: libpp/format_output.cpp and pp/opreport.cpp in OProfile's source. A preamble names the events, a line the
columns; a row has a number and a percentage for each event, or for each class of an event (--threads and the like),
then names. Classes are added up here.

Xenoprof writes the samples of a domain that it watches from outside, a passive one, to images of its own:
domain2-apps, domain2-modules, domain2-kernel, domain2-xen.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from virtscope.perf.profile.samples import NO_SYMBOL, Place, Profile
from virtscope.shell.sources import SourceRubbish

_COUNTED = re.compile(r"Counted\s+(\S+)\s+events\b(?:(?:(?!\bCounted\b).)*?\bunit mask of (0x[0-9a-f]+))?")
_COLUMNS = re.compile(r"\s*(vma\s+)?samples\b|\S+\.\.\.\||\s*samples\|")
_FIGURES = re.compile(r"\s*(\d+)\s+(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|-?nan)(?=\s|$)")
_VMA = re.compile(r"\s*[0-9a-f]{8,16}\s+(?=\d+\s)")

# Images whose names hold blanks: memory without a file behind it, and whose it was.
_OWNED = re.compile(r"(\S+ \((?:tgid|pid|tid):[^)]*\))\s*(.*)")

_PASSIVE = re.compile(r"domain(\d+)-(apps|modules|kernel|xen)(-unknown)?")
_PASSIVE_SPACES = {"apps": "user", "modules": "kernel", "kernel": "kernel", "xen": "hypervisor"}
_KERNELS = re.compile(r"(no-)?vmlinu[xz]\b.*|.*\.ko\b.*|xenolinux.*")
_HYPERVISORS = re.compile(r"xen-syms\b.*|no-xen\b.*")


class _Row(NamedTuple):
    counts: tuple[int, ...]
    names: str  # what follows the figures: an image, or images and a symbol
    part: bool  # of the application's row above, which holds the sum of such rows


def parse(text: str, events: Sequence[str] = ()) -> Profile:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    `events` are the events in their order, for a report whose preamble was cut off. Lines that were wrapped, as mail
    programs do, are taken for one. Raises SourceRubbish where the events and their columns don't match, and where there
    are no rows.
    """
    lines = textwrap.dedent(text.replace("\r", "")).splitlines()
    first = next((number for number, line in enumerate(lines) if _COLUMNS.match(line) or _FIGURES.match(line)), None)
    if first is None:
        raise SourceRubbish(f"this is no output of opreport, as it has no rows: {text[:200]!r}")
    header = lines[first] if _COLUMNS.match(lines[first]) else ""
    counted = _counted(" ".join(lines[:first])) or list(events)
    rows = list(_rows(lines[first:], header.count("samples")))
    width = len(rows[0].counts) if rows else 0
    if not counted or not rows or any(len(row.counts) != width for row in rows) or width % len(counted):
        raise SourceRubbish(
            f"opreport's rows have {width} counts each, its preamble names {len(counted)} events {counted}; "
            "name them in the columns' order where it names none"
        )
    with_symbols = "symbol name" in header
    images = 2 if "image name" in header and "app name" in header else 1
    profile: Profile = {}
    for row in rows:
        image, symbol = _names(row.names, images, with_symbols)
        space, domain = _space(image)
        for index, event in enumerate(counted):
            # Several classes are of one event; several events have one column each.
            of_event = row.counts if len(counted) == 1 else row.counts[index :: len(counted)]
            place = Place(event, image, symbol, space, domain)
            if sum(of_event):
                profile[place] = profile.get(place, 0) + sum(of_event)
    return profile


def _counted(preamble: str) -> list[str]:
    """Return the events' names, with their unit masks where one event was counted with several."""
    found: list[tuple[str, str]] = [(match[1], match[2]) for match in _COUNTED.finditer(preamble)]
    names = [name for name, _mask in found]
    return [f"{name}:{mask}" if names.count(name) > 1 else name for name, mask in found]


def _rows(lines: Sequence[str], width: int) -> Iterator[_Row]:
    """Give the rows, each with what was wrapped of it; `width` is how many counts the header names, 0 for no header."""
    waiting: _Row | None = None
    for line in lines:
        row = _row(line, width)
        if row is None:
            # A name that was wrapped stands alone on its line, and without a frame.
            if waiting and line.strip() and not _COLUMNS.match(line) and not set(line.strip()) <= set("-|"):
                waiting = waiting._replace(names=f"{waiting.names}  {line.strip()}")
            continue
        if waiting and not (row.part and not waiting.part):
            yield waiting
        waiting = row
    if waiting:
        yield waiting


def _row(line: str, width: int) -> _Row | None:
    vma = _VMA.match(line)
    at = vma.end() if vma else 0
    counts: list[int] = []
    while (figures := _FIGURES.match(line, at)) and (not width or len(counts) < width):
        counts.append(int(figures[1]))
        at = figures.end()
    if not counts or (width and len(counts) < width):
        return None
    return _Row(tuple(counts), line[at:].strip(), part=line.startswith("\t"))


def _names(names: str, images: int, with_symbols: bool) -> tuple[str, str]:
    """Split what follows the figures into image and symbol.

    Names stand at least two blanks apart unless one is as wide as its column. Only then is it by form: an image has no
    blanks but where the kernel says whose memory it is, a symbol of C++ may have many.
    """
    if not with_symbols:
        return _split(names)[0] if images > 1 else names, NO_SYMBOL
    wanted = images + 1
    parts = re.split(r"\s{2,}", names, maxsplit=wanted - 1)
    if len(parts) < wanted:
        image, rest = _split(names)
        for _ in range(images - 1):
            _, rest = _split(rest)
        parts = [image, rest]
    symbol = parts[-1]
    return parts[0], symbol if symbol and symbol != parts[0] else NO_SYMBOL


def _split(names: str) -> tuple[str, str]:
    if owned := _OWNED.match(names):
        return owned[1], owned[2]
    image, _, rest = names.partition(" ")
    return image, rest.strip()


def _space(image: str) -> tuple[str, str]:
    """Return space and domain as far as the image's name tells."""
    if passive := _PASSIVE.fullmatch(image):
        return _PASSIVE_SPACES[passive[2]], passive[1]
    if _HYPERVISORS.fullmatch(image):
        return "hypervisor", ""
    return ("kernel" if _KERNELS.fullmatch(image) else ""), ""
