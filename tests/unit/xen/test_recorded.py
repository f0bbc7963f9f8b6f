"""xentop-exporter's recordings: lossless, and without names if requested."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.parsers import FIXTURES
from tests.support.refusals import refusal
from tests.unit.xen.test_libxenstat_fields import recorded_node
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import Failed, encode
from virtscope.xen import libxenstat, model, recorded
from virtscope.xen.recorded import Printed, Snapshot
from virtscope.xen.runstate import RawRunstate
from virtscope.xen.toolstack import parse as parse_toolstack
from virtscope.xen.xentop import Iteration
from virtscope.xen.xentop_text import parse, whole_iterations, with_names
from virtscope.xen.xl import Answer, RawToolstack
from virtscope.xen.xl_domains import parse_details

pytestmark = pytest.mark.usefixtures("same_stand_ins")

TEXTS = sorted((FIXTURES / "xentop").glob("*.txt"))
RUNSTATES = (RawRunstate(0, 1, 2, (1, 2, 3, 4, 5, 6), 7), RawRunstate(1, 1, 2, (1, 2, 3, 4, 5, 6), None))
ANSWERS = tuple(
    Answer(path.name.removesuffix(" -v"), path.read_bytes(), "", False)
    for path in (FIXTURES / "toolstack/xl-4.17-credit").iterdir()
)
RAW = RawToolstack("/usr/sbin/xl", ANSWERS, ((1, b"\xff"),))


def written(reading: object) -> object:
    """A reading after a round trip through a file."""
    return json.loads(json.dumps(encode(reading)))


def test_a_reading_comes_back_as_it_was_also_from_older_and_newer_releases() -> None:
    for runstates in (RUNSTATES, Failed("unavailable", "no such call")):
        snapshot = Snapshot(recorded_node(), runstates)
        assert recorded.snapshot(written(snapshot)) == recorded.snapshot(with_more(encode(snapshot))) == snapshot
    older: Any = written(snapshot)
    for network in [network for domain in older["node"]["domains"] for network in domain["networks"]]:
        del network["emulated"]
    assert recorded.snapshot(older) == snapshot
    answers: Any = written(RAW)
    assert recorded.toolstack(answers) == RAW
    del answers["os_names"]
    assert recorded.toolstack(answers) == RAW._replace(os_names=())


@given(st.binary(), st.none() | st.text())
def test_text_comes_back_as_it_was(printed: bytes, version: str | None) -> None:
    reading = Printed(Iteration(printed, 1.25, 3), version)
    assert recorded.printed(written(reading)) == reading


def with_more(data: object) -> object:
    """The same with an additional field in each object, as a later release may write it."""
    if isinstance(data, list):
        return [with_more(each) for each in data]
    if isinstance(data, dict):
        return {"of_later": [1], **{key: with_more(value) for key, value in data.items()}}
    return data


def test_a_malformed_snapshot_is_refused() -> None:
    malformed: dict[str, object] = {"domains": [{}], "num_cpus": -1, "cpu_hz": 2**64, "xen_version": 4}
    for field, value in malformed.items():
        data: Any = written(Snapshot(recorded_node(), ()))
        data["node"][field] = value
        refusal(SourceMalformed, recorded.snapshot, data)
    data = written(Snapshot(recorded_node(), ()))
    del data["node"]["domains"][0]["vcpus"][0]["online"]
    assert "it lacks online in \"{'ns': 49522293500}" in str(refusal(SourceMalformed, recorded.snapshot, data))
    strange = encode(Snapshot(recorded_node(), (RUNSTATES[0]._replace(domid=77),)))
    assert "doesn't have: [77]" in str(refusal(SourceMalformed, recorded.snapshot, strange))


def test_an_anonymised_snapshot_keeps_its_numbers_and_no_name() -> None:
    node = recorded_node()
    anonymised = recorded.anonymised_snapshot(Snapshot(node, RUNSTATES), StandIns())
    text = json.dumps(encode(anonymised))
    for before, after in zip(node.domains, anonymised.node.domains, strict=True):
        assert before._replace(name=None) == after._replace(name=None)
        if before.name != model.DOM0_NAME:
            assert before.name
            assert before.name.decode() not in text
            assert len(after.name or b"") == len(before.name)
    assert libxenstat.host(anonymised.node).domains[0].name == "Domain-0"


def test_anonymised_text_keeps_its_numbers_and_no_name() -> None:
    for file in TEXTS:
        iterations, last = whole_iterations(file.read_bytes())
        stand_ins = StandIns()
        for iteration in [*iterations, last]:
            anonymised = recorded.anonymised_text(Printed(Iteration(iteration, 0, 1), None), stand_ins).iteration.text
            before, after = parse(iteration), parse(anonymised)
            assert len(after.unknown) == len(before.unknown), file
            for was, now in zip(before.host.domains, after.host.domains, strict=True):
                assert was._replace(name="") == now._replace(name=""), file
                if was.name not in {"Domain-0", "(null)"}:
                    assert now.name == stand_ins(was.name.encode()).decode()
                    assert was.name.encode() not in anonymised or len(was.name) < 3, file


def test_unknown_lines_of_anonymised_text_hold_no_letter_of_a_name() -> None:
    header = b"NAME STATE CPU(sec) CPU(%) MEM(k) MEM(%) MAXMEM(k) MAXMEM(%) VCPUS SSID\n"
    odd = b"secret\nname --b--- 1 0.0 1 0.0 1 0.0 1 0\nVCPUs(sec): of secret 12\nTmem:  secret\nsecret " + header
    anonymised = with_names(header + odd, lambda _: b"x")
    assert b"secret" not in anonymised
    assert anonymised.startswith(header + b"xxxxxx\nx --b---")
    assert len(parse(anonymised).unknown) == len(parse(header + odd).unknown)


def test_only_the_shown_parts_of_guests_configurations_are_recorded() -> None:
    def without_secrets(listed: bytes) -> bytes:
        (answer,) = recorded.without_secrets(RAW._replace(answers=(Answer("list -l", listed, "", False),))).answers
        return answer.output

    config = {"c_info": {"type": "hvm", "uuid": "u", "name": "n"}, "b_info": {"passwd": "secret"}, "disks": ["secret"]}
    listed = json.dumps([{"domid": 3, "config": config}, {"domid": 4, "config": {}}]).encode()
    assert b"secret" not in without_secrets(listed)
    assert parse_details(without_secrets(listed)) == parse_details(listed)
    assert parse_toolstack(recorded.without_secrets(RAW)) == parse_toolstack(RAW)
    for another_form in (b"(domain\n (passwd secret))\n", b'["secret"]', b"{", b""):
        assert without_secrets(another_form) == b""
