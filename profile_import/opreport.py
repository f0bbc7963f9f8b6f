"""What OProfile's and Xenoprof's `opreport` prints: samples by image, or with -l by image and symbol.

Format: pp/opreport.cpp, libpp/format_output.cpp, libpp/arrange_profiles.cpp and libpp/op_header.cpp in OProfile's
source. A preamble names the events and the classes, a line the columns. A row has a number and a percentage for each
class, then names. Classes are events, or else unit masks, threads, processes or CPUs of one event: never both.

Without -l, an application that ran several images is followed by a row for each, and is their sum.

Xenoprof writes the samples of a domain that it watches from outside, a passive one, to images of its own:
domain2-apps, domain2-modules, domain2-kernel, domain2-xen.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from virtscope.perf.perf_report import malformed
from virtscope.perf.profile import NO_SYMBOL, OTHER, Hits, Place, Profile, add
from virtscope.toolkit.collect import SourceMalformed

_COUNTED = re.compile(r"\W*(?:Counter \d+ )?[Cc]ounted\s")
_EVENT = re.compile(r"\W*(?:Counter\d+)?[Cc]ounted(?P<name>[^()]{1,200}?)events\b", re.ASCII)
_MASK = re.compile(r"unitmaskof0x\|?(?P<mask>[0-9a-f]+)\W")
_PERIOD = re.compile(r"\)\|?count\|?(?P<count>[0-9]{1,18})(?![0-9])")
_TIMER = "Profiling through timer interrupt"
_UNIT_MASK = re.compile(r"Samples matching a unit mask of (0x[0-9a-f]+|[0-9]+)", re.ASCII)
_PREAMBLE = re.compile(
    r"\W*(?:CPU: |Cpu type: |(?:Counter \d+ )?[Cc]ounted \S+ events\b|Profiling through timer|Processes with a thread|"
    r"Samples on CPU|Samples matching a unit mask|Using \S+ for samples directory)"
)

_TITLE = r"vma|cum\. samples|samples|cum\. %|diff %|%|linenr info|image name|app name|symbol name"
_TITLES = re.compile(_TITLE)
_HEADER = re.compile(rf"\s*(?:(?:{_TITLE})\|?\s*)+$")
_FRAME = re.compile(r"(?:[^|]*\S\|)+$|\s*-{10,}$")  # names of classes above the columns, and the line below these
_CALL_GRAPH = re.compile(r"\s*-{40,}$|.*\S\s+\[self\]$")

_COUNT = r"([0-9]{1,18})"
_PERCENTAGE = r"([0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|-?nan)"
_VALUES = {
    "vma": r"[0-9a-f]{8,16}",
    "samples": _COUNT,
    "cum. samples": "[0-9]+",
    "%": _PERCENTAGE,
    "cum. %": "[0-9.e+-]+|-?nan",
}
_PAIR = re.compile(rf"\s*{_COUNT}\s+{_PERCENTAGE}(?=\s|$)", re.ASCII)
_BEGINS = re.compile(r"\s*(?:[0-9]+|[0-9a-f]{8,16}\s+[0-9]+)(?:\s+[0-9-]|\s+nan|$)", re.ASCII)
_NUMBERS = re.compile(r"\s*[0-9]+(?:\s+[0-9]|$)")  # how a row begins, and nothing else
_LINE_INFO = re.compile(r"(?:\(no location information\)|\S+:\d+)(?:\s+|$)")
# Images whose names hold blanks: memory without a file behind it, and whose it was; files that were deleted.
_OWNED = re.compile(r"(\(deleted\) +\S+|\S+ \((?:tgid|pid|tid):[^)]*\)|\S+ \(deleted\))\s*(.*)")

_NO_SAMPLES = re.compile(r"(?:\S+@\S+|\[[^\]]*\]|)\s?[#$](?:\s.*)?$|opreport\b.*|(?:warning|error): .*|-- ?$")
_COLUMN = 9  # characters for a number of an application or image; a longer one moves to the right
_WRAPPED = 60  # characters: a shorter line has not been wrapped, as mail programs do
_MOST_CLASSES = 1024
_MOST_LINES = 8  # a row is wrapped into
_LONGEST = 20_000  # characters of a row's names: beyond that, they aren't

_PASSIVE = re.compile(r"domain(\d{1,5})-(apps|modules|kernel|xen)(-unknown)?", re.ASCII)
_PASSIVE_SPACES = {"apps": "user", "modules": "kernel", "kernel": "kernel", "xen": "hypervisor"}
_KERNELS = re.compile(r"(no-)?vmlinu[xz]\b.*|kallsyms|.*\.ko\b.*|xenolinux.*")
_HYPERVISORS = re.compile(r"xen-syms\b.*|no-xen\b.*")

_AGAIN = "let the file have one report alone, with its lines whole, as opreport printed it"
_APART = "import each report from a file of its own"


class Counted(NamedTuple):
    """An event of a report, and how many of it a sample stands for; None where that isn't known."""

    event: str
    period: int | None


