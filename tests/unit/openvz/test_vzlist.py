"""Containers' names, as printed by vzlist and by our own vzlist."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden_pages import assert_golden
from virtscope.openvz import vzlist
from virtscope.openvz.vzlist import Vzlist
from virtscope.toolkit.collect import SourceError, SourceUnavailable
from virtscope.toolkit.exposition import Encoder

GOLDEN = Path(__file__).resolve().parents[2] / "golden/openvz-names.prom"
UUID = "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"

# Like vzctl's vzlist: an unknown field is an error, and all fields except the last are padded.
PROGRAM = """#!/bin/sh
case "$*" in
  "-H -o veid,name") printf '       101 web shop\\n       205 -\\n' ;;
  "-H -o veid,hostname") printf '       101 shop.example.org\\n       205 k\\303\\244se.example.org\\n' ;;
  *) echo "Unknown field: ostemplate" >&2; exit 1 ;;
esac
"""


def test_a_field_is_all_behind_the_id() -> None:
    long = "a-name-that-is-far-longer-than-thirty-two-bytes"
    for value in ("web shop", 'käse "1"', long, "-1", "205"):
        for ctid in ("101", UUID):
            assert vzlist.parse(f"{ctid:>10} {value}  \n".encode()) == ({ctid: value}, 0)
    assert vzlist.parse(b"") == ({}, 0)
    assert vzlist.parse(b"       101 -\n       102 \n       103\n") == ({}, 0)
    assert vzlist.parse(b"Container(s) not found\n       101 \xff\n") == ({"101": "\\xff"}, 1)


def test_golden_page() -> None:
    fields = {field: vzlist.parse(f"       101 the {field}\n       205 -\n".encode()) for field in vzlist.LABELS}
    assert_golden(GOLDEN, Encoder().text(vzlist.families(fields, ["101", "205"])))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "vzlist"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return file


@pytest.fixture
def names() -> Iterator[Vzlist]:
    asked = Vzlist(60)
    yield asked
    asked.background.close()


def asked(names: Vzlist) -> None:
    names.background.start()
    names.background.wait_for_first(60)


@pytest.mark.usefixtures("program")
def test_living_containers_are_described(names: Vzlist) -> None:
    asked(names)
    (family,) = names.describe(["205", "101", "7"])
    assert [sample.labels for sample in family.samples] == [
        {"ctid": "205", "name": "", "hostname": "käse.example.org"},
        {"ctid": "101", "name": "web shop", "hostname": "shop.example.org"},
    ]
    assert names.read()[0].samples[0].value == 0


@pytest.mark.usefixtures("program")
def test_a_container_that_it_does_not_know_has_vzlist_asked_again_once(
    names: Vzlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(names)
    woken: list[str] = []
    monkeypatch.setattr(names.background, "wake", lambda: woken.append("woken"))
    for living, times in ((["205", "101"], 0), (["205", "101", "7"], 1), (["205", "101", "7"], 1)):
        names.describe(living)
        assert len(woken) == times


def test_a_machine_without_vzlist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Vzlist) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked(names)
    assert names.describe(["101"]) == []
    with pytest.raises(SourceUnavailable, match="install vzctl"):
        names.read()


def test_a_vzlist_that_fails(program: Path) -> None:
    for complaint, error in (
        ("This program can only be run under root.", SourceUnavailable),
        ("Unable to open /proc/bc/resources", SourceError),
        ("Unknown field: veid", SourceError),
    ):
        program.write_text(f"#!/bin/sh\necho '{complaint}' >&2; exit 1\n")
        names = Vzlist(60)
        asked(names)
        with pytest.raises(error, match=complaint) as raised:
            names.read()
        assert type(raised.value) is error
        names.background.close()
