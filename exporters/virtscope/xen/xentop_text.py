"""Parses the text of `xentop -b`, of every Xen with a batch mode (3.0.3 to 4.21). Pure functions.

An iteration is a header and a row for each domain, with detail lines (-n -x -v) below each row:

          NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS NETS NETTX(k) ... VBD_WSECT SSID
         web01 --b---         32   19.8      98304    4.7      99328       4.7     1    1      467 ...      3520    0
    VCPUs(sec):   0:         32s
    Net0 RX:   469620bytes      480pkts        0err        0drop  TX:   478208bytes      498pkts        0err ...
    VBD BlkBack 51712 [ca: 0]  OO:        0   RD:      169   WR:       55   RSECT:      12552   WSECT:       3520

Format: tools/xentop/xentop.c (before 4.15: tools/xenstat/xentop) in Xen's source. Names can contain anything, including
blanks and text like columns, so columns are counted from the right. xl rename allows names with line breaks: the last
line is the name then, and the others are unknown lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen.devices import block, known_apart, loses_read_sectors, network
from virtscope.xen.model import DOM0, DOM0_NAME, STATES, Block, Domain, Host, Missing, Network, Vcpu, decoded, number

MAX_VCPUS = 8192  # Xen's own bound for a PV domain
MAX_DEVICES = 4096  # of a kind in one domain, an event channel each; unbounded, parsing could take seconds

# May follow remains of a terminal or of an interrupted capture. The bound keeps the search linear.
_HEADER = re.compile(rb"^(?P<before>[^\n]*?)(?P<columns>NAME +STATE +CPU\(sec\) [^\n]{0,400}SSID)\r*\n", re.MULTILINE)
_CUT_HEADER = re.compile(rb"^ *NAME +STATE +CPU\(sec\)[^\n]*\n", re.MULTILINE)  # not complete, and not a row
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_NEEDED = {b"CPU(sec)", b"MEM(k)", b"MAXMEM(k)", b"MAXMEM(%)", b"VCPUS", b"SSID"}
_STATE = re.compile(rb"[d-][s-][b-][c-][p-][r-]")
# These lines must end in a line break: a truncated one would lack vCPUs, or a counter's last digits.
_VCPUS = re.compile(rb"VCPUs\(sec\): *((?:[0-9]+: *[0-9]+s *)*)\r*\n")
_MORE_VCPUS = re.compile(rb" +((?:[0-9]+: *[0-9]+s *)+)\r*\n")  # wrapped before vCPU 5, 10, 15..
_VCPU = re.compile(rb"([0-9]+): *([0-9]+)s")
_WAY = rb"X: *([0-9]+)bytes *([0-9]+)pkts *([0-9]+)err *([0-9]+)drop\s*"
_NETWORK = re.compile(rb"Net([0-9]+) R" + _WAY + rb"T" + _WAY)
_VBD = re.compile(
    rb"VBD +(?:(?P<type>[A-Za-z][A-Za-z0-9]*) +)?(?P<number>[0-9]+)(?: \[ *[0-9a-f]+: *[0-9a-f]+\])?"  # on Linux
    rb" +OO: *(?P<oo>[0-9]+|-) +RD: *(?P<rd>[0-9]+|-) +WR: *(?P<wr>[0-9]+|-)"
    rb"(?: +RSECT: *(?P<rsect>[0-9]+|-) +WSECT: *(?P<wsect>[0-9]+|-))? *\r*\n"
)
_PASSED_OVER = re.compile(
    rb"xentop - |[0-9]+ domains: |Mem: +[0-9]+k total"  # host summary: in batch mode before Xen 3.2
    rb"| +Delay  Networks  "  # last line of a screen, not in batch mode
    rb"|Tmem:  "  # --tmem, 4.0 to 4.12
    rb"|Physical CPU Usage:$|\+-------\+--------\+$|\| [^|]*\| [^|]*\|$"  # -p, from 4.21
)
_DETAIL_LIKE = re.compile(rb"(?:VCPUs\(sec\):|Net[0-9]|VBD )(?!.* [d-][s-][b-][c-][p-][r-] )")


class Parsed(NamedTuple):
    """One iteration. `unknown` has the lines that can't be parsed; their values are in no domain."""

    host: Host
    unknown: tuple[bytes, ...]


@dataclass
class _Row:
    """A domain's row, with the values of its detail lines so far."""

    name: bytes
    state: bytes  # six letters: d s b c p r, or "-"
    numbers: dict[bytes, int]  # by column; without MAXMEM(k) if the domain has no limit
    vcpu_seconds: dict[int, int] | None = None  # of online vCPUs; None without a VCPUs line
    networks: list[Network] = field(default_factory=list)  # numbered by position in xentop's list
    blocks: list[Block] = field(default_factory=list)