class _Row(NamedTuple):
    number: int  # of its line
    line: str
    counts: tuple[int, ...]
    percentages: tuple[float, ...]
    names: str  # what follows the values
    headed: bool = False  # the columns' titles stand once more below it, as they do above an application's images

    def ends_right_of(self, other: _Row) -> bool:
        """Whether it is set in: its first number ends further right, which blanks in place of a tab don't change."""
        return self.line[:1] == " " and self._edge() > other._edge()

    def _edge(self) -> int:
        found = _PAIR.match(self.line)
        return found.end(1) - max(len(found[1]) - _COLUMN, 0) if found else 0

    def are_of(self, totals: Sequence[float]) -> bool:
        """Whether its percentages are of these numbers, as far as they are printed."""
        return all(
            abs(count - total * share / 100) <= 0.5 + total * 1e-4
            for count, total, share in zip(self.counts, totals, self.percentages, strict=True)
        )


class _Columns(NamedTuple):
    titles: list[str]
    values: re.Pattern[str]
    symbols: bool  # a row is a symbol's; else an image's

    @property
    def names(self) -> int:
        """How many there are; 0 where the titles don't show it."""
        return sum(title.endswith(" name") for title in self.titles)

    def row(self, number: int, line: str) -> _Row | None:
        """Return the row, if it is one."""
        found = self.values.match(line)
        if not found:
            return None
        counts: list[str] = []
        shares: list[str] = []
        for title, value in zip(
            (title for title in self.titles if title in ("samples", "%")), found.groups(), strict=True
        ):
            (counts if title == "samples" else shares).append(value)
        percentages = [0.0 if "nan" in share else float(share) for share in shares]
        return _Row(number, line, tuple(map(int, counts)), tuple(percentages), line[found.end() :].strip())


def parse(text: str, events: Sequence[Counted] = ()) -> Profile:
    """Return the samples by place of every event in a report; `text` is all of it, also if it is indented.

    `events` are the events in their order, for a report whose preamble was cut off. Lines that were wrapped, as mail
    programs do, are taken for one. What was cut off below an application ("...") is in OTHER. Raises SourceMalformed
    with the offending line where one can't be understood, where the events and their columns don't match, where there
    are no rows or two reports, and for what opreport prints with --callgraph, --xml or for two profiles at once.
    """
    lines = textwrap.dedent("\n".join(_lines(text))).split("\n")
    _refuse_other_forms(text, lines)
    columns, first = _columns(lines)
    named = _counted(lines[:first])
    counted = named or list(events)
    width = columns.titles.count("samples")
    classes = len(named) == 1  # of this event, as far as there are several columns
    if not counted or not (classes or len(counted) == width):
        raise SourceMalformed(
            f"opreport's rows have {width} counts each, its preamble names {len(counted)} events "
            f"{[each.event for each in counted]}; where it names none, name them in the columns' order (--event)"
        )
    rows = list(_rows(lines, first, columns))
    counting = _without_details(rows, columns) if columns.symbols else list(_without_applications(rows))
    _refuse_more_than_all(counting, rows)
    profile: Profile = {}
    for row in counting:
        image, symbol = (OTHER, OTHER) if row.names == OTHER else _names(row.names, columns)
        space, domain = _space(image)
        values = [(counted[0], sum(row.counts))] if classes else list(zip(counted, row.counts, strict=True))
        for each, samples in values:
            place = Place.named(each.event, image, symbol, space, domain)
            add(profile, place, Hits(samples, None if each.period is None else samples * each.period))
    return profile


