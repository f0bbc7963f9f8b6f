"""The guests' interfaces from Dom0's /proc/net/dev: whose they are, and what libxenstat lost or got wrong of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.fake_host import write_net_dev
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.xen import model
from virtscope.xen.devices import network
from virtscope.xen.model import Network
from virtscope.xen.netdev import NetDev, WhereReadable, parse

# What Dom0 received of the guest, then what it sent to it: bytes, packets, errors, drops.
COUNTED = (1001, 1002, 3, 4, 2001, 2002, 5, 6)


def _net_dev(folder: Path, **interfaces: tuple[int, ...]) -> NetDev[Network]:
    write_net_dev(folder / "proc", {name.replace("_", "."): counted for name, counted in interfaces.items()})
    return NetDev(network, str(folder / "proc"), str(folder / "sys"))


def _vif(number: int, *counted: int) -> Network:
    return network(number, counted, False)


def test_without_a_bridge_the_guests_have_their_interfaces_all_the_same(tmp_path: Path) -> None:
    """As on Open vSwitch, where libxenstat loses them all (xcp-ng/xcp#379)."""
    net_dev = _net_dev(tmp_path, lo=(9,) * 8, xenbr0=(9,) * 8, vif1_0=COUNTED, vif1_1=(1,) * 8, vif3_0=(3,) * 8)
    assert net_dev.read() == {1: [_vif(0, *COUNTED), _vif(1, *[1] * 8)], 3: [_vif(0, *[3] * 8)]}
    web = net_dev.read()[1][0]
    assert web.receive == model.Traffic(bytes=2001, packets=2002, errors=5, drops=6)
    assert web.transmit == model.Traffic(bytes=1001, packets=1002, errors=3, drops=4)


def test_qemus_end_of_an_hvm_guests_interface_is_a_series_of_its_own(tmp_path: Path) -> None:
    """The guest uses it until its own driver is up; when QEMU then takes it away, no counter goes back."""

    def sent(**interfaces: tuple[int, ...]) -> dict[str, int]:
        return {each.vif: each.transmit.bytes for each in _net_dev(tmp_path, **interfaces).read()[3]}

    for qemus in ("tap3_0", "vif3_0-emu"):
        assert sent(vif3_0=COUNTED, **{qemus: (1000,) * 8}) == {"0": 1001, "0-emu": 1000}
    assert sent(vif3_0=COUNTED) == {"0": 1001}


def test_whose_an_interface_is(tmp_path: Path) -> None:
    wide = ((1 << 64) - 1, *COUNTED[1:])  # which leaves no blank after the colon
    device = tmp_path / "sys/class/net/web.lan/device"
    device.mkdir(parents=True)
    (device / "nodename").write_text("backend/vif/5/1\n")
    interfaces: list[tuple[dict[str, tuple[int, ...]], dict[int, list[Network]]]] = [
        # libxenstat takes all that begins with vif3.0 for it.
        ({"vif3_0": COUNTED, "vif3_0_42": COUNTED}, {3: [_vif(0, *COUNTED)]}),
        # libxenstat gives Dom0's own those of the bridge while it has none.
        ({"vif0_0": (0,) * 8, "xenbr0": COUNTED}, {0: [_vif(0, *[0] * 8)]}),
        ({"web_lan": COUNTED, "eth0": (9,) * 8}, {5: [_vif(1, *COUNTED)]}),
        ({"vif1_0": wide}, {1: [_vif(0, *wide)]}),
        ({"eth0:1": (9,) * 8, "vif1_0": COUNTED}, {1: [_vif(0, *COUNTED)]}),  # as old kernels name aliases
    ]
    for shown, guests in interfaces:
        assert _net_dev(tmp_path, **shown).read() == guests, shown
    for name in ("vif1", "vif1.0x", "xvif1.0", "tap1.0-emu", "vif-1.0", "vif123456.0", "tap5b3d1c2e-1f"):
        assert _net_dev(tmp_path, **{name.replace(".", "_"): COUNTED}).read() == {}, name


def test_another_form_is_malformed_and_quoted(tmp_path: Path) -> None:
    path = write_net_dev(tmp_path, {"vif1.0": COUNTED})
    numbers = [b"vif2.0" + b" 1" * 16, b"vif2.0: " + b"1 " * 17, b"vif2.0: " + b"-1 " * 16]
    for line in [b"vif2.0: 1 2 3", *numbers, b""]:
        said = str(refusal(SourceMalformed, parse, path.read_bytes() + line + b"\n"))
        assert f"another form: {line!r:.20}" in said
    path.write_text(path.read_text().replace("drop", "lost"))
    nowhere = NetDev(network, str(tmp_path / "nowhere"), str(tmp_path)).read
    assert "net/dev: No such file" in str(refusal(SourceUnavailable, nowhere))
    assert "errs lost fifo" in str(refusal(SourceMalformed, NetDev(network, str(tmp_path), str(tmp_path)).read))


def test_it_is_said_whose_networks_are_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line in the log for each change, and not for each scrape."""
    caplog.set_level("INFO")
    net_dev = NetDev(network, str(tmp_path / "proc"), str(tmp_path / "sys"))
    shown = WhereReadable(net_dev.read, str(net_dev.path), "libxenstat")
    assert shown.origin() == ""
    for _ in range(2):
        assert shown.vifs() is None
        assert shown.origin() == ""
    _net_dev(tmp_path, vif1_0=COUNTED)
    for _ in range(2):
        assert shown.vifs() == {1: [_vif(0, *COUNTED)]}
        assert shown.origin() == f", networks from {tmp_path}/proc/net/dev"
    net_dev.path.write_text("something else")
    assert shown.vifs() is None
    assert shown.origin() == ""
    assert caplog.messages == [
        "networks are libxenstat's",
        "networks are libxenstat's no more",
        "networks are libxenstat's",
    ]


def test_what_can_be_read_from_the_beginning_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    net_dev = _net_dev(tmp_path, vif1_0=COUNTED)
    WhereReadable(net_dev.read, str(net_dev.path), "libxenstat").vifs()
    assert caplog.messages == []
