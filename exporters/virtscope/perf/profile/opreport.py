"""What OProfile's and Xenoprof's `opreport` prints: samples by image, or with -l by image and symbol.

Format: pp/opreport.cpp, libpp/format_output.cpp, libpp/arrange_profiles.cpp and libpp/op_header.cpp in OProfile's
source. A preamble names the events and the classes, a line the columns. A row has a number and a percentage for each
class, then names. Classes are events, or else unit masks, threads, processes or CPUs of one event: never both.

Xenoprof writes the samples of a domain that it watches from outside, a passive one, to images of its own:
domain2-apps, domain2-modules, domain2-kernel, domain2-xen.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from virtscope.perf.profile.samples import NO_SYMBOL, Hits, Place, Profile, add
from virtscope.shell.sources import SourceRubbish

_COUNTED = re.compile(
    r"Counted\s+(?P<name>\S+)\s+events\b"
    r"(?:(?:(?!\bCounted\b).)*?\bunit mask of (?P<mask>0x[0-9a-f]+))?"
    r"(?:(?:(?!\bCounted\b).)*?\)\s*count (?P<count>[0-9]{1,18})\b)?",
    re.ASCII,
)
_TIMER = "Profiling through timer interrupt"
_UNIT_MASK = re.compile(r"Samples matching a unit mask of (0x[0-9a-f]+|[0-9]+)", re.ASCII)

_TITLE = r"vma|cum\. samples|samples|cum\. %|diff %|%|linenr info|image name|app name|symbol name"
_TITLES = re.compile(_TITLE)
_HEADER = re.compile(rf"\s*(?:(?:{_TITLE})\|?\s*)+$")
_FRAME = re.compile(r"(?:[^|]*\S\|)+$|\s*-{10,}$")  # names of classes above the columns, and the line below these
_CALL_GRAPH = re.compile(r"-{79}$")

_COUNT = r"([0-9]{1,18})"
_PERCENTAGE = r"(?:[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|-?nan)"
_FIGURES = {
    "vma": r"[0-9a-f]{8,16}",
    "samples": _COUNT,
    "cum. samples": "[0-9]+",
    "%": _PERCENTAGE,
    "cum. %": _PERCENTAGE,
}
_PAIR = re.compile(rf"\s*{_COUNT}\s+{_PERCENTAGE}(?=\s|$)", re.ASCII)
_LINE_INFO = re.compile(r"(?:\(no location information\)|\S+:\d+)\s+")
# Images whose names hold blanks: memory without a file behind it, and whose it was.
_OWNED = re.compile(r"(\S+ \((?:tgid|pid|tid):[^)]*\))\s*(.*)")

_LONGEST = 20_000  # characters of a row's names: beyond that, they aren't

_PASSIVE = re.compile(r"domain(\d{1,5})-(apps|modules|kernel|xen)(-unknown)?", re.ASCII)
_PASSIVE_SPACES = {"apps": "user", "modules": "kernel", "kernel": "kernel", "xen": "hypervisor"}
_KERNELS = re.compile(r"(no-)?vmlinu[xz]\b.*|kallsyms|.*\.ko\b.*|xenolinux.*")
_HYPERVISORS = re.compile(r"xen-syms\b.*|no-xen\b.*")


class Counted(NamedTuple):
    """An event of a report, and how many of it a sample stands for; None where that isn't known."""

    event: str
    period: int | None


class _Row(NamedTuple):
    counts: tuple[int, ...]
    names: str  # what follows the figures
    part: bool  # of the application's row above, which holds the sum of such rows


def parse(text: str, events: Sequence[Counted] = ()) -> Profile:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    `events` are the events in their order, for a report whose preamble was cut off. Lines that were wrapped, as mail
    programs do, are taken for one. Raises SourceRubbish where the events and their columns don't match, where there are
    no rows, and for what opreport prints with --callgraph, --xml or for two profiles at once.
    """
    lines = textwrap.dedent(text.replace("\r", "")).split("\n")
    _refuse_other_forms(text, lines)
    titles, first = _titles(lines)
    named = _counted(" ".join(lines[:first]))
    counted = named or list(events)
    width = titles.count("samples")
    classes = len(named) == 1  # of this event, as far as there are several columns
    if not counted or not (classes or len(counted) == width):
        raise SourceRubbish(
            f"opreport's rows have {width} counts each, its preamble names {len(counted)} events "
            f"{[each.event for each in counted]}; where it names none, name them in the columns' order (--event)"
        )
    profile: Profile = {}
    for row in _rows(lines[first:], titles):
        image, symbol = _names(row.names, titles)
        space, domain = _space(image)
        columns = [(counted[0], sum(row.counts))] if classes else list(zip(counted, row.counts))
        for each, samples in columns:
            place = Place.named(each.event, image, symbol, space, domain)
            add(profile, place, Hits(samples, None if each.period is None else samples * each.period))
    return profile


def _refuse_other_forms(text: str, lines: Sequence[str]) -> None:
    other = ""
    if re.match(r"\s*<\?xml|\s*<profile\b", text):
        other = "XML (--xml)"
    elif any(_CALL_GRAPH.match(line) for line in lines):
        other = "a call graph (--callgraph)"
    elif any("diff %" in line and _HEADER.match(line) for line in lines):
        other = "the difference of two profiles"
    if other:
        raise SourceRubbish(f"this is {other}, in which samples stand more than once; have opreport print it without")


def _titles(lines: Sequence[str]) -> tuple[list[str], int]:
    """Return the titles of the columns and the line where rows begin.

    Without a line of titles these are pairs of a count and a percentage, as many as the first row has. Raises
    SourceRubbish where there is no row at all.
    """
    titles: list[str] = []
    for number, line in enumerate(lines):
        if ("samples" in line or titles) and _HEADER.match(line):
            titles += _TITLES.findall(line)  # wrapped, it may go on in the next line
        elif pairs := _pairs(line):
            return titles or ["samples", "%"] * pairs, number
        elif titles and re.match(_figures(titles), line):
            return titles, number
    raise SourceRubbish(f"this is no output of opreport, as it has no rows: {lines[:3]!r}"[:400])


def _pairs(line: str) -> int:
    pairs = at = 0
    while pair := _PAIR.match(line, at):
        pairs, at = pairs + 1, pair.end()
    return pairs


def _figures(titles: Sequence[str]) -> re.Pattern[str]:
    """Return what matches a row's figures."""
    figures = [_FIGURES[title] for title in titles if title in _FIGURES]
    return re.compile(r"\s*" + r"\s+".join(figures) + r"(?=\s|$)", re.ASCII)