def _lines(text: str) -> list[str]:
    # Tabs as a terminal shows them: where a number ends decides which column it is of.
    return [line.rstrip().expandtabs() for line in text.split("\n")]


def _refuse_other_forms(text: str, lines: Sequence[str]) -> None:
    if re.match(r"\s*<\?xml|\s*<profile\b", text):
        raise SourceMalformed("this is opreport's XML; have opreport print it without --xml")
    for number, line in enumerate(lines, 1):
        if "diff %" in line and _HEADER.match(line):
            raise malformed(
                "opreport", number, line, "is of the difference of two profiles", "have opreport print each by itself"
            )


def _columns(lines: Sequence[str]) -> tuple[_Columns, int]:
    """Return the columns, and the index of the line where rows begin.

    Without a line of titles these are pairs of a count and a percentage, as many as the first row has. Raises
    SourceMalformed where there is no row at all, and for a line between titles and rows that is neither.
    """
    titles: list[str] = []
    for index, line in enumerate(lines):
        if titles and "symbol name" in titles and _CALL_GRAPH.match(line):
            raise _call_graph(index + 1, line)
        if ("samples" in line or titles) and _HEADER.match(line):
            if titles and not _HEADER.match(lines[index - 1]):
                raise malformed("opreport", index + 1, line, "names columns again, with no row above", _APART)
            titles += _TITLES.findall(line)  # wrapped, it may go on in the next line
        elif titles and _BEGINS.match(line):  # a row, maybe wrapped
            if titles.count("samples") != titles.count("%") or not 0 < titles.count("samples") <= _MOST_CLASSES:
                raise malformed(
                    "opreport", index, lines[index - 1], f"names columns that opreport has not: {titles[:9]}", _AGAIN
                )
            return _Columns(titles, _values(titles), "symbol name" in titles), index
        elif not titles and (pairs := _pairs(line)):
            titles = ["samples", "%"] * pairs
            return _Columns(titles, _values(titles), _shows_symbols(line)), index
        elif titles and line and not _FRAME.match(line):
            raise malformed("opreport", index + 1, line, "is no row", _AGAIN)
    raise SourceMalformed(f"this is no output of opreport, as it has no rows: {[line[:80] for line in lines[:3]]}")


def _pairs(line: str) -> int:
    pairs = at = 0
    while pair := _PAIR.match(line, at):
        pairs, at = pairs + 1, pair.end()
    return pairs


def _shows_symbols(line: str) -> bool:
    """Whether a row below no titles is of -l: there numbers stand left in their columns, images stand right behind."""
    found = re.match(rf"(?:{_PAIR.pattern})+(?P<between>\s*)", line)
    return bool(found and len(found["between"]) != 1)


def _values(titles: Sequence[str]) -> re.Pattern[str]:
    """Return what matches a row's values."""
    values = [f"(?:{_VALUES[title]})" for title in titles if title in _VALUES]
    return re.compile(r"\s*" + r"\s+".join(values) + r"(?=\s|$)", re.ASCII)


def _counted(preamble: Sequence[str]) -> list[Counted]:
    """Return the events, with unit masks, or else periods, in their names where there are several of one name."""
    if any(_TIMER in line for line in preamble):
        return [Counted("timer", None)]
    found = [_event(segment) for segment in _segments(preamble)]
    names = [name for name, _, _ in found]
    if len(set(names)) < len(names):
        names = [f"{name}:{mask}" for name, mask, _ in found]
    if len(set(names)) < len(names):
        names = [f"{name}:{period}" for name, (_, _, period) in zip(names, found, strict=True)]
    counted = [Counted(name, period) for name, (_, _, period) in zip(names, found, strict=True)]
    masks = _UNIT_MASK.findall("\n".join(preamble))
    if len(counted) == 1 and masks:
        return [Counted(f"{counted[0].event}:{mask}", counted[0].period) for mask in masks]
    return counted


