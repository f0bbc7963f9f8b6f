"""Recordings of vestat-exporter: files unchanged, or without addresses and UUIDs."""

import json
import re

import pytest

from tests.fuzz.parsers import FIXTURES
from tests.support.refusals import refusal
from virtscope.openvz import procfs as files
from virtscope.openvz import recorded
from virtscope.openvz.procfs import RecordedProcfs
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import encode

pytestmark = pytest.mark.usefixtures("same_stand_ins")

HOSTS = sorted((FIXTURES / "openvz").iterdir())
ADDRESS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+|[0-9a-f]*:[0-9a-f:]+")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_files_come_back_as_they_were() -> None:
    for host in HOSTS:
        read = recorded.read(host / "proc")
        assert "vz/vestat" in read
        assert recorded.files(json.loads(json.dumps(encode(dict(read))))) == read
        assert all((host / "proc" / path).read_bytes() == content for path, content in read.items()), host


def test_no_address_and_no_uuid_survives() -> None:
    for host in HOSTS:
        everything = "\n".join(f"{path}\n{path.read_text()}" for path in (host / "proc").rglob("*") if path.is_file())
        private = {*UUID.findall(everything), *ADDRESS.findall((host / "proc/vz/veinfo").read_text())}
        assert bool(private) == (host.name != "no-container")
        written = json.dumps(encode(dict(recorded.anonymised(recorded.read(host / "proc"), StandIns()))))
        assert [each for each in private if each in written] == [], host


def test_no_word_of_a_quotas_path_survives() -> None:
    host = FIXTURES / "openvz/i386-2.6.18-cycles/proc"
    written = recorded.anonymised(recorded.read(host), StandIns())["vz/vzquota"]
    kept = (host / "vz/vzquota").read_bytes()
    assert isinstance(written, bytes)
    assert b"/srv/web shop: old/private" in kept
    assert not re.search(rb"srv|shop|private", written)
    # Everything else is unchanged, so that it is parsed like the host's.
    assert re.sub(rb": /.*", b"", written) == re.sub(rb": /.*", b"", kept)


def test_an_id_has_the_same_stand_in_in_every_file() -> None:
    procfs = RecordedProcfs()
    procfs.show(recorded.anonymised(recorded.read(FIXTURES / "openvz/virtuozzo7-uuids/proc"), StandIns()))
    folders = set(files.list_folders(procfs, "bc"))
    for name in ("vz/vestat", "vz/veinfo", "bc/resources"):
        ids = set(UUID.findall(files.read_text(procfs, name)))
        assert len(ids) == 2
        assert ids < folders


def test_what_is_no_reading_is_refused() -> None:
    malformed: list[object] = [[], {"vz/vestat": 5}, {"vz/vestat": None}, {"vz/vestat": "\ud800"}]
    for data in malformed:
        refusal(SourceMalformed, recorded.files, data)
