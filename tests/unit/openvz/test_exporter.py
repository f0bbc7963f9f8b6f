"""/proc/vz as a whole: the effect of an unreadable file."""

import logging
from pathlib import Path

import pytest

from tests.unit.openvz import fake_host
from virtscope.openvz.exporter import Vz
from virtscope.openvz.procfs import RecordedProcfs, Unread

LATENCY = Path(__file__).resolve().parents[2] / "fixtures/openvz/x86_64-2.6.32-nanoseconds/proc/vz/latency"
FILES = {
    "vz/vestat": fake_host.vestat([fake_host.row("101", 100_000)]).encode(),
    "vz/version": b"042stab145.3\n",
    "vz/veinfo": b"101 0 35 10.0.0.1\n",
    "vz/latency": LATENCY.read_bytes(),
}
LOST = {
    "vz/version": "openvz_host_info",
    "vz/veinfo": "openvz_container_processes openvz_container_addresses openvz_veinfo_refused_rows",
    "vz/latency": "openvz_host_latency_seconds openvz_host_latency_calls openvz_host_latency_max_seconds "
    "openvz_latency_refused_rows",
}


@pytest.mark.parametrize("file", LOST)
@pytest.mark.parametrize("error", ["EACCES", "EIO"])
def test_a_file_that_cannot_be_read_costs_its_own_values(
    file: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    procfs = RecordedProcfs()
    vz = Vz(procfs)

    def shown(files: dict[str, bytes | Unread]) -> tuple[set[str], list[float]]:
        procfs.show(files)
        found = {family.name: [sample.value for sample in family.samples] for family in vz.read() if family.samples}
        return set(found), found["openvz_vestat_unread_files"]

    everything, unread = shown({**FILES})
    assert unread == [0]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert shown({**FILES, file: Unread(error)}) == (everything - set(LOST[file].split()), [1])
    (record,) = caplog.records
    assert f"/proc/{file}" in str(vars(record)["fields"]["err"])
    assert shown({**FILES}) == (everything, [0])
