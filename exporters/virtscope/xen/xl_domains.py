"""Parses the output of `xl` and `xm` about domains: the list, vCPUs' placements, and guests' types.

`xl list -v -c`, `xl list -v`, `xl list` and `xm list`:

    Name                                        ID   Mem VCPUs State Time(s)   UUID  Reason-Code Security Label  Cpupool
    web01                                        1    96     1     -b----       7.8 586d02b6-...  -   -           Pool-0

`xl vcpu-list` and `xm vcpu-list`:

    Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)
    Domain-0                             0     1    -   --p       0.0  all / all

`xl list -l` and `xm list -l`: JSON since Xen 4.2 (a libxl_domain_config each; xl omits domains of another toolstack),
S-expressions from xm and xl 4.1, each on lines of its own.

Formats: list_domains() and similar functions in Xen's tools/xl/xl_info.c and xl_vcpu.c (4.1 to 4.8:
tools/libxl/xl_cmdimpl.c); for xm, tools/python/xen/xm/main.py. Names can contain anything, so columns are counted from
the right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple, TypeVar

from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen.model import Placement, decoded

T = TypeVar("T")

NUMBER = re.compile(rb"[0-9]{1,19}")
_SECONDS = re.compile(rb"[0-9]{1,20}\.[0-9]")

_LISTED_UUID = re.compile(rb" ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?= )")
_MAX_LINE = 8192  # bytes of a line; names are XenStore's values, of up to 4096
_LISTED_STATE = re.compile(rb"[-rbpscdwS?]{5,10}")

_CPU = re.compile(rb"-|[0-9]{1,19}")
_VCPU_STATE = re.compile(rb"[-r][-b][-p]")
_CPUS = re.compile(rb"all|none|[0-9]{1,5}(?:[-,^][0-9]{1,5})*")
_RANGES = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_AFFINITY_WORDS = {b"any cpu": b"all", b"no cpus": b"none"}  # before Xen 4.5, which had only hard affinity

_SXP_DOMAIN = re.compile(rb"^\(domain$", re.MULTILINE)
_SXP_DOMID = re.compile(rb"^[ \t]+\(domid ([0-9]{1,5})\)$", re.MULTILINE)
_SXP_UUID = re.compile(rb"^[ \t]+\(uuid ([0-9a-f-]{36})\)$", re.MULTILINE)
_SXP_IMAGE = re.compile(rb"^[ \t]+\(image\n?[ \t]*\((linux|hvm)\b", re.MULTILINE)
_SXP_XL_IMAGE = re.compile(rb"^[ \t]+\(hvm ([01])\)$", re.MULTILINE)
_SXP_KINDS = {b"linux": "pv", b"0": "pv", b"hvm": "hvm", b"1": "hvm", b"": ""}


class Listed(NamedTuple):
    """A row of the list."""

    domid: int
    name: str
    cpu_seconds: float
    uuid: str  # "" if not listed: xm, and xl before 4.1
    cpupool: str  # "" if not listed: before 4.6


class Details(NamedTuple):
    """A domain in the long list."""

    uuid: str  # "" if missing
    type: str  # pv, hvm or pvh; "" if missing


def parse_list(output: bytes) -> tuple[list[Listed], list[bytes]]:
    """Return the domains, and lines that can't be parsed.

    Raises SourceMalformed without a header: this isn't a listing at all.
    """
    lines = output.split(b"\n")
    headers = [at for at, line in enumerate(lines) if line.split()[:2] == [b"Name", b"ID"]]
    if not headers:
        raise SourceMalformed(f"no list of domains, but {output[:200]!r}")
    verbose, pools = b"UUID" in lines[headers[0]], b"Cpupool" in lines[headers[0]]

    def row(line: bytes) -> Listed | None:
        if len(line) > _MAX_LINE:
            return None
        return _verbose_list_row(line, pools) if verbose else _list_row(line)

    return parse_rows(lines[headers[0] + 1 :], row)


def parse_rows(lines: Iterable[bytes], row: Callable[[bytes], T | None]) -> tuple[list[T], list[bytes]]:
    """Apply `row` to the lines; return its results, and the lines for which it returns None."""
    parsed = [(line, row(line)) for line in lines if line]
    return [each for _, each in parsed if each is not None], [line for line, each in parsed if each is None]


def _list_row(line: bytes) -> Listed | None:
    row = split_columns(line, [NUMBER, NUMBER, NUMBER, _LISTED_STATE, _SECONDS])
    return Listed(int(row[1][0]), row[0], float(row[1][4]), "", "") if row else None


def _verbose_list_row(line: bytes, pools: bool) -> Listed | None:
    # From the right: a guest's name may look like a row; CPU pools are named by the administrator.
    for found in reversed(list(_LISTED_UUID.finditer(line))):
        listed = _list_row(line[: found.start()])
        if listed:
            pool = _pool(line[found.end() :]) if pools else b""
            return listed._replace(uuid=found[1].decode(), cpupool=decoded(pool))
    return None


def _pool(rest: bytes) -> bytes:
    """Return the CPU pool of "reason label pool"; a long pool name directly follows the label."""
    _, _, rest = rest.lstrip(b" ").partition(b" ")
    rest = rest.lstrip(b" ")
    label = b"-" if rest[:1] == b"-" else rest.split(b" ", 1)[0]  # "-" or, with XSM, such as system_u:object_r:domU_t
    return rest[len(label) :].strip(b" ")


def parse_vcpus(output: bytes) -> tuple[dict[int, dict[int, Placement]], list[bytes]]:
    """Return the placements by domid and vCPU number, and lines that can't be parsed."""
    placements: dict[int, dict[int, Placement]] = {}
    unknown = []
    soft_too = False
    for line in filter(None, output.split(b"\n")):
        if line.rstrip().endswith((b" Affinity", b"(Hard / Soft)")):  # no row ends like this, whatever its name
            soft_too = line.rstrip().endswith(b"(Hard / Soft)")
        elif row := _vcpu_row(line, soft_too):
            domid, vcpu, placement = row
            placements.setdefault(domid, {})[vcpu] = placement
        else:
            unknown.append(line)
    return placements, unknown