def _counted(preamble: str) -> list[Counted]:
    """Return the events, with unit masks, or else periods, in their names where there are several of one name."""
    if _TIMER in preamble:
        return [Counted("timer", None)]
    found = list(_COUNTED.finditer(preamble))
    names = [match["name"] for match in found]
    if len(set(names)) < len(names):
        names = [f"{match['name']}:{match['mask']}" for match in found]
    if len(set(names)) < len(names):
        names = [f"{name}:{match['count']}" for name, match in zip(names, found)]
    counted = [Counted(name, int(match["count"]) if match["count"] else None) for name, match in zip(names, found)]
    masks = _UNIT_MASK.findall(preamble)
    if len(counted) == 1 and masks:
        return [Counted(f"{counted[0].event}:{mask}", counted[0].period) for mask in masks]
    return counted


def _rows(lines: Sequence[str], titles: Sequence[str]) -> Iterator[_Row]:
    """Give the rows, each with what was wrapped of it; raises SourceRubbish for one with too few figures."""
    figures = _figures(titles)
    waiting: _Row | None = None
    for line in lines:
        row = figures.match(line)
        if row and "vma" in titles and line.startswith("  "):
            continue  # an address of the symbol above, which has their sum (--details)
        if row:
            found = _Row(tuple(map(int, row.groups())), line[row.end() :].strip(), part=line.startswith("\t"))
            if waiting and not (found.part and not waiting.part):
                yield waiting
            waiting = found
        elif _PAIR.match(line):
            raise SourceRubbish(f"a row of opreport has too few figures: {line[:200]!r}; its columns: {list(titles)}")
        elif waiting and line.strip() and not _HEADER.match(line) and not _FRAME.match(line):
            # A name that was wrapped stands alone on its line.
            if len(waiting.names) > _LONGEST:
                raise SourceRubbish(f"below a row of opreport stands what is no row: {line[:200]!r}")
            waiting = waiting._replace(names=f"{waiting.names}  {line.strip()}")
    if waiting:
        yield waiting


def _names(names: str, titles: Sequence[str]) -> tuple[str, str]:
    """Split what follows the figures into image and symbol.

    Names stand at least two blanks apart unless one is as wide as its column. Only then is it by form: an image has no
    blanks but where the kernel says whose memory it is, a symbol of C++ may have many.
    """
    if "linenr info" in titles:
        names = _LINE_INFO.sub("", names, count=1)
    images = titles.count("image name") + titles.count("app name")
    wanted = images + titles.count("symbol name")
    if not wanted:  # images alone, or titles that were cut off
        wanted = min(len(re.split(r"\s{2,}", names)), 3)
        images = max(wanted - 1, 1)
    parts = re.split(r"\s{2,}", names, maxsplit=wanted - 1)
    if len(parts) < wanted:
        parts = []
        for _ in range(images):
            image, names = _split(names)
            parts.append(image)
        parts.append(names)
    symbol = parts[-1] if len(parts) > images else ""
    image = parts[0] if images else ""
    return image, symbol if symbol != image else NO_SYMBOL


def _split(names: str) -> tuple[str, str]:
    if owned := _OWNED.match(names):
        return owned[1], owned[2]
    image, _, rest = names.partition(" ")
    return image, rest.strip()


def _space(image: str) -> tuple[str, str]:
    """Return space and domain as far as the image's name tells."""
    name = image.rpartition("/")[2]
    if passive := _PASSIVE.fullmatch(name):
        return _PASSIVE_SPACES[passive[2]], passive[1]
    if _HYPERVISORS.fullmatch(name):
        return "hypervisor", ""
    return ("kernel" if _KERNELS.fullmatch(name) else ""), ""
