"""`xl list -l` and `xm list -l`: what kind of guest each domain is.

JSON since Xen 4.2 (a libxl_domain_config each; xl leaves out domains that another toolstack made), S-expressions
from xm and xl 4.1, each on lines of its own.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from virtscope.toolkit.sources import SourceRubbish

_DOMAIN = re.compile(rb"^\(domain$", re.MULTILINE)
_DOMID = re.compile(rb"^[ \t]+\(domid ([0-9]{1,5})\)$", re.MULTILINE)
_UUID = re.compile(rb"^[ \t]+\(uuid ([0-9a-f-]{36})\)$", re.MULTILINE)
_IMAGE = re.compile(rb"^[ \t]+\(image\n?[ \t]*\((linux|hvm)\b", re.MULTILINE)
_XL_IMAGE = re.compile(rb"^[ \t]+\(hvm ([01])\)$", re.MULTILINE)


class Details(NamedTuple):
    """What is told of a domain at length."""

    uuid: str  # "" where it isn't told
    type: str  # pv, hvm or pvh; "" where it isn't told


def parse(output: bytes) -> dict[int, Details]:
    """Return the details by domid; raises SourceRubbish where these are not a list of domains."""
    if output.lstrip()[:1] in {b"[", b"{"}:
        return _from_json(output)
    if output.strip() and not _DOMAIN.search(output):
        raise SourceRubbish(f"neither JSON nor (domain ...), but {output[:200]!r}")
    return _from_sxp(output)


def _from_json(output: bytes) -> dict[int, Details]:
    try:
        # No name is taken of it, so bytes that are no UTF-8 do no harm.
        listed = json.loads(output.decode("utf-8", "replace"), parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise SourceRubbish(f"JSON that can't be read: {error}: {output[:200]!r}") from error
    details = {}
    for each in listed if isinstance(listed, list) else [listed]:
        domid, config = _of(each, "domid"), _of(each, "config")
        if type(domid) is not int or not isinstance(config, dict):
            raise SourceRubbish(f"no domain, but {str(each)[:200]!r}")
        create, build = _of(config, "c_info"), _of(config, "b_info")
        uuid = _of(create, "uuid")
        details[domid] = Details(uuid if isinstance(uuid, str) else "", _type(create, build))
    return details


def _int(digits: str) -> int | None:
    return int(digits) if len(digits) <= 20 else None  # many more would take Python long


def _type(create: Any, build: Any) -> str:
    kind = _of(create, "type")
    # PVH before 4.10: 4.4 to 4.8 took it for a PV guest, 4.9 for an HVM guest without a device model.
    if kind == "pv" and _of(create, "pvh") in {True, "True"}:
        return "pvh"
    if kind == "hvm" and _of(build, "device_model_version") == "none":
        return "pvh"
    return str(kind) if kind in {"pv", "hvm", "pvh"} else ""


def _of(thing: Any, key: str) -> Any:
    return thing.get(key) if isinstance(thing, dict) else None


def _from_sxp(output: bytes) -> dict[int, Details]:
    starts = [found.start() for found in _DOMAIN.finditer(output)]
    details = {}
    for start, end in zip(starts, [*starts[1:], len(output)]):
        domain = output[start:end]
        domid, uuid = _DOMID.search(domain), _UUID.search(domain)
        image, xl_image = _IMAGE.search(domain), _XL_IMAGE.search(domain)
        kind = ""
        if image:
            kind = "hvm" if image[1] == b"hvm" else "pv"
        elif xl_image:
            kind = "hvm" if xl_image[1] == b"1" else "pv"
        if domid:
            details[int(domid[1])] = Details(uuid[1].decode() if uuid else "", kind)
    return details
