"""Where samples fell, and what of: what every kind of report is read into."""

from __future__ import annotations

import re
from typing import NamedTuple

NO_SYMBOL = "(no symbols)"  # as opreport calls what lies in an image without any
GUESTS = "guests"  # the domain of samples that fell into guests, where the kernel doesn't tell which one

_LONGEST = 160  # characters of a name; templates of C++ and methods of Java go into thousands


class Place(NamedTuple):
    """Where a sample fell."""

    event: str
    image: str  # a file's name without its folder, "[kernel.kallsyms]", "xen-syms"; "" where the report doesn't say
    symbol: str  # NO_SYMBOL where the report has none
    space: str  # "user", "kernel", "hypervisor", "guest_user", "guest_kernel"; "" where the report doesn't say
    domain: str = ""  # the domid that Xenoprof sampled from outside, or GUESTS; "": what the profiler ran on

    @classmethod
    def named(cls, event: str, image: str, symbol: str, space: str, domain: str = "") -> Place:
        """Return the place without what names it anew for each process, build or boot: that would never end."""
        return cls(event, _stable(image, _IMAGES)[:_LONGEST], _stable_symbol(symbol), space, domain)


class Hits(NamedTuple):
    """What fell on a place."""

    samples: int
    # The events that these stand for. perf varies the period to keep to a frequency, so that samples alone tell when
    # something ran, not how many of the events it had. None: the report doesn't tell.
    events: float | None

    def plus(self, more: Hits) -> Hits:
        """Return both together."""
        known = self.events is not None and more.events is not None
        return Hits(self.samples + more.samples, (self.events or 0) + (more.events or 0) if known else None)


Profile = dict[Place, Hits]


def add(profile: Profile, place: Place, hits: Hits) -> None:
    """Add what fell on a place to a profile; nothing, if nothing fell."""
    if hits.samples or hits.events:
        profile[place] = profile[place].plus(hits) if place in profile else hits


_IMAGES = [
    (re.compile(r" \(deleted\)$|^\(deleted\) +"), ""),
    (re.compile(r"\+0x[0-9a-f]+$"), ""),  # where in the file, as perf script's dsoff tells
    (re.compile(r"^(?:.*/)?perf-\d+\.map$|^\[JIT\] tid \d+$|^(?:.*/)?jitted-\d+-\d+\.so$|^(?:.*/)?\d+\.jo$"), "[JIT]"),
    (re.compile(r"^(.*\S) \((?:tgid|pid|tid):.*\)$"), r"\1"),  # opreport's memory without a file, and whose it was
    (re.compile(r"^(\[(?:stack|guest\.kernel\.kallsyms))[.:]\d+\]$"), r"\1]"),
    (re.compile(r"^/?SYSV[0-9a-f]{8}$"), "SYSV"),  # shared memory, by its key
    (re.compile(r"^/?memfd:.*$"), "memfd"),  # likewise, by any name
    (re.compile(r"^(?:.*/)?(\w[\w-]*)\.ko(?:\.gz|\.xz|\.zst)?$"), r"[\1]"),  # a module as it is named while loaded
    (re.compile(r"^[^\[].*/([^/]+)/*$|^/([^/]+)$"), r"\1\2"),
    (re.compile(r"^\d+$|^[0-9a-f]{32,}(?:\.debug)?$"), "(no name)"),  # a process' or a build's number alone
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),  # a hash of its instructions
]
_SYMBOLS = [
    (re.compile(r"\+0x[0-9a-f]+$"), ""),
    (re.compile(r"\.llvm\.\d+"), ""),
    (re.compile(r"^bpf_prog_[0-9a-f]{16}"), "bpf_prog"),
    (
        re.compile(r"(?<=[\s:])(?:file://)?/(?:[^/\s:]+/)+"),
        "",
    ),  # a script's folders, as V8's and Python's JIT tell them
]
# What stands in a symbol's place where there is none: an address, or the image once more.
_NONE = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8,16}|\[unknown\]|(?:\(deleted\) +)?/\S.*|\S+ \((?:tgid|pid|tid):.*\)|", re.DOTALL
)


def _stable(name: str, rules: list[tuple[re.Pattern[str], str]]) -> str:
    for pattern, instead in rules:
        name = pattern.sub(instead, name)
    return name


def _stable_symbol(symbol: str) -> str:
    name = _stable(symbol.strip(), _SYMBOLS)
    return NO_SYMBOL if _NONE.fullmatch(symbol.strip()) or _NONE.fullmatch(name) else name[:_LONGEST]
