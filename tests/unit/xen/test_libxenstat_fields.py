"""libxenstat's raw fields converted to seconds, bytes and the guest's view, with output of a real Xen 4.17."""

import json
from pathlib import Path

from tests.unit.xen.test_xentop_text import HEADER, VBD_LINE, row
from virtscope.xen import libxenstat, model, recorded, xentop_text
from virtscope.xen.devices import vbd_name
from virtscope.xen.libxenstat import RawDomain, RawNode, RawVbd, RawVcpu
from virtscope.xen.netdev import RawNetwork

RECORDING = Path(__file__).resolve().parents[2] / "xen/recordings/libxenstat-xen-4.17.json"
NO_LIMIT = 2**64 - 1
STATES = {"dying": 0, "crashed": 0, "shutdown": 0, "paused": 0, "blocked": 0, "running": 0}
PLAIN = RawDomain((), (), (), id=3, name=b"web01", cpu_ns=0, cur_mem=1 << 28, max_mem=1 << 29, ssid=0, **STATES)
VBD = RawVbd(type=1, dev=51712, oo_reqs=9, rd_reqs=2, wr_reqs=3, rd_sects=4, wr_sects=5, error=False)


def recorded_node() -> RawNode:
    return recorded.snapshot({"node": json.loads(RECORDING.read_text())["node"], "runstates": []}).node


def host(raw: RawDomain, version: bytes = b"4.17.7") -> model.Host:
    return libxenstat.host(RawNode((raw,), version, 4, 2_400_000_000, 1 << 34, 1 << 30))


def domain(raw: RawDomain, version: bytes = b"4.17.7") -> model.Domain:
    return host(raw, version).domains[0]


def test_cpu_time_memory_limit_states_and_names() -> None:
    for ns in (1_500_000_000, (1 << 63) | 1_500_000_000):  # with the flag in bit 63
        found = domain(PLAIN._replace(cpu_ns=ns, vcpus=(RawVcpu(1, ns),)))
        assert (found.cpu_seconds, found.vcpus) == (1.5, (model.Vcpu(online=True, cpu_seconds=1.5),))
    assert domain(PLAIN).memory_limit_bytes == 1 << 29
    assert domain(PLAIN._replace(max_mem=NO_LIMIT)).memory_limit_bytes is None
    assert domain(PLAIN).states == frozenset()  # runnable, and waiting for a CPU
    assert domain(PLAIN._replace(paused=1, blocked=1)).states == {"paused", "blocked"}
    # UTF-8 cut in the middle stays visible and differs from another cut name.
    names: dict[bytes | None, str] = {"bücher".encode(): "bücher", b"cut \xc3": "cut \\xc3", b"": "", None: ""}
    assert {raw: domain(PLAIN._replace(name=raw)).name for raw in names} == names


def test_devices_of_one_name_are_left_out_and_counted() -> None:
    """libxenstat has vif3.0 and QEMU's vif3.0-emu as 0; their sum would decrease when QEMU removes its own.

    A block device may have two back ends, or be xvda by either of its numbers.
    """
    networks = RawNetwork(0, *range(8)), RawNetwork(0, *range(10, 90, 10)), RawNetwork(1, *range(8))
    vbds = VBD, VBD._replace(dev=51728), VBD._replace(dev=1 << 28)
    found = host(PLAIN._replace(networks=networks, vbds=vbds))
    assert [network.vif for network in found.domains[0].networks] == ["1"]
    assert [block.vbd for block in found.domains[0].blocks] == ["xvdb"]
    assert found._replace(domains=found.domains * 2).missing() == model.Missing(vcpus=0, networks=4, blocks=4)


def test_a_block_device_and_one_without_statistics() -> None:
    block = domain(PLAIN._replace(vbds=(VBD,))).blocks[0]
    assert block == model.Block("xvda", "ca:0", "BlkBack", model.Requests(2, 4 * 512), model.Requests(3, 5 * 512), 9)
    assert domain(PLAIN._replace(vbds=(VBD._replace(error=None),))).blocks[0] == block, "a library too old to say"
    without = domain(PLAIN._replace(vbds=(VBD._replace(error=True),))).blocks[0]
    assert without == block._replace(read=None, write=None, out_of_requests=None)


def test_sectors_read_are_left_out_of_releases_that_lose_them() -> None:
    """libxenstat 4.13.0 scanned them into another field; the value is uninitialised memory."""
    counts = dict.fromkeys(("4.12.4", "4.13.4", "4.14.20", "4.15.1"), True)
    loses = dict.fromkeys(("4.13.0-8.12.2", "4.13.3", "4.14.2", "4.15.0"), False)
    vbd = RawVbd(1, 51712, 7, 154, 51, 11432, 3264, False)
    for version, counted in {**counts, **loses}.items():
        of_text = xentop_text.parse(HEADER + row(b"web01") + VBD_LINE, version).host.domains[0]
        for found in (domain(PLAIN._replace(vbds=(vbd,)), version.encode()), of_text):
            assert found.blocks[0].read == model.Requests(154, 11432 * 512 if counted else None), version
            assert found.blocks[0].write == model.Requests(51, 3264 * 512), version


def test_vbd_names() -> None:
    names = {
        51712: "xvda",  # 202 << 8
        51967: "xvdp15",  # + 15 << 4 + 15
        1 << 28 | 16 << 8: "xvdq",  # the seventeenth disk
        1 << 28 | 25 << 8 | 3: "xvdz3",
        1 << 28 | 26 << 8: "xvdaa",
        2065: "sdb1",  # 8 << 8 + 1 << 4 + 1
        833: "hdb1",  # 3 << 8 + 1 << 6 + 1
        5632: "hdc",  # 22 << 8, xl's name for a CD-ROM drive
        7: "7",
    }
    assert {number: vbd_name(number) for number in names} == names
