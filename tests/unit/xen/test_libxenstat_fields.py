"""From libxenstat's raw fields to seconds, bytes and the guest's point of view: one fact a line, checkable by hand."""

from __future__ import annotations

from tests.unit.xen.test_xentop_text import HEADER, VBD_LINE, row
from virtscope.xen import model, recorded, xentop_text
from virtscope.xen.devices import vbd_name
from virtscope.xen.recorded import RawDomain, RawNetwork, RawNode, RawVbd, RawVcpu

NO_LIMIT = 2**64 - 1
PLAIN = RawDomain(
    vcpus=(),
    networks=(),
    vbds=(),
    id=3,
    name=b"web01",
    cpu_ns=0,
    cur_mem=1 << 28,
    max_mem=1 << 29,
    ssid=0,
    dying=0,
    crashed=0,
    shutdown=0,
    paused=0,
    blocked=0,
    running=0,
)
VBD = RawVbd(type=1, dev=51712, oo_reqs=9, rd_reqs=2, wr_reqs=3, rd_sects=4, wr_sects=5, error=False)


def domain(raw: RawDomain, version: bytes = b"4.17.7") -> model.Domain:
    return recorded.host(RawNode((raw,), version, 4, 2_400_000_000, 1 << 34, 1 << 30)).domains[0]


def test_cpu_time_is_in_seconds_without_the_flag_in_bit_63() -> None:
    for ns in (1_500_000_000, (1 << 63) | 1_500_000_000):
        assert domain(PLAIN._replace(cpu_ns=ns)).cpu_seconds == 1.5
        assert domain(PLAIN._replace(vcpus=(RawVcpu(1, ns),))).vcpus == (model.Vcpu(online=True, cpu_seconds=1.5),)


def test_memory_limit_states_and_names() -> None:
    assert domain(PLAIN).memory_limit_bytes == 1 << 29
    assert domain(PLAIN._replace(max_mem=NO_LIMIT)).memory_limit_bytes is None
    assert domain(PLAIN).states == frozenset()  # runnable, and waiting for a CPU
    assert domain(PLAIN._replace(paused=1, blocked=1)).states == {"paused", "blocked"}
    names: dict[bytes | None, str] = {
        b"Windows7 (Dev)": "Windows7 (Dev)",
        "bücher".encode(): "bücher",
        b"cut \xc3": "cut \\xc3",  # UTF-8 cut in the middle stays visible and differs from another cut name
        b"\xff\n": "\\xff\n",
        b"": "",
        None: "",
    }
    assert {raw: domain(PLAIN._replace(name=raw)).name for raw in names} == names


def test_what_is_missing_of_the_domains_adds_up_where_a_source_says_so() -> None:
    plain = domain(PLAIN)
    missing = [plain._replace(missing=model.Missing(*counts)) for counts in ((1, 2, 3), (0, 20, 30))]

    def host(*domains: model.Domain) -> model.Host:
        return model.Host(None, None, None, None, None, domains)

    assert host(plain, *missing).missing() == (1, 22, 33)
    assert host().missing() == host(plain, plain).missing() == (0, 0, 0)


def test_directions_are_the_guests() -> None:
    """libxenstat reads Dom0's end of the wire: what its vif receives (r), the guest sent."""
    raw = RawNetwork(0, rbytes=1, rpackets=2, rerrs=3, rdrop=4, tbytes=10, tpackets=20, terrs=30, tdrop=40)
    network = domain(PLAIN._replace(networks=(raw,))).networks[0]
    assert network.transmit == model.Traffic(bytes=1, packets=2, errors=3, drops=4)
    assert network.receive == model.Traffic(bytes=10, packets=20, errors=30, drops=40)


def test_two_indistinguishable_interfaces_are_not_shown() -> None:
    """libxenstat has vif3.0 and QEMU's vif3.0-emu under 0; their sum would go back when QEMU takes its own away."""
    own, qemus, other = RawNetwork(0, *range(8)), RawNetwork(0, *range(10, 90, 10)), RawNetwork(1, *range(8))
    assert [network.vif for network in domain(PLAIN._replace(networks=(own, qemus, other))).networks] == ["1"]
    assert [network.vif for network in domain(PLAIN._replace(networks=(own, other))).networks] == ["0", "1"]


def test_a_block_device_and_one_without_statistics() -> None:
    block = domain(PLAIN._replace(vbds=(VBD,))).blocks[0]
    assert block == model.Block("xvda", "ca:0", "BlkBack", model.Requests(2, 4 * 512), model.Requests(3, 5 * 512), 9)
    assert domain(PLAIN._replace(vbds=(VBD._replace(error=None),))).blocks[0] == block, "a library too old to say"
    without = domain(PLAIN._replace(vbds=(VBD._replace(error=True),))).blocks[0]
    assert without == block._replace(read=None, write=None, out_of_requests=None)


def test_sectors_read_are_left_out_of_releases_that_lose_them() -> None:
    """libxenstat 4.13.0 scanned them into another field; the value is whatever lay in memory."""
    counts = {"4.12.4": True, "4.13.4": True, "4.14.20": True, "4.15.1": True}
    loses = dict.fromkeys(("4.13.0-8.12.2", "4.13.3", "4.14.2", "4.15.0"), False)
    for version, counted in {**counts, **loses}.items():
        of_text = xentop_text.parse(HEADER + row(b"web01") + VBD_LINE, version).host
        assert of_text.xen_version == version
        vbd = RawVbd(1, 51712, 7, 154, 51, 11432, 3264, False)
        of_library = domain(PLAIN._replace(vbds=(vbd,)), version.encode())
        for block in (of_library.blocks[0], of_text.domains[0].blocks[0]):
            assert block.read == model.Requests(154, 11432 * 512 if counted else None), version
            assert block.write == model.Requests(51, 3264 * 512), version


def test_a_counter_that_wrapped_below_zero() -> None:
    """blkback prints 32 bits with a sign, and libxenstat reads "-146888630" as 2^64 less that."""
    block = domain(PLAIN._replace(vbds=(VBD._replace(rd_sects=2**64 - 146888630, wr_reqs=2**63),))).blocks[0]
    assert block.read == model.Requests(2, 4148078666 * 512)
    assert block.write is None


def test_vbd_names() -> None:
    names = {
        51712: "xvda",  # 202 << 8
        51713: "xvda1",
        51728: "xvdb",  # + 1 << 4
        51967: "xvdp15",  # + 15 << 4 + 15
        1 << 28 | 16 << 8: "xvdq",  # the seventeenth disk
        1 << 28 | 25 << 8 | 3: "xvdz3",
        1 << 28 | 26 << 8: "xvdaa",
        2048: "sda",  # 8 << 8
        2065: "sdb1",
        768: "hda",  # 3 << 8
        833: "hdb1",
        5632: "hdc",  # 22 << 8, as xl names a CD-ROM drive
        7: "7",
    }
    assert {number: vbd_name(number) for number in names} == names


def test_block_devices_of_one_name_are_left_out_and_counted() -> None:
    """Of two back ends, or xvda by either of its numbers: two samples of one series would spoil the scrape."""
    same = VBD._replace(dev=1 << 28)
    host = recorded.host(RawNode((PLAIN._replace(vbds=(VBD, VBD._replace(dev=51728), same)),), b"4.17.7", 4, 1, 1, 1))
    assert [block.vbd for block in host.domains[0].blocks] == ["xvdb"]
    assert host.missing() == model.Missing(vcpus=0, networks=0, blocks=2)
