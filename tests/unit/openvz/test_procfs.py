"""Missing and forbidden files, and their messages."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.parsers import FIXTURES
from tests.support.needs import need
from virtscope.openvz import beancounters, quota, recorded, vestat
from virtscope.openvz.procfs import Unread, read_optional, read_text
from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceError, SourceUnavailable

EXPORTERS = Path(__file__).resolve().parents[3] / "exporters"


def test_text_is_given_as_it_is_and_what_is_absent_or_no_file_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"k\xc3\xa4se \xff\n")
    assert read_text(tmp_path, "file") == read_optional(tmp_path, "file") == "käse \\xff\n"
    for name in ("vz/vestat", "file/vestat"):
        assert read_optional(tmp_path, name) is None
        with pytest.raises(SourceUnavailable, match="no OpenVZ host"):
            read_text(tmp_path, name)
    with pytest.raises(SourceError, match="can't be read: Is a directory"):
        read_text(tmp_path, "")


def test_a_last_row_that_lacks_only_its_line_break_is_read() -> None:
    """A recorded or pasted text often ends so; a row that is cut is refused (in the tests of each file)."""
    parsers: dict[str, Callable[[str], object]] = {
        "vz/vestat": vestat.parse,
        "vz/vzquota": quota.parse,
        "bc/resources": beancounters.parse,
        "user_beancounters": beancounters.parse,
    }
    for host in sorted((FIXTURES / "openvz").iterdir()):
        for file, parse in parsers.items():
            if (host / "proc" / file).is_file():
                text = (host / "proc" / file).read_text()
                found = parse(text)
                for pasted in (text[:-1], f"{text[:-1]}  "):
                    assert parse(pasted) == found, f"{host.name} {file}"


@pytest.mark.parametrize("function", ["read_text", "read_optional"])
def test_a_forbidden_file_says_which_capability_it_takes(tmp_path: Path, function: str) -> None:
    """The kernel's own refusal, which also applies to root without the capabilities."""
    file = tmp_path / "vestat"
    file.touch(mode=0o000)
    without: list[str] = []
    if os.geteuid() == 0:
        need(util_linux="setpriv")
        without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    call = f"procfs.{function}(pathlib.Path('{tmp_path}'), 'vestat')"
    program = f"import pathlib; from virtscope.openvz import procfs; {call}"
    command = [*without, sys.executable, "-c", program]
    read = subprocess.run(command, cwd=EXPORTERS, capture_output=True, text=True, timeout=60, check=False)
    said = read.stderr.splitlines()[-1]
    assert said.endswith(f"{file} must not be read: run this as root, or give it CAP_DAC_READ_SEARCH")
    assert "SourceUnavailable" in said


def test_an_endless_file_is_a_failure_live_and_in_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)
    (tmp_path / "vz").mkdir()
    (tmp_path / "vz/vestat").symlink_to("/dev/zero")
    with pytest.raises(SourceError, match="vz/vestat can't be read: File too large"):
        read_text(tmp_path, "vz/vestat")
    assert recorded.read(tmp_path) == {"vz/vestat": Unread("EFBIG")}