def whole_iterations(text: bytes) -> tuple[list[bytes], bytes]:
    """Split xentop's output so far into complete iterations and the rest.

    Only the next header marks an iteration's end; a pause doesn't, as xentop may be stopped between any two lines. This
    needs a xentop without -r, which prints headers within an iteration.
    """
    starts = [header.start() for header in _HEADER.finditer(text)]
    if len(starts) < 2:
        return [], text
    starts[0] = 0  # parse() handles text before the first header
    return [text[start:end] for start, end in zip(starts, starts[1:])], text[starts[-1] :]


def cut_header(text: bytes) -> bytes | None:
    """Return the first header of a text without a complete one, such as with lines cut or wrapped at a width."""
    found = None if _HEADER.search(text) else _CUT_HEADER.search(text)
    return found[0].rstrip(b"\r\n") if found else None


def parse(iteration: bytes, xen_version: str | None = None) -> Parsed:
    """Parse one complete iteration of this version of Xen, if known; headers may be repeated, as with -r.

    Guests have no domid, and the host has no values. Dom0 is the domain named Domain-0 if it is running: it always is,
    as xentop runs in it. If several domains have that name, none is taken for Dom0.

    Lines that can't be parsed are returned as unknown. If such a line may be a domain's row, so are the details below
    it, which don't belong to the previous domain.

    Raises SourceMalformed, with the text, if no domain can be parsed, or for an incomplete header between rows: the
    rows after it may be another iteration's.
    """
    columns: list[bytes] | None = None
    rows: list[_Row] = []
    unknown: list[bytes] = []
    owned = False  # whether the following detail lines belong to the last of `rows`
    sectors_lost = loses_read_sectors(xen_version)
    for ended in _LINE.findall(iteration):
        line = ended.rstrip(b"\r\n")
        if header := _HEADER.match(ended):
            columns = header["columns"].split()
            owned = False
            if before := header["before"].strip():
                unknown.append(before)
        elif not line:
            continue
        elif columns and (row := _row(line, columns)):
            rows.append(row)
            owned = True
        elif rows and _CUT_HEADER.match(ended):
            raise SourceMalformed(f"xentop's header is not whole: {line!r:.300}")
        elif _PASSED_OVER.match(line) or (owned and _add_detail(rows[-1], ended, sectors_lost)):
            continue
        else:
            unknown.append(line)
            last = rows[-1] if owned else None
            if (
                last
                and len(last.vcpu_seconds or ()) < last.numbers[b"VCPUS"]
                and not line.startswith((b"Net", b"VBD "))
            ):
                last.vcpu_seconds = None  # the line may have more vCPUs: don't show only a part of them
            owned = owned and _DETAIL_LIKE.match(line) is not None
    if not rows:
        if cut := cut_header(iteration):
            raise SourceMalformed(f"xentop's header is not whole: {cut!r:.300}")
        raise SourceMalformed(f"no domain in what xentop printed: {(unknown or [iteration])[0][:200]!r}")
    named_dom0 = [row for row in rows if row.name == DOM0_NAME]
    dom0 = named_dom0[0] if len(named_dom0) == 1 and named_dom0[0].state.endswith(b"r") else None
    domains = tuple([_domain(row, DOM0 if row is dom0 else None) for row in rows])
    return Parsed(Host(xen_version, domains=domains), tuple(unknown))


def _domain(row: _Row, domid: int | None) -> Domain:
    numbers = row.numbers
    limit, vifs, vbds = numbers.get(b"MAXMEM(k)"), numbers.get(b"NETS"), numbers.get(b"VBDS")
    networks, blocks = known_apart(row.networks, vifs), known_apart(row.blocks, vbds)
    return Domain(
        domid=domid,
        name=decoded(row.name),
        cpu_seconds=_cpu_seconds(numbers[b"CPU(sec)"]),
        memory_bytes=numbers[b"MEM(k)"] * 1024,
        memory_limit_bytes=None if limit is None else limit * 1024,
        ssid=numbers[b"SSID"],
        states=frozenset([state for state in STATES if state[0].encode() in row.state]),
        vcpus=tuple([_vcpu(row.vcpu_seconds, each) for each in range(numbers[b"VCPUS"])]),
        networks=networks,
        blocks=blocks,
        missing=Missing(
            vcpus=numbers[b"VCPUS"] if row.vcpu_seconds is None else 0,
            networks=max(vifs or 0, len(row.networks)) - len(networks),
            blocks=max(vbds or 0, len(row.blocks)) - len(blocks),
        ),
        vifs=vifs,
    )


def _vcpu(seconds: dict[int, int] | None, number: int) -> Vcpu:
    """Return a vCPU; xentop omits offline ones."""
    if seconds is None:
        return Vcpu(None, None)
    return Vcpu(number in seconds, _cpu_seconds(seconds[number]) if number in seconds else None)


def _cpu_seconds(seconds: int) -> float | None:
    """Return CPU time; None if bit 63 of the nanoseconds was set, as the rest isn't exact to the second."""
    return None if seconds >= (1 << 63) // 10**9 else float(seconds)