def _segments(preamble: Sequence[str]) -> list[str]:
    """Return what stands of each event, without blanks: a line may have been wrapped within any word or number.

    A line that begins with a digit goes on with a number only if it has nothing else.
    """
    segments: list[str] = []
    for line in preamble:
        if _COUNTED.match(line):
            segments.append("")
        if segments:
            digits = line[:1].isdigit() and not line.strip().isdigit()
            segments[-1] += ("|" if digits else "") + re.sub(r"\s+", "", line)
    return segments


def _event(segment: str) -> tuple[str, str, int | None]:
    """Return an event's name, unit mask and period."""
    named = _EVENT.match(segment.replace("|", ""))
    if not named:
        raise SourceMalformed(f"opreport's preamble names no event where it says {segment[:100]!r}; {_AGAIN}")
    mask, period = _MASK.search(segment), _PERIOD.search(segment)
    return named["name"], f"0x{mask['mask']}" if mask else "", int(period["count"]) if period else None


def _rows(lines: Sequence[str], first: int, columns: _Columns) -> Iterator[_Row]:
    """Give the rows, each with what was wrapped of it; raises SourceMalformed for a line that is none."""
    row: _Row | None = None
    at = first
    joins = False  # the line above is not blank, so that this one can go on with it
    while at < len(lines):
        number, line = at + 1, lines[at]
        at += 1
        if not line.strip():
            joins = False
            continue
        found = columns.row(number, line)
        if not found and _NUMBERS.match(line):
            found, at = _joined(lines, at - 1, columns)
        if found:
            if row:
                yield row
            row, joins = found, True
        elif row and _cut(line):
            joins = False
        elif _PREAMBLE.match(line) or (columns.symbols and _HEADER.match(line)):
            raise malformed("opreport", number, line, "begins a second report", _APART)
        elif columns.symbols and _CALL_GRAPH.match(line):
            raise _call_graph(number, line)
        elif _HEADER.match(line) or _FRAME.match(line):
            row, joins = row and row._replace(headed=True), False
        elif row and joins and _goes_on(row, lines[at - 2], columns) and len(row.names) < _LONGEST:
            missing = len(re.split(r"\s{2,}", row.names)) < columns.names
            row = row._replace(names=f"{row.names}{'  ' if missing else ' '}{line.strip()}")
        elif not _NO_SAMPLES.match(line):
            raise malformed("opreport", number, line, "is no row, and belongs to none", _AGAIN)
    if row:
        yield row


def _joined(lines: Sequence[str], at: int, columns: _Columns) -> tuple[_Row, int]:
    """Return the row that was wrapped between its values, and the index of the line after it."""
    line = lines[at]
    for end in range(at + 1, min(at + _MOST_LINES, len(lines))):
        if not lines[end].strip() or _pairs(lines[end]) == columns.titles.count("samples"):
            break
        line += f" {lines[end].strip()}"
        if (found := columns.row(at + 1, line)) and found.names:
            return found, end + 1
    raise malformed("opreport", at + 1, lines[at], f"has too few values for its columns {columns.titles}", _AGAIN)


def _goes_on(row: _Row, above: str, columns: _Columns) -> bool:
    """Whether a row's names can go on below `above`, its last line: one is missing, not closed, or it was wrapped."""
    brackets = sum(row.names.count(opening) for opening in "(<[") - sum(row.names.count(closing) for closing in ")>]")
    return (
        len(re.split(r"\s{2,}", row.names)) < columns.names or not row.names or brackets > 0 or len(above) >= _WRAPPED
    )


def _cut(line: str) -> bool:
    """Whether the line is dots and the like alone, in place of rows that were left out."""
    return line.strip(" .…[]()<>*~:-") in {"", "snip", "snipped", "cut"} and any(
        dots in line for dots in ("..", "…", ". ", "snip", "cut")
    )


def _call_graph(number: int, line: str) -> SourceMalformed:
    return malformed(
        "opreport", number, line, "is of a call graph, in which samples stand more than once", "leave out --callgraph"
    )


def _without_details(rows: Sequence[_Row], columns: _Columns) -> list[_Row]:
    """Return the symbols' rows: with --details those of a symbol's addresses follow, which have no names."""
    counting = []
    for row in rows:
        names = _LINE_INFO.sub("", row.names, count=1) if "linenr info" in columns.titles else row.names
        if names:
            counting.append(row)
        elif not counting or "vma" not in columns.titles:
            raise malformed("opreport", row.number, row.line, "has no name", _AGAIN)
    return counting