def _vcpu_row(line: bytes, soft_too: bool) -> tuple[int, int, Placement] | None:
    line, _, soft = line.rpartition(b" / ") if soft_too else (line, b"", b"")
    for words, word in _AFFINITY_WORDS.items():
        if line.endswith(b" " + words):
            line = line[: -len(words)] + word
    row = split_columns(line, [NUMBER, NUMBER, _CPU, _VCPU_STATE, _SECONDS, _CPUS])
    if row is None or not _CPUS.fullmatch(soft if soft_too else b"all"):
        return None
    domid, vcpu, cpu, _, _, hard = row[1]
    return int(domid), int(vcpu), Placement(None if cpu == b"-" else int(cpu), hard.decode(), soft.decode())


def cpus_of(affinity: str) -> frozenset[int] | None:
    """Return the physical CPUs of a placement's hard or soft affinity, such as "0-3,7"; None: any."""
    if affinity == "none":
        return frozenset()
    if not _RANGES.fullmatch(affinity):
        return None  # "all", or "" if unknown
    ranges = (part.partition("-") for part in affinity.split(","))
    return frozenset(cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1))


def parse_details(output: bytes) -> dict[int, Details]:
    """Return the details by domid; raises SourceMalformed if the output isn't a list of domains."""
    if output.lstrip()[:1] in {b"[", b"{"}:
        return _from_json(output)
    if output.strip() and not _SXP_DOMAIN.search(output):
        raise SourceMalformed(f"neither JSON nor (domain ...), but {output[:200]!r}")
    return _from_sxp(output)


def _from_json(output: bytes) -> dict[int, Details]:
    try:
        # Names aren't used, so bytes that aren't UTF-8 are harmless.
        listed = json.loads(output.decode("utf-8", "replace"), parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise SourceMalformed(f"JSON that can't be read: {error}: {output[:200]!r}") from error
    details = {}
    for each in listed if isinstance(listed, list) else [listed]:
        domid, config = _of(each, "domid"), _of(each, "config")
        if type(domid) is not int or not isinstance(config, dict):
            raise SourceMalformed(f"no domain, but {str(each)[:200]!r}")
        create, build = _of(config, "c_info"), _of(config, "b_info")
        uuid = _of(create, "uuid")
        details[domid] = Details(uuid if isinstance(uuid, str) else "", _type(create, build))
    return details


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) <= 20 else None  # long numbers are slow in Python


def _type(create: Any, build: Any) -> str:
    kind = _of(create, "type")
    # PVH before 4.10: a PV guest in 4.4 to 4.8, an HVM guest without device model in 4.9.
    if kind == "pv" and _of(create, "pvh") in {True, "True"}:
        return "pvh"
    if kind == "hvm" and _of(build, "device_model_version") == "none":
        return "pvh"
    return str(kind) if kind in {"pv", "hvm", "pvh"} else ""


def _of(thing: Any, key: str) -> Any:
    return thing.get(key) if isinstance(thing, dict) else None


def _from_sxp(output: bytes) -> dict[int, Details]:
    starts = [found.start() for found in _SXP_DOMAIN.finditer(output)]
    details = {}
    for start, end in zip(starts, [*starts[1:], len(output)]):
        domain = output[start:end]
        domid, uuid = _SXP_DOMID.search(domain), _SXP_UUID.search(domain)
        image, xl_image = _SXP_IMAGE.search(domain), _SXP_XL_IMAGE.search(domain)
        kind = _SXP_KINDS[image[1] if image else xl_image[1] if xl_image else b""]
        if domid:
            details[int(domid[1])] = Details(uuid[1].decode() if uuid else "", kind)
    return details


def split_columns(line: bytes, forms: Sequence[re.Pattern[bytes]]) -> tuple[str, list[bytes]] | None:
    """Split a line into a name and columns of these forms; None if it has others.

    Blanks at the name's end are stripped, as padding looks the same. "" is a domain without a name.
    """
    fields = line.rsplit(None, len(forms))
    if len(fields) == len(forms) and line[:1].isspace():
        fields.insert(0, b"")
    if len(fields) <= len(forms) or not all(form.fullmatch(field) for form, field in zip(forms, fields[1:])):
        return None
    return decoded(fields[0].rstrip(b" ")), fields[1:]
