"""Containers' I/O beyond tests/golden/openvz-*.prom."""

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


def test_what_the_kernel_gets_wrong_is_left_out_and_what_is_unknown_is_shown() -> None:
    found = exposed("x86_64-2.6.32-nanoseconds")
    assert (found["read_bytes_total", "3400"], found["dirty_bytes", "3400"]) == (104857600, 16 * 4096)
    assert not any(name.startswith("fdatasyncs_active") for name, *_ in found)
    uuid, found = "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11", exposed("virtuozzo7-uuids")
    assert (found["fuse_bytes_total", uuid], found["unknown", uuid, "ploop_requests"]) == (49152, 3)


def test_a_kernel_that_counts_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="doesn't count I/O"):
        exposed("i386-2.6.18-cycles")
    with pytest.raises(SourceUnavailable, match="bc is absent: this kernel doesn't count I/O"):
        ioacct.read(tmp_path)  # early kernels only have /proc/user_beancounters


def test_a_malformed_file_costs_only_its_container(tmp_path: Path) -> None:
    for ctid, text in {"0": "\tread 1\n", "101": "\tread\n"}.items():
        (tmp_path / "bc" / ctid).mkdir(parents=True)
        (tmp_path / "bc" / ctid / "ioacct").write_text(text)
    found = ioacct.read(tmp_path)
    assert ([*found.files], found.refused) == (["0"], 1)
    (tmp_path / "bc/0/ioacct").unlink()
    with pytest.raises(SourceMalformed, match="is malformed"):
        ioacct.read(tmp_path)


def test_malformed_text_is_refused() -> None:
    no_numbers = ("\tread\n", "\tread 1 2\n", "\tread -1\n", "\tread \N{ARABIC-INDIC DIGIT ONE}\n")
    for text in ("\tread 1\n\twrite 2", *no_numbers, "\tread 1\n\tread 2\n", "\n"):
        refusal(SourceMalformed, ioacct.parse, text)