def _without_applications(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Give the rows of images, and those of applications that have none below them."""
    set_in = any(row.ends_right_of(rows[0]) for row in rows)
    at = 0
    while at < len(rows):
        application = rows[at]
        if not application.names:
            raise malformed("opreport", application.number, application.line, "has no name", _AGAIN)
        below = at + 1
        if set_in:
            while below < len(rows) and rows[below].ends_right_of(application):
                if rows[at + 1].ends_right_of(rows[below]):
                    break  # less set in: the next application
                below += 1
        elif application.headed:
            below = len(rows)
        parts = _parts(application, rows[at + 1 : below])
        if not parts:
            yield application
        else:
            yield from parts
            missing = tuple(
                count - sum(part.counts[each] for part in parts) for each, count in enumerate(application.counts)
            )
            if any(missing):
                yield application._replace(counts=missing, names=OTHER)
        at += 1 + len(parts)


def _parts(application: _Row, below: Sequence[_Row]) -> Sequence[_Row]:
    """Return those of the rows `below` that are the application's images: their sum is its count.

    Where the rest was cut off it is less, and their percentages are of it.
    """
    sums = (0,) * len(application.counts)
    for index, row in enumerate(below):
        sums = tuple(total + count for total, count in zip(sums, row.counts, strict=True))
        if sums == application.counts:
            return below[: index + 1]
    if not below:
        return below
    everything = tuple(
        100 * count / share if share else 0.0
        for count, share in zip(application.counts, application.percentages, strict=True)
    )
    within = all(total <= count for total, count in zip(sums, application.counts, strict=True))
    if within and all(row.are_of(application.counts) for row in below):
        return below
    if application.line[:1] != " " and all(row.are_of(everything) for row in below):
        return []  # a list of which only the first line lost the blanks before it
    raise malformed(
        "opreport",
        application.number,
        application.line,
        "is neither the sum of the rows below it, which end further right, nor one like them",
        _AGAIN,
    )


def _refuse_more_than_all(counting: Sequence[_Row], rows: Sequence[_Row]) -> None:
    """Raise SourceMalformed where rows have more samples together than there are, by what their percentages are of."""
    for each in range(len(rows[0].counts) if rows else 0):
        shares = [(row.counts[each], row.percentages[each]) for row in rows]
        most = max((100 * count / share for count, share in shares if share), default=0.0)
        total = sum(row.counts[each] for row in counting)
        if most and total > 1.05 * most + 1:
            raise SourceMalformed(
                f"opreport's rows have {total} samples together, of which by their percentages there are {most:.0f} at "
                f"most: samples stand more than once; {_AGAIN}"
            )


def _names(names: str, columns: _Columns) -> tuple[str, str]:
    """Split what follows the values into image and symbol.

    Names stand at least two blanks apart unless one is as wide as its column. Only then is it by form: an image has no
    blanks but where the kernel says whose memory it is, a symbol of C++ may have many.
    """
    if not columns.symbols:
        return names, NO_SYMBOL
    titles = columns.titles
    if "linenr info" in titles:
        names = _LINE_INFO.sub("", names, count=1)
    images = titles.count("image name") + titles.count("app name")
    wanted = images + titles.count("symbol name")
    if not wanted:  # the titles were cut off
        wanted = min(len(re.split(r"\s{2,}", names)), 3)
        images = wanted - 1
    parts = re.split(r"\s{2,}", names)
    if len(parts) > wanted > 1:  # an application's name that has no title; within a name there is but one blank
        parts = [parts[0], *parts[1:images], parts[-1]]
    elif len(parts) > wanted:
        parts = [names]
    elif len(parts) < wanted:
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
    """Return space and domain as far as the image's name shows."""
    name = image.rpartition("/")[2]
    if passive := _PASSIVE.fullmatch(name):
        return _PASSIVE_SPACES[passive[2]], passive[1]
    if _HYPERVISORS.fullmatch(name):
        return "hypervisor", ""
    return ("kernel" if _KERNELS.fullmatch(name) else ""), ""
