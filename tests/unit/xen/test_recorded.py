"""What xentop-exporter records: out and in again without a loss, and without a name if so wished."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.parsers import FIXTURES
from tests.support.refusals import refusal
from tests.unit.xen.test_libxenstat_fields import recorded_node
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import Failed, encode
from virtscope.xen import model, recorded
from virtscope.xen.recorded import Printed, RawRunstate, Snapshot
from virtscope.xen.toolstack import understand
from virtscope.xen.xentop import Iteration
from virtscope.xen.xentop_text import parse, whole_iterations, with_names
from virtscope.xen.xl import Answer, RawToolstack
from virtscope.xen.xl_domains import parse_details

pytestmark = pytest.mark.usefixtures("same_stand_ins")

TEXTS = sorted((FIXTURES / "xentop").glob("*.txt"))
RUNSTATES = (RawRunstate(0, 1, 2, (1, 2, 3, 4, 5, 6), 7), RawRunstate(1, 1, 2, (1, 2, 3, 4, 5, 6), None))


def test_a_snapshot_comes_back_as_it_was() -> None:
    for runstates in (RUNSTATES, Failed("unavailable", "no such call")):
        snapshot = Snapshot(recorded_node(), runstates)
        assert recorded.snapshot(json.loads(json.dumps(encode(snapshot)))) == snapshot


def without_defaults(raw: object) -> object:
    """Return a reading in JSON's terms, as it was recorded before there were those fields that have a default."""
    if not isinstance(raw, tuple):
        return encode(raw)
    defaults = getattr(raw, "_field_defaults", {})
    fields = getattr(raw, "_fields", None)
    if fields is None:
        return [without_defaults(each) for each in raw]
    return {field: without_defaults(value) for field, value in zip(fields, raw, strict=True) if field not in defaults}


def with_more(data: object) -> object:
    """Return the same with a field more in each object."""
    if isinstance(data, list):
        return [with_more(each) for each in data]
    if isinstance(data, dict):
        return {"of_later": [1], **{key: with_more(value) for key, value in data.items()}}
    return data


def test_an_older_recording_plays_with_the_defaults_of_newer_fields() -> None:
    node = recorded_node()
    network = node.domains[1].networks[0]._replace(emulated=1)
    domain = node.domains[1]._replace(networks=(network,))
    snapshot = Snapshot(node._replace(domains=(node.domains[0], domain)), ())
    data = without_defaults(snapshot)
    assert "emulated" not in json.dumps(data)
    decoded = recorded.snapshot(data)
    assert decoded.node.domains[1].networks == (network._replace(emulated=None),)
    raw = RawToolstack("/usr/sbin/xl", (Answer("info", b"", "", False),), ((1, b"Debian"),))
    assert recorded.toolstack(without_defaults(raw)) == raw._replace(os_names=())


def test_a_newer_recording_plays_without_the_fields_that_are_not_known() -> None:
    snapshot = Snapshot(recorded_node(), RUNSTATES)
    assert recorded.snapshot(with_more(encode(snapshot))) == snapshot


@given(st.binary(), st.none() | st.text())
def test_text_comes_back_as_it_was(printed: bytes, version: str | None) -> None:
    reading = Printed(Iteration(printed, 1.25, 3), version)
    assert recorded.printed(json.loads(json.dumps(encode(reading)))) == reading


def test_what_is_no_snapshot_is_refused() -> None:
    malformed: dict[str, list[object]] = {
        "domains": [5, [{}]],
        "num_cpus": [-1, 1.5],
        "cpu_hz": [2**64],
        "xen_version": [4],
    }
    for change in ({field: value} for field, values in malformed.items() for value in values):
        data = json.loads(json.dumps(encode(Snapshot(recorded_node(), ()))))
        data["node"].update(change)
        refusal(SourceMalformed, recorded.snapshot, data)
    data = json.loads(json.dumps(encode(Snapshot(recorded_node(), ()))))
    del data["node"]["domains"][0]["vcpus"][0]["online"]
    with pytest.raises(SourceMalformed, match=r"it lacks online in .*'ns': 49522293500"):
        recorded.snapshot(data)
    with pytest.raises(SourceMalformed, match=r"doesn't have: \[77\]"):
        recorded.snapshot(encode(Snapshot(recorded_node(), (RUNSTATES[0]._replace(domid=77),))))


def test_a_snapshot_keeps_its_numbers_and_no_name() -> None:
    node = recorded_node()
    anonymised = recorded.anonymised_snapshot(Snapshot(node, RUNSTATES), StandIns())
    written = json.dumps(encode(anonymised))
    for before, after in zip(node.domains, anonymised.node.domains, strict=True):
        assert before._replace(name=None) == after._replace(name=None)
        if before.name != model.DOM0_NAME:
            assert before.name
            assert before.name.decode() not in written
            assert len(after.name or b"") == len(before.name)
    assert recorded.host(anonymised.node).domains[0].name == "Domain-0"


def test_text_keeps_its_numbers_and_no_name() -> None:
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


def test_what_is_not_understood_holds_no_letter_of_a_name() -> None:
    header = b"NAME STATE CPU(sec) CPU(%) MEM(k) MEM(%) MAXMEM(k) MAXMEM(%) VCPUS SSID\n"
    odd = b"secret\nname --b--- 1 0.0 1 0.0 1 0.0 1 0\nVCPUs(sec): of secret 12\nTmem:  secret\nsecret " + header
    anonymised = with_names(header + odd, lambda _: b"x")
    assert b"secret" not in anonymised
    assert anonymised.startswith(header + b"xxxxxx\nx --b---")
    assert len(parse(anonymised).unknown) == len(parse(header + odd).unknown)


ANSWERS = {
    path.name.removesuffix(" -v"): path.read_bytes() for path in (FIXTURES / "toolstack/xl-4.17-credit").iterdir()
}
RAW = RawToolstack(
    "/usr/sbin/xl", tuple(Answer(command, output, "", False) for command, output in ANSWERS.items()), ((1, b"\xff"),)
)


def test_the_toolstacks_answers_come_back_as_they_were() -> None:
    assert recorded.toolstack(json.loads(json.dumps(encode(RAW)))) == RAW


def test_of_the_guests_configurations_only_what_is_shown_is_recorded() -> None:
    def without_secrets(listed: bytes) -> bytes:
        (answer,) = recorded.without_secrets(RAW._replace(answers=(Answer("list -l", listed, "", False),))).answers
        return answer.output

    config = {"c_info": {"type": "hvm", "uuid": "u", "name": "n"}, "b_info": {"passwd": "secret"}, "disks": ["secret"]}
    listed = json.dumps([{"domid": 3, "config": config}, {"domid": 4, "config": {}}]).encode()
    assert b"secret" not in without_secrets(listed)
    assert parse_details(without_secrets(listed)) == parse_details(listed)
    assert understand(recorded.without_secrets(RAW)) == understand(RAW)
    for another_form in (b"(domain\n (passwd secret))\n", b'["secret"]', b"{", b""):
        assert without_secrets(another_form) == b""
