"""The recording format of the Xen sources: decodes JSON, and replaces domains' names by pseudonyms."""

from __future__ import annotations

import json
from typing import NamedTuple

from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import Failed, many, optional, or_failed, pair, real, record, text, whole, word
from virtscope.xen import runstate
from virtscope.xen.libxenstat import RawDomain, RawNode, RawVbd, RawVcpu
from virtscope.xen.model import DOM0_NAME, Waiting, decoded
from virtscope.xen.netdev import RawNetwork
from virtscope.xen.runstate import RawRunstate
from virtscope.xen.xentop import Iteration
from virtscope.xen.xentop_text import with_names
from virtscope.xen.xl import Answer, RawToolstack
from virtscope.xen.xl_domains import parse_details


class Snapshot(NamedTuple):
    """libxenstat's values at one moment, and the same domains' run states."""

    node: RawNode
    runstates: tuple[RawRunstate, ...] | Failed


class Printed(NamedTuple):
    """xentop's output, and the version of the running Xen, if known."""

    iteration: Iteration
    xen_version: str | None


def waiting(snapshot: Snapshot) -> list[Waiting]:
    """Return the domains' run states; raises the recorded SourceError."""
    if isinstance(snapshot.runstates, Failed):
        raise snapshot.runstates.error()
    domains = {domain.id: (decoded(domain.name), len(domain.vcpus)) for domain in snapshot.node.domains}
    return [runstate.waiting(account, *domains[account.domid]) for account in snapshot.runstates]


_vcpu = record(RawVcpu)
_network = record(RawNetwork, emulated=optional(whole))
_vbd = record(RawVbd, error=optional(whole))
_domain = record(
    RawDomain,
    vcpus=many(_vcpu),
    networks=many(_network),
    vbds=many(_vbd),
    name=optional(text),
)
_node = record(RawNode, domains=many(_domain), xen_version=optional(text))
_runstate = record(RawRunstate, times=many(whole), runnable=optional(whole))
_snapshot = record(Snapshot, node=_node, runstates=or_failed(many(_runstate)))
_iteration = record(Iteration, text=text, age=real)
printed = record(Printed, iteration=_iteration, xen_version=optional(word))


def snapshot(data: object) -> Snapshot:
    """Decode a reading of libxenstat; raises SourceMalformed."""
    decoded = _snapshot(data)
    if not isinstance(decoded.runstates, Failed):
        strangers = {raw.domid for raw in decoded.runstates} - {domain.id for domain in decoded.node.domains}
        if strangers:
            raise SourceMalformed(f"it has runstates of domains that it doesn't have: {sorted(strangers)[:5]}")
    return decoded


_answer = record(Answer, command=word, output=text, problem=word)
toolstack = record(RawToolstack, program=word, answers=many(_answer), os_names=many(pair(whole, text)))


def without_secrets(raw: RawToolstack) -> RawToolstack:
    """Return the toolstack's answers without secrets of `xl list -l`, such as VNC passwords and disks.

    Keeps only what the exporter reads, and nothing of an answer that it can't read.
    """
    answers = [
        answer._replace(output=_kinds(answer.output)) if answer.command == "list -l" else answer
        for answer in raw.answers
    ]
    return raw._replace(answers=tuple(answers))


def _kinds(output: bytes) -> bytes:
    try:
        details = parse_details(output)
    except SourceMalformed:
        return b""
    kept = [{"domid": domid, "config": {"c_info": each._asdict()}} for domid, each in details.items()]
    return json.dumps(kept).encode() if kept else b""


# Xen's own names, not replaced. The first identifies Dom0.
_XENS_OWN = {DOM0_NAME, b"(null)", b""}


def anonymised_snapshot(raw: Snapshot, stand_ins: StandIns) -> Snapshot:
    """Return libxenstat's snapshot with pseudonyms for the domains' names."""
    domains = tuple(domain._replace(name=_name(domain.name, stand_ins)) for domain in raw.node.domains)
    runstates = raw.runstates._replace(message="left out") if isinstance(raw.runstates, Failed) else raw.runstates
    return Snapshot(raw.node._replace(domains=domains), runstates)


def anonymised_text(raw: Printed, stand_ins: StandIns) -> Printed:
    """Return xentop's text with pseudonyms for the domains' names; unknown lines lose all letters."""
    renamed = with_names(raw.iteration.text, lambda name: _name(name, stand_ins) or b"")
    return raw._replace(iteration=raw.iteration._replace(text=renamed))


def _name(name: bytes | None, stand_ins: StandIns) -> bytes | None:
    return name if name is None or name in _XENS_OWN else stand_ins(name)
