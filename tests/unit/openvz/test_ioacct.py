"""What containers read and write, from the kernel's text to samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.unit.openvz import fake_host
from virtscope.openvz import ioacct
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

HOSTS = Path(__file__).resolve().parents[2] / "fixtures/openvz"


def exposed(host: str) -> dict[tuple[str, ...], float]:
    return fake_host.exposed(ioacct.families(ioacct.read(HOSTS / host / "proc")), "openvz_container_io_")


def test_values_of_a_2_6_32_host() -> None:
    found = exposed("x86_64-2.6.32-nanoseconds")
    assert found["read_bytes_total", "3400"] == 104857600
    assert found["write_bytes_total", "3400"] == 52428800
    assert found["dirtied_bytes", "3400"] == 60817408
    assert found["cancelled_bytes_total", "3400"] == 4194304
    assert found["missed_bytes_total", "3400"] == 0
    assert found["syncs_total", "3400"] == 2
    assert found["fsyncs_total", "3400"] == 1730
    assert found["fdatasyncs_total", "3400"] == 32
    assert found["range_syncs_total", "3400"] == 0
    assert found["fsyncs_active", "3400"] == 1
    assert found["vfs_reads_total", "3400"] == 371733
    assert found["vfs_read_bytes_total", "3400"] == 3559144863
    assert found["dirty_bytes", "3400"] == 16 * 4096
    assert found["read_bytes_total", "0"] == 4 * 104857600  # the host's own
    # A value that the kernel gets wrong is left out.
    assert not any(name.startswith("fdatasyncs_active") for name, *_ in found)
    made = ioacct.families(ioacct.read(HOSTS / "x86_64-2.6.32-nanoseconds/proc"))
    types = {family.name: family.type for family in made}
    assert types["openvz_container_io_read_bytes"] == "counter"
    assert types["openvz_container_io_dirty_bytes"] == "gauge"


def test_values_of_virtuozzo_7() -> None:
    found = exposed("virtuozzo7-uuids")
    assert found["fuse_bytes_total", "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"] == 49152
    assert ("vfs_reads_total", "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11") not in found
    # A name that was unknown when this was written.
    assert found["unknown", "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11", "ploop_requests"] == 3


def test_a_kernel_that_counts_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="doesn't count I/O"):
        exposed("i386-2.6.18-cycles")
    with pytest.raises(SourceUnavailable, match="bc is absent: this kernel doesn't count I/O"):
        ioacct.read(tmp_path)  # early ones have /proc/user_beancounters alone


def test_a_malformed_file_costs_only_its_container(tmp_path: Path) -> None:
    for ctid, text in {"0": "\tread 1\n", "101": "\tread\n"}.items():
        (tmp_path / "bc" / ctid).mkdir(parents=True)
        (tmp_path / "bc" / ctid / "ioacct").write_text(text)
    found = ioacct.read(tmp_path)
    assert ([each.ctid for each in found.files], found.refused) == (["0"], 1)
    (tmp_path / "bc/0/ioacct").unlink()
    with pytest.raises(SourceMalformed, match="is malformed"):
        ioacct.read(tmp_path)


def test_a_forbidden_file_says_which_capabilities_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbidden)  # root, who runs tests in containers, may read anything
    with pytest.raises(SourceUnavailable, match="CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH"):
        ioacct.read(HOSTS / "one-container/proc")


def test_malformed_text_is_refused() -> None:
    no_numbers = ("\tread\n", "\tread 1 2\n", "\tread -1\n", "\tread \N{ARABIC-INDIC DIGIT ONE}\n")
    for text in ("\tread 1\n\twrite 2", *no_numbers, "\tread 1\n\tread 2\n", "\n"):
        refusal(SourceMalformed, ioacct.parse, text)
