"""What `perf script` prints: a line for each sample, or with call chains a line and its frames.

Format: process_event() in tools/perf/builtin-script.c and sample__fprintf_sym() in tools/perf/util/evsel_fprintf.c in
Linux's source. Which fields a line has is up to -F. Needed is the event; the address, the symbol, the image (dso), and
the period where the time or the CPU stands before it, are read if they are there. Between the event and the address
may stand flags, the address of data and what it belongs to, words about the access (data_src), weights and the cgroup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from virtscope.perf.perf_report import malformed
from virtscope.perf.profile import GUESTS, Hits, Place, Profile, add, event_name, in_base_units
from virtscope.toolkit.collect import SourceMalformed

# A line begins with command, ids, CPU, time, period and event, as far as they are asked for. With a time or a CPU it is
# no frame of a call chain, whatever the command is called ("dd", "ab"), and the number before the event is the period.
_TIMED = re.compile(
    r"(?:.*?\s)?(?:-?[0-9]+\.[0-9]{1,9}:|\[[0-9]{3,}\]|(?<=\s)-?[0-9]+/-?[0-9]+)\s+(?:[KUHGguMDEXS.]{1,4}\s+)?"
    r"(?:(?P<period>[0-9]{1,19})\s+)?(?P<event>[A-Za-z_\[]\S*):(?:\s+(?P<tail>.*))?"
)
_BARE = re.compile(r"(?<!\S)(?P<event>[A-Za-z_]\S*):(?=\s|$)")
_TRACEPOINT = re.compile(r"\w+:\w+(?::[a-zA-Z]+)?")
_RECORD = re.compile(r".*(?:^|\s)PERF_RECORD_[A-Z0-9_]+\b")  # --show-mmap-events and its like

_ADDRESS = re.compile(r"[0-9a-f]{1,16}")
_FRAME = re.compile(
    r"\s*(?P<address>[0-9a-f]{1,16})(?: (?P<symbol>[^\s(].*?|\(anonymous.*?))?"
    r"(?: +\((?P<image>(?:[^()]|\([^()]*\))*)\))?"
    # What may follow: the address of a branch's target or of data, registers, instructions, branches, sizes of pages.
    r"(?P<rest>\s+=> .*|(?:\s+[0-9a-f]{1,16}| +(?:[0-9]+[KMGB]|N/A))+|\s+(?:ABI:\d+|[A-Za-z0-9_]{1,8}:0x[0-9a-f]).*|"
    r"\s+(?:ilen|insn|IPC): ?.*|\s+\S.*/[MPN-]+/[X-]/[A-]/[0-9-]+\S*\s*|)"
)
_FLAGS = re.compile(
    r"(?:(?:call|return|jcc|jmp|int|iret|syscall|sysret|async|hw int|tx abrt|tr strt|tr end|vmentry|vmexit|branch|"
    r"br miss|miss|not taken|ntaken)\b\s*|\([xDt,]+\)\s*)+"
)
_ACCESS = re.compile(
    r"\|LCK +(?:N/A|Yes|No)(?:\|BLK +(?:N/A|Data Addr|Data|Addr))?(?:\|AFF +(?:N/A|[A-Z]+(?: [A-Z]+)*))?(?=\s|$)"
)
# The address of data and what it belongs to, before the address of the code.
_DATA = re.compile(r".*\)\s+(?=(?:[0-9a-f]{16}|[0-9a-f]*[0-9][0-9a-f]*) (?:[^\s(]|\(anonymous))")
_CGROUP = re.compile(r"/\S*\s+")

# Lines below a sample, or a frame of it, that have no samples: where in the source, its text, instructions, branches.
_BESIDE = re.compile(
    r"\s{1,4}\S.*(?::(?:[0-9]+|\?)|\[[0-9a-f]+\]|\+[0-9]+)(?: \(discriminator \d+\))?(?P<inlined> \(inlined\))?|\|.*|"
    r"\s*(?:ilen: .*|insn: .*)|\s+(?:ABI:\d+|[A-Za-z0-9_]{1,8}:0x[0-9a-f]).*|"
    r"\s*(?:\S.*/[MPN-]+/[X-]/[A-]/[0-9-]+\S*\s*)|\s+BPF (?:output|string):.*|\s+[0-9a-f]{4}:(?: [0-9a-f]{2})+.*"
)
_USERS = re.compile(r"\[(?:vdso|vvar|vsyscall|vectors|sigpage|uprobes|heap|stack|anon|JIT)\b")
_NOTHING = ":"  # the tail of a line that is a sample's only if a call chain follows: it has a name and a colon alone
_LOWEST = 0x1000  # no program runs in its first page: without a time, "Error: 12" is no sample
_MOST_COLONS = 8  # in a line whose event has to be searched for
_LONGEST = 20_000  # characters of a line

_ADVICE = "run `perf script -F comm,tid,time,period,event,ip,sym,dso` again and import what it prints"


class _Frame(NamedTuple):
    address: int
    image: str
    symbol: str


class _Sample(NamedTuple):
    number: int  # of its line
    line: str
    printed: str  # its event, as perf prints it
    period: int | None
    tail: str  # what stands behind the event
    frame: _Frame | None  # where it fell, as far as the tail shows
    chain: _Frame | None = None  # the first frame below it that is no inlined function
    inlined: _Frame | None = None  # the first frame that is


def parse(lines: Iterable[str]) -> Profile:
    """Return the samples by place; `lines` may be many, and are read one by one.

    Of a call chain the first frame is the sample's own, but for functions that were inlined into it. Raises
    SourceMalformed with the offending line where one can't be understood, or where there is no sample at all, and where
    an event was sampled twice.
    """
    profile: Profile = {}
    printed: dict[str, str] = {}  # each event as perf prints it, by its name
    for sample in _samples(lines):
        event = event_name(sample.printed)
        if printed.setdefault(event, sample.printed) != sample.printed:
            raise malformed(
                "perf script",
                sample.number,
                sample.line,
                f"is of {event!r}, which was sampled twice (as {printed[event]!r} too) and would count twice",
                "have perf script print one of the two",
            )
        frame = sample.chain or sample.inlined or sample.frame
        if not frame and sample.tail:
            raise malformed("perf script", sample.number, sample.line, "has no address that can be recognised", _ADVICE)
        image, symbol = (frame.image, frame.symbol) if frame else ("", "")
        space = _space(frame.address, image) if frame else ""
        domain = GUESTS if space.startswith("guest") else ""
        events = None if sample.period is None else in_base_units(event, sample.period)
        add(profile, Place.named(event, image, symbol, space, domain), Hits(1, events))
    if not profile:
        raise SourceMalformed(f"this is no output of perf script, as it has no samples; {_ADVICE}")
    return profile


def _samples(lines: Iterable[str]) -> Iterator[_Sample]:
    """Give each sample with what stands below it."""
    sample: _Sample | None = None
    above: _Frame | None = None  # what stands in the line above, if that is a frame
    chains = False  # call chains are printed
    for number, ended in enumerate(lines, 1):
        line = ended[:_LONGEST].rstrip()
        beside = _BESIDE.fullmatch(line)
        begun = _timed(number, line) or (None if beside else _bare(number, line))
        if begun or not line or _RECORD.match(line):
            if sample:
                # A blank line ends a call chain. Where there is none, what stands beside the event is no place.
                empty = not line and chains and not sample.chain and not sample.inlined
                yield sample._replace(tail="", frame=None) if empty else sample
            sample, above = begun, None
        elif sample and not beside and (frame := _frame(line)):
            chains = True
            above = frame
            if frame.image == "inlined":
                sample = sample._replace(inlined=sample.inlined or frame._replace(image=""))
            elif not sample.chain:
                sample = sample._replace(chain=frame)
        elif beside:
            if sample and beside["inlined"] and above and above is sample.chain:
                sample = sample._replace(chain=None, inlined=sample.inlined or above)
            above = None
        elif not line.startswith("#"):
            raise malformed("perf script", number, line, "is no sample and no frame of a call chain", _ADVICE)
    if sample:
        yield sample


def _timed(number: int, line: str) -> _Sample | None:
    """Return the sample that a line with a time, a CPU or both ids begins."""
    found = None if _RECORD.match(line) else _TIMED.fullmatch(line)
    if not found:
        return None
    tail = found["tail"] or ""
    period = int(found["period"]) if found["period"] else None
    return _Sample(number, line, found["event"], period, tail, _place(found["event"], tail))


def _bare(number: int, line: str) -> _Sample | None:
    """Return the sample that a line without these begins: its event is the last name with a colon that can be one."""
    if line.startswith("#"):
        return None
    for bare in reversed(list(_BARE.finditer(line))[-_MOST_COLONS:]):
        tail = line[bare.end() :].strip()
        frame = _place(bare["event"], tail)
        if (frame and frame.address >= _LOWEST) or not tail or _TRACEPOINT.fullmatch(bare["event"]):
            return _Sample(number, line, bare["event"], None, tail or _NOTHING, frame)
    return None


def _place(event: str, tail: str) -> _Frame | None:
    """Return where a sample fell, by what stands behind its event; None where that shows none."""
    rest = tail.partition(" => ")[0]
    if flags := _FLAGS.match(rest):
        rest = rest[flags.end() :]
    if access := _ACCESS.search(rest):
        rest = rest[access.end() :].strip()
        if not re.search(r"[^\s0-9]", rest):
            return None  # weights alone
    elif data := _DATA.match(rest):
        rest = rest[data.end() :]
    rest = rest.strip()
    while rest:
        if group := _CGROUP.match(rest):
            rest = rest[group.end() :]
        number = _ADDRESS.match(rest)
        if not number or rest[number.end() : number.end() + 1].strip():
            return None
        behind = rest[number.end() :]
        # A symbol stands one blank behind its address and begins with no digit; another number is set right.
        if not re.match(r" {2,}[0-9a-f]+(?:\s|$)| [0-9][0-9a-f]*(?:\s|$)| [0-9a-f]{16}(?:\s|$)| /\S* ", behind):
            frame = _frame(rest)
            return frame if frame and (frame.image or not _TRACEPOINT.fullmatch(event)) else None
        rest = behind.strip()
    return None


def _frame(line: str) -> _Frame | None:
    found = _FRAME.fullmatch(line)
    if not found:
        return None
    return _Frame(int(found["address"], 16), found["image"] or "", found["symbol"] or "")


def _space(address: int, image: str) -> str:
    """Find a sample's space, which isn't printed: a kernel's addresses are the upper half, its modules in []."""
    if image.startswith("[guest.kernel"):
        return "guest_kernel"
    if _USERS.match(image):
        return "user"
    if image == "[hypervisor]":
        return "hypervisor"
    if address >= 1 << 63 or (image.startswith("[") and image != "[unknown]") or re.search(r"\.ko\b", image):
        return "kernel"
    return "user"
