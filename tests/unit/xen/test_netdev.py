"""The guests' interfaces from Dom0's /proc/net/dev: their owners, and errors of libxenstat."""

from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.fake_host import write_net_dev
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.xen import model
from virtscope.xen.netdev import NetDev, RawNetwork, WhereReadable, guests_end, parse

# Dom0's received, then sent bytes, packets, errors, drops.
COUNTED = (1001, 1002, 3, 4, 2001, 2002, 5, 6)
WIDE = ((1 << 64) - 1, *COUNTED[1:])  # leaves no blank after the colon
Interfaces = dict[str, tuple[int, ...]]


def _net_dev(folder: Path, interfaces: Interfaces) -> NetDev:
    write_net_dev(folder / "proc", interfaces)
    return NetDev(str(folder / "proc"), str(folder / "sys"))


def _vif(number: int, *counted: int, emulated: bool = False) -> RawNetwork:
    return RawNetwork._make((number, *counted, emulated))


@pytest.mark.parametrize(
    ("interfaces", "guests"),
    [
        # On Open vSwitch, libxenstat loses the interfaces of all guests (xcp-ng/xcp#379).
        ({"lo": (9,) * 8, "vif1.0": COUNTED, "vif1.1": WIDE}, {1: [_vif(0, *COUNTED), _vif(1, *WIDE)]}),
        # libxenstat matches everything that starts with vif3.0, and gives Dom0 the bridge's interface.
        ({"vif3.0": COUNTED, "vif3.0.42": COUNTED}, {3: [_vif(0, *COUNTED)]}),
        ({"vif0.0": (0,) * 8, "xenbr0": COUNTED}, {0: [_vif(0, *[0] * 8)]}),
        ({"web.lan": COUNTED, "eth0": (9,) * 8}, {5: [_vif(1, *COUNTED)]}),
        ({"eth0:1": (9,) * 8, "vif1.0": COUNTED}, {1: [_vif(0, *COUNTED)]}),  # aliases in old kernels
        # The guest uses QEMU's interface until its own driver is up; when QEMU removes it, no counter decreases.
        ({"vif3.0": COUNTED, "tap3.0": COUNTED}, {3: [_vif(0, *COUNTED), _vif(0, *COUNTED, emulated=True)]}),
        ({"vif3.0": COUNTED, "vif3.0-emu": WIDE}, {3: [_vif(0, *COUNTED), _vif(0, *WIDE, emulated=True)]}),
        (dict.fromkeys(("vif1", "vif1.0x", "xvif1.0", "tap1.0-emu", "vif123456.0", "tap5b3d1c2e-1f"), COUNTED), {}),
    ],
)
def test_whose_an_interface_is(tmp_path: Path, interfaces: Interfaces, guests: dict[int, list[RawNetwork]]) -> None:
    device = tmp_path / "sys/class/net/web.lan/device"
    device.mkdir(parents=True)
    (device / "nodename").write_text("backend/vif/5/1\n")
    assert _net_dev(tmp_path, interfaces).read() == guests


def test_directions_are_the_guests() -> None:
    received, sent = model.Traffic(2001, 2002, errors=5, drops=6), model.Traffic(1001, 1002, errors=3, drops=4)
    assert guests_end(_vif(0, *COUNTED)) == model.Network("0", received, sent)
    assert guests_end(_vif(0, *COUNTED, emulated=True)).vif == "0-emu"


def test_another_form_is_malformed_and_quoted(tmp_path: Path) -> None:
    net_dev = _net_dev(tmp_path, {"vif1.0": COUNTED})
    numbers = [b"vif2.0" + b" 1" * 16, b"vif2.0: " + b"1 " * 17, b"vif2.0: " + b"-1 " * 16]
    for line in [b"vif2.0: 1 2 3", *numbers, b""]:
        said = str(refusal(SourceMalformed, parse, net_dev.path.read_bytes() + line + b"\n"))
        assert f"another form: {line!r:.20}" in said
    net_dev.path.write_text(net_dev.path.read_text().replace("drop", "lost"))
    assert "errs lost fifo" in str(refusal(SourceMalformed, net_dev.read))
    net_dev.path.unlink()
    assert "net/dev: No such file" in str(refusal(SourceUnavailable, net_dev.read))


def test_each_change_of_the_networks_origin_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    net_dev = _net_dev(tmp_path, {"vif1.0": COUNTED})
    shown = WhereReadable(net_dev.read, str(net_dev.path), "libxenstat")
    text = net_dev.path.read_text()
    for content, vifs, origin in [
        (text, {1: [_vif(0, *COUNTED)]}, f", networks from {net_dev.path}"),
        ("something else", None, ""),
        (text, {1: [_vif(0, *COUNTED)]}, f", networks from {net_dev.path}"),
    ]:
        net_dev.path.write_text(content)
        for _ in range(2):
            assert (shown.vifs(), shown.origin()) == (vifs, origin)
    assert caplog.messages == ["falling back to the networks of libxenstat", "reading networks again"]
