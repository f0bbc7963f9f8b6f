"""What `perf script` prints: a line for each sample, or with call chains a line and its frames.

Format: process_event() in tools/perf/builtin-script.c and sample__fprintf_sym() in tools/perf/util/evsel_fprintf.c in
Linux's source. Which fields a line has is up to -F. Needed are the event and the address; the symbol, the image (dso),
and the period where the time stands before it, are read if they are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from virtscope.perf.profile.perf_names import event_name, in_base_units
from virtscope.perf.profile.samples import GUESTS, Hits, Place, Profile, add
from virtscope.shell.sources import SourceRubbish

_HEAD = re.compile(r"(?P<before>.*\s|)(?P<event>[A-Za-z][^\s]*):(?:\s+(?P<frame>[0-9a-f]+(?:\s.*)?))?")
_PERIOD = re.compile(r".*(?:^|\s)[0-9]+\.[0-9]+:\s+([0-9]{1,19})\s+")  # a bare number might be a thread's id
_FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]{1,16})(?:\s+(?P<symbol>.*?))?(?:\s*(?<=\s)\((?P<image>[^()]*(?:\(deleted\))?)\))?"
)
_LONGEST = 20_000  # characters of a line

_ADVICE = "have perf script print -F comm,tid,cpu,time,period,event,ip,sym,dso"


class _Sample(NamedTuple):
    event: str
    period: int | None
    number: int  # of its line


def parse(lines: Iterable[str]) -> Profile:
    """Return the samples by place; `lines` may be many, and are read one by one.

    Of a call chain the first frame is the sample's own. Raises SourceRubbish with the offending line where one is no
    sample, or where there is none at all.
    """
    profile: Profile = {}
    for sample, frame in _samples(lines):
        found = _FRAME.fullmatch(frame) if frame else None
        if frame and not found:
            raise SourceRubbish(f"line {sample.number} of perf script has no address: {frame[:200]!r}; {_ADVICE}")
        image, symbol = (found["image"] or "", found["symbol"] or "") if found else ("", "")
        space = _space(int(found["address"], 16), image) if found else ""
        domain = GUESTS if space.startswith("guest") else ""
        event = event_name(sample.event)
        events = None if sample.period is None else in_base_units(event, sample.period)
        add(profile, Place.named(event, image, symbol, space, domain), Hits(1, events))
    if not profile:
        raise SourceRubbish("this is no output of perf script, as it has no samples")
    return profile


def _samples(lines: Iterable[str]) -> Iterator[tuple[_Sample, str]]:
    """Give each sample with its own frame, "" where its call chain is empty."""
    waiting: _Sample | None = None  # for its call chain
    chain = False
    for number, ended in enumerate(lines, 1):
        line = ended.rstrip()[:_LONGEST]
        if not line:
            if waiting:
                yield waiting, ""
            waiting, chain = None, False
        elif waiting:
            yield waiting, line
            waiting, chain = None, True
        elif chain or line.startswith("#"):
            continue
        else:
            head = _HEAD.fullmatch(line)
            if not head:
                raise SourceRubbish(f"line {number} is no sample of perf script: {line[:200]!r}; {_ADVICE}")
            period = _PERIOD.fullmatch(head["before"])
            sample = _Sample(head["event"], int(period[1]) if period else None, number)
            if head["frame"]:
                yield sample, head["frame"]
            else:
                waiting = sample
    if waiting:
        yield waiting, ""


def _space(address: int, image: str) -> str:
    """Tell whose the sample is, as perf script doesn't: a kernel's addresses are the upper half."""
    if image.startswith("[guest.kernel"):
        return "guest_kernel"
    if address >= 1 << 63 or image.startswith("[kernel.") or re.search(r"\.ko\b", image):
        return "kernel"
    return "user"
