"""/proc/vz as a whole: what one of its files costs that can't be read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.unit.openvz import fake_host
from virtscope.openvz.exporter import Vz
from virtscope.openvz.procfs import RecordedProcfs, Unread

ROWS = [fake_host.row("101", 100_000)]
FILES = {
    "vz/vestat": fake_host.vestat(ROWS).encode(),
    "vz/version": b"042stab145.3\n",
    "vz/veinfo": b"101 0 35 10.0.0.1\n",
    "vz/latency": (Path(__file__).resolve().parents[2] / "fixtures/openvz/one-container/proc/vz/latency").read_bytes(),
}


def names(vz: Vz) -> set[str]:
    return {family.name for family in vz.read() if family.samples}


def unread(vz: Vz) -> list[float]:
    return [
        sample.value for family in vz.read() for sample in family.samples if sample.name == "openvz_vestat_unread_files"
    ]


LOST = {
    "vz/version": {"openvz_host"},
    "vz/veinfo": {"openvz_container_processes", "openvz_container_addresses", "openvz_veinfo_refused_rows"},
    "vz/latency": {
        "openvz_host_latency_seconds",
        "openvz_host_latency_calls",
        "openvz_host_latency_max_seconds",
        "openvz_latency_refused_rows",
    },
}


@pytest.mark.parametrize("file", LOST)
@pytest.mark.parametrize("error", ["EACCES", "EIO"])
def test_a_file_that_cannot_be_read_costs_its_own_values(
    file: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    procfs = RecordedProcfs()
    procfs.show(FILES)
    vz = Vz(procfs)
    everything = names(vz)
    assert unread(vz) == [0]
    procfs.show({**FILES, file: Unread(error)})
    with caplog.at_level(logging.WARNING):
        assert everything - names(vz) == LOST[file]
        assert unread(vz) == [1]
    assert len(caplog.records) == 1  # of two reads
    assert f"/proc/{file}" in str(vars(caplog.records[0])["fields"]["err"])
    procfs.show(FILES)
    assert names(vz) == everything
    assert unread(vz) == [0]