def with_names(iteration: bytes, renamed: Callable[[bytes], bytes]) -> bytes:
    """Return an iteration with its domains renamed.

    Lines that can't be parsed may contain a name anywhere: letters become x, digits 0.
    """
    columns: list[bytes] | None = None
    lines = []
    for ended in _LINE.findall(iteration):
        line = ended.rstrip(b"\r\n")
        if header := _HEADER.match(ended):
            columns = header["columns"].split()
            lines.append(_masked(header["before"]) + ended[header.start("columns") :])
        elif columns and (row := _row(line, columns)):
            start = len(line) - len(line.lstrip(b" "))
            lines.append(ended[:start] + renamed(row.name) + ended[start + len(row.name) :])
        elif passed_over := _PASSED_OVER.match(line):
            lines.append(passed_over[0] + _masked(ended[passed_over.end() :]))
        elif any(detail.fullmatch(ended) for detail in (_VCPUS, _MORE_VCPUS, _NETWORK, _VBD)):
            lines.append(ended)
        else:
            lines.append(_masked(ended))
    return b"".join(lines)


def _masked(line: bytes) -> bytes:
    return re.sub(rb"[0-9]", b"0", re.sub(rb"[A-Za-z\x80-\xff]", b"x", line))


def _row(line: bytes, columns: list[bytes]) -> _Row | None:
    """Parse a domain's row; None if malformed. The columns after the name are counted from the right."""
    wanted = columns[1:]
    if not set(wanted) >= _NEEDED:
        raise SourceMalformed(f"xentop's header lacks columns: {b' '.join(columns)[:300]!r}")
    fields = line.rsplit(None, len(wanted) + 1)
    limit = wanted.index(b"MAXMEM(k)") - len(wanted)
    if len(fields) > len(wanted) and fields[limit - 1 : limit + 1] == [b"no", b"limit"]:  # the one value with a blank
        fields[limit - 1 : limit + 1] = [b"no limit"]
    else:
        fields = line.rsplit(None, len(wanted))
    if len(fields) < len(wanted):
        return None
    values = dict(zip(wanted, fields[-len(wanted) :]))
    state = values.pop(b"STATE")
    unlimited = values[b"MAXMEM(k)"] == b"no limit"
    numbers = {
        column: number(value)
        for column, value in values.items()
        # Percentages aren't parsed, as they follow from other columns. Only VBD statistics can be "-".
        if not column.endswith(b"(%)")
        and not (unlimited and column == b"MAXMEM(k)")
        and not (value == b"-" and column.startswith(b"VBD_"))
    }
    known = {column: each for column, each in numbers.items() if each is not None}
    if not _STATE.fullmatch(state) or len(known) < len(numbers) or known[b"VCPUS"] > MAX_VCPUS:
        return None
    # One blank precedes the state; more belong to the name's end. Blanks before the name are padding.
    behind = len(fields) > len(wanted)
    state_at = line.index(state, len(fields[0]) if behind else 0)
    return _Row(line[: max(state_at - 1, 0)].lstrip(b" "), state, known)


def _add_detail(row: _Row, line: bytes, sectors_lost: bool) -> bool:
    """Add a detail line to the row; return False if the line is no detail of this domain."""
    if found := _VCPUS.fullmatch(line) if row.vcpu_seconds is None else _MORE_VCPUS.fullmatch(line):
        pairs = [(number(vcpu), number(seconds)) for vcpu, seconds in _VCPU.findall(found[1])]
        listed = {vcpu: seconds for vcpu, seconds in pairs if vcpu is not None and seconds is not None}
        before = row.vcpu_seconds or {}
        known = len(listed) == len(pairs) and not listed.keys() & before.keys()
        known = known and max(listed, default=-1) < row.numbers[b"VCPUS"]
        if known:
            row.vcpu_seconds = {**before, **listed}
        return known
    if found := _NETWORK.fullmatch(line):
        numbers = [each for each in map(number, found.groups()) if each is not None]
        known = len(numbers) == 9 and len(row.networks) < MAX_DEVICES
        if known:
            row.networks.append(network(numbers[0], numbers[1:]))
        return known
    if found := _VBD.fullmatch(line):
        vbd = number(found["number"])
        printed = [found[counter] for counter in ("oo", "rd", "wr", "rsect", "wsect")]  # before Xen 4.0 no sectors
        counters = [None if digits in {None, b"-"} else number(digits) for digits in printed]
        odd = any(count is None and digits not in {None, b"-"} for count, digits in zip(counters, printed))
        if vbd is None or odd or len(row.blocks) >= MAX_DEVICES:
            return False
        if sectors_lost:
            counters[3] = None
        # Before Xen 3.2 the back end isn't printed.
        row.blocks.append(block((found["type"] or b"").decode(), vbd, counters))
        return True
    return False
