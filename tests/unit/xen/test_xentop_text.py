"""xentop's text in every version, with each value visible in the text above it."""

import contextlib
import re
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen import model
from virtscope.xen.devices import block
from virtscope.xen.exporter import TextView
from virtscope.xen.model import Missing, Vcpu
from virtscope.xen.recorded import Printed
from virtscope.xen.xentop import Iteration
from virtscope.xen.xentop_text import MAX_DEVICES, cut_header, parse, whole_iterations

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/xentop"

HEADER = (
    b"      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS NETS NETTX(k) NETRX(k) VBDS"
    b"   VBD_OO   VBD_RD   VBD_WR  VBD_RSECT  VBD_WSECT SSID\n"
)
HEADER_17 = HEADER.replace(b"  VBD_RSECT  VBD_WSECT", b"")
HEADER_13 = HEADER_17.replace(b" VBDS   VBD_OO   VBD_RD   VBD_WR", b"")
REST = b"--b---         42    1.5      98304    4.7      99328       4.7     2    1      467      458    1"
VCPUS = b"VCPUs(sec):   0:         32s  1:         10s\n"
BOTH_VCPUS = (Vcpu(True, 32.0), Vcpu(True, 10.0))
NET = b"Net0 RX:   469620bytes      480pkts        1err        2drop  TX:   478208bytes      498pkts   3err   4drop\n"
NET1 = NET.replace(b"Net0", b"Net1")
VBD_LINE = (
    b"VBD BlkBack 51712 [ca: 0]  OO:        7   RD:      154   WR:       51   RSECT:      11432   WSECT:       3264\n"
)


def rest(old: bytes, new: bytes) -> bytes:
    """A row's columns with one of them changed."""
    assert old in REST
    return REST.replace(old, new)


def row(name: bytes, rest: bytes = REST) -> bytes:
    return b"%10b %b        0      169       55      12552       3520    7\n" % (name, rest)


def host_of(*lines: bytes) -> model.Host:
    return parse(HEADER + b"".join(lines)).host


def domain(detail: bytes = b"", name: bytes = b"web01", rest: bytes = REST) -> model.Domain:
    return host_of(row(name, rest), detail).domains[0]


def test_a_domain_in_seconds_bytes_and_the_guests_directions() -> None:
    web = domain(VCPUS + NET)
    assert (web.name, web.cpu_seconds, web.ssid, set(web.states)) == ("web01", 42.0, 7, {"blocked"})
    assert (web.memory_bytes, web.memory_limit_bytes, web.vcpus) == (98304 * 1024, 99328 * 1024, BOTH_VCPUS)
    received, sent = model.Traffic(478208, 498, errors=3, drops=4), model.Traffic(469620, 480, errors=1, drops=2)
    assert web.networks == (model.Network("0", received, sent),)


def test_every_number_of_columns() -> None:
    line = b"     jvm --b---        236    0.0     524288   25.0     524288      25.0     3    1     7551     1447"
    for header, columns in ((HEADER_13, b""), (HEADER_17, b" 1 0 6142 43020"), (HEADER, b" 1 0 6142 43020 12 13")):
        jvm = parse(header + line + columns + b"    5\n").host.domains[0]
        assert (jvm.name, jvm.cpu_seconds, len(jvm.vcpus), jvm.ssid) == ("jvm", 236, 3, 5), columns


def test_columns_widen_and_may_hold_no_number() -> None:
    wide = REST.replace(b"467", b"12345678901").replace(b"98304", b"1234567890123")
    assert domain(name=b"x" * 40, rest=wide).memory_bytes == 1234567890123 * 1024
    for name in (b"web01", b"has no limit", b""):
        found = domain(name=name, rest=rest(b"     99328       4.7", b"  no limit       n/a"))
        assert (found.name, found.memory_limit_bytes, found.memory_bytes) == (name.decode(), None, 98304 * 1024)
    without = rest(b"     99328       4.7", b"  no limit       n/a") + b"        -   -     -          -       -    3\n"
    assert host_of(b"        db " + without).domains[0].ssid == 3
    slipped = rest(b"        42 ", b"%10d " % ((2**63 + 42 * 10**9) // 10**9))
    assert domain(rest=slipped).cpu_seconds is None, "CPU time with the flag in bit 63"


def test_names() -> None:
    for name in (
        b"Windows7 (Dev)",
        "übersichtlichß".encode()[:10],  # cut within a character
        b"(null)",
        b"evil --b--- 1 0.0 2 3.0 4 5.0 6 7 8 9 10 11 12 13 14 15 16",
        row(b"db01").strip() + b" ",  # cut at a blank
        b"vertical\x0btab, form\x0cfeed\x1c and\rreturn",
        b"Net0 RX:",
        b"1234567890",
    ):
        found = parse(HEADER + row(name) + VCPUS + row(b"next"))
        assert [each.name for each in found.host.domains] == [model.decoded(name), "next"]
        assert (found.host.domains[0].cpu_seconds, found.unknown) == (42, ())


def test_states() -> None:
    states = {"------": "", "-----r": "running", "--b-p-": "blocked paused", "-s-c--": "shutdown crashed"}
    for letters, words in {**states, "d-----": "dying"}.items():
        assert domain(rest=rest(b"--b---", letters.encode())).states == set(words.split())


def test_offline_vcpus_are_left_out_and_a_part_does_not_pass_for_all_of_them() -> None:
    wrapped = (
        b"VCPUs(sec):   0:          1s  2:          3s  4:          5s\n          5:          6s  7:          8s\n"
    )
    vcpus = domain(wrapped, rest=rest(b"    2    1 ", b"    9    1 ")).vcpus
    assert [vcpu.cpu_seconds for vcpu in vcpus] == [1, None, 3, None, 5, 6, None, 8, None]
    assert [vcpu.online for vcpu in vcpus] == [vcpu.cpu_seconds is not None for vcpu in vcpus]
    assert domain(b"VCPUs(sec): \n").vcpus == (Vcpu(False, None),) * 2
    for part in (b"", b"VCPUs(sec):   0:   1s\n          x:   2s\n", b"VCPUs(sec):   0:   1s  7:    2s\n"):
        assert domain(part).vcpus == (Vcpu(None, None),) * 2, part


def test_block_devices() -> None:
    lines = {
        b"Tapdisk3 51728 [ca:10]  OO:   -   RD:    -   WR:    -   RSECT:      -   WSECT:      -": (
            block("Tapdisk3", 51728, [None, None, None, None, None])
        ),
        b"BlkTap  768 [ 3: 0]  OO:  1   RD:  2   WR:  3": block("BlkTap", 768, [1, 2, 3, None, None]),
        b" 769 [ 3: 1]  OO:  1   RD:  2   WR:  3": block("", 769, [1, 2, 3, None, None]),
        b"   0  OO:  1   RD:  2   WR:  3": block("", 0, [1, 2, 3, None, None]),  # Solaris, before Xen 3.2
    }
    assert {line: domain(b"VBD %b\n" % line).blocks for line in lines} == {line: (one,) for line, one in lines.items()}
    xvda = model.Block("xvda", "ca:0", "BlkBack", model.Requests(154, 11432 * 512), model.Requests(51, 3264 * 512), 7)
    assert domain(VBD_LINE).blocks == (xvda,), "as libxenstat's are"


def test_a_counter_printed_after_wrapping_below_zero() -> None:
    """It continues where a positive 32 bit number ends; values impossible for 32 bits are left out."""
    line = b"VBD BlkBack 51712 [ca: 0]  OO: 0   RD: 1   WR: 1   RSECT: %d   WSECT: 0\n"
    sectors = {2**64 - 146888630: 4148078666, 2**31 - 1: 2**31 - 1, 2**64 - 2**31: 2**31, 2**63: None}
    for printed, meant in sectors.items():
        read = domain(line % printed).blocks[0].read
        assert (read and read.bytes) == (meant and meant * 512)


def test_devices_of_one_number_are_not_shown() -> None:
    host = host_of(row(b"web01", rest(b"    2    1 ", b"    2    3 ")), VCPUS, NET, NET, NET1)
    assert [network.vif for network in host.domains[0].networks] == ["1"]
    assert host.missing() == Missing(vcpus=0, networks=2, blocks=1)
    other, same = (VBD_LINE.replace(b"51712 [ca: 0]", to) for to in (b"51728 [ca:10]", b"268435456 [100000: 0]"))
    host = host_of(row(b"web01", rest(b"  458    1", b"  458    3")), VCPUS, NET, VBD_LINE, other, same)
    assert [block.vbd for block in host.domains[0].blocks] == ["xvdb"]
    assert host.missing() == Missing(vcpus=0, networks=0, blocks=2)


def test_more_devices_than_the_row_counts_are_of_another_domain_whose_row_is_lost() -> None:
    lost = VCPUS, NET1, VBD_LINE.replace(b"51712", b"51713")
    host = host_of(row(b"web01"), VCPUS, NET, VBD_LINE, *lost, row(b"db01"), NET)
    assert [(len(each.networks), len(each.blocks)) for each in host.domains] == [(0, 0), (1, 0)]
    assert host.missing().networks == 2


def test_missing_devices_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    view = TextView()

    def missing(*lines: bytes) -> dict[str, float]:
        families = view.families(Printed(Iteration(HEADER + b"".join(lines), 1, 1), None))
        samples = [sample for family in families for sample in family.samples]
        return {each.labels["device"]: each.value for each in samples if each.name == "xentop_missing_devices"}

    for _ in range(2):
        assert missing(row(b"web01")) == {"vcpu": 2, "network": 1, "block": 1}
    assert missing(row(b"web01"), VCPUS, NET, VBD_LINE) == {"vcpu": 0, "network": 0, "block": 0}
    assert caplog.messages == ["devices skipped", "no device is skipped any more"]


TMEM = (
    b"Tmem:  Curr eph pages:        0   Succ eph gets:        0   Succ pers puts:        0   Succ pers gets:        0\n"
)
PHYSICAL_CPUS = (
    b"\nPhysical CPU Usage:\n+-------+--------+\n| Core  | Usage  |\n+-------+--------+\n"
    b"| 0     |  12.3% |\n| 1     | 100.0% |\n+-------+--------+\n"
)
SUMMARY = (
    b"xentop - 13:46:40   Xen 3.0.3-rc5\n"
    b"2 domains: 1 running, 1 blocked, 0 paused, 0 crashed, 0 dying, 0 shutdown \n"
    b"Mem: 2096636k total, 1021132k used, 1075504k free    CPUs: 2 @ 2133MHz\n"
)
KEYS = b"  Delay  Networks  vBds  VCPUs  Repeat header  Sort order  Quit  \n"


def test_known_lines_without_values_are_passed_over() -> None:
    for name in (b"web01", b"Mem: 1k total", b"2 domains: ", b"xentop - ", b"| 0     |  12.3% |"):
        rows = row(name) + VCPUS + TMEM + NET + HEADER + row(b"db01") + VCPUS.replace(b"  1:         10s", b"")
        found = parse(SUMMARY + HEADER + rows + PHYSICAL_CPUS + KEYS + SUMMARY)
        assert [(each.name, len(each.networks), each.vcpus) for each in found.host.domains] == [
            (name.decode(), 1, BOTH_VCPUS),
            ("db01", 0, (Vcpu(True, 32.0), Vcpu(False, None))),
        ]
        assert found.unknown == (), name


def test_a_terminals_line_ends_and_escapes_and_a_web_pages_blanks_do_no_harm() -> None:
    text = HEADER + row(b"web01") + VCPUS + NET + row(b"db01") + VBD_LINE
    typed = b"[root@dom0 ~]# xentop -b -f -v -n\r\n\x1b[?2004l\r"
    for ending in (b"\r\n", b"\r\r\n"):
        [whole], last = whole_iterations(typed + (text + text).replace(b"\n", ending) + b"[root@dom0 ~]# ")
        assert parse(whole).host == parse(last).host == parse(text).host
        assert parse(whole).unknown == (b"[root@dom0 ~]# xentop -b -f -v -n", b"\x1b[?2004l")
    assert parse(re.sub(rb" +", b" ", text)) == parse(text)


def test_other_lines_cost_no_value_and_details_behind_them_are_of_no_domain() -> None:
    complaint = b"Found interface vif7.0 but domain 7 does not exist.\n"
    found = parse(complaint + HEADER + row(b"web01") + VCPUS + complaint + row(b"db01") + VCPUS)
    assert [each.vcpus for each in found.host.domains] == [BOTH_VCPUS] * 2
    assert found.unknown == (complaint.rstrip(),) * 2
    broken = row(b"db01").replace(b"98304", b"9830?")
    found = parse(HEADER + row(b"web01") + broken + NET + row(b"next"))
    assert [(each.name, each.networks) for each in found.host.domains] == [("web01", ()), ("next", ())]
    assert found.unknown == (broken.rstrip(), NET.rstrip())
    # An unknown kind of detail line doesn't change the owner of the others.
    assert len(domain(b"VBD new kind\n" + NET).networks) == 1


def test_malformed() -> None:
    for text in (b"", b"hello\n", HEADER, row(b"no header"), HEADER.replace(b"VCPUS", b"") + row(b"x")):
        refusal(SourceMalformed, parse, text)


def test_an_iteration_is_whole_when_the_next_header_has_come() -> None:
    first, second = HEADER + row(b"web01") + VCPUS, HEADER + row(b"web02")
    assert whole_iterations(first + second + HEADER) == ([first, second], HEADER)
    # The capture ended before the next one.
    part = row(b"db01")[:60]
    assert whole_iterations(first + part + second) == ([first], part + second)
    assert parse(part + second) == parse(second)._replace(unknown=(part.strip(),))


EIGHT_COLUMNS = HEADER.index(b" VCPUS")
CUT = HEADER[:EIGHT_COLUMNS] + b"\n"


def test_a_header_that_was_cut_or_wrapped_is_refused() -> None:
    for text in (CUT + row(b"web01")[:80] + b"\n", CUT + HEADER[EIGHT_COLUMNS:] + row(b"web01")):
        assert cut_header(text) == CUT.rstrip()
        with pytest.raises(SourceMalformed, match=r"header is not whole: .*MAXMEM\(%\)'"):
            parse(text)
    with pytest.raises(SourceMalformed, match="header is not whole"):
        parse(HEADER + row(b"web01") + VCPUS + CUT + row(b"web01") + VCPUS)
    assert len(parse(CUT + HEADER + row(b"web01")).host.domains) == 1
    assert cut_header(b"ended\n" + HEADER + row(HEADER[6:80])) is None


def test_devices_without_end_are_not_gathered() -> None:
    vbds = [b"VBD BlkBack %d [ca: 0]  OO: 0   RD: 1   WR: 2\n" % number for number in range(MAX_DEVICES + 2)]
    without_counts = HEADER_13.replace(b" NETS NETTX(k) NETRX(k)", b"")
    found = parse(without_counts + b"web01 --b--- 42 1.5 98304 4.7 99328 4.7 2 7\n" + b"".join(vbds))
    assert (len(found.host.domains[0].blocks), len(found.unknown)) == (MAX_DEVICES, 2)


@pytest.mark.parametrize("text", [path.read_bytes() for path in sorted(FIXTURES.glob("*.txt"))])
def test_a_cut_makes_no_number(text: bytes) -> None:
    """Cut at any byte, an iteration's values are unchanged or absent."""
    whole, last = whole_iterations(text)
    arriving, seen = b"", []
    for byte in range(len(text)):
        arrived, arriving = whole_iterations(arriving + text[byte : byte + 1])
        seen += arrived
    assert (seen, arriving) == (whole, last)
    complete = parse(whole[-1]).host.domains
    for end in range(len(HEADER), len(whole[-1])):
        with contextlib.suppress(SourceMalformed):
            for cut, one in zip(parse(whole[-1][:end]).host.domains, complete, strict=False):
                assert cut.vcpus in {(Vcpu(None, None),) * len(one.vcpus), one.vcpus}
                assert cut.networks == one.networks[: len(cut.networks)]
                assert cut.blocks == one.blocks[: len(cut.blocks)]
                # A row without its state can't be recognised as Dom0.
                alike = one._replace(domid=cut.domid, vcpus=cut.vcpus, networks=cut.networks, blocks=cut.blocks)
                assert cut == alike._replace(missing=cut.missing)


def test_dom0_is_the_one_running_domain_of_its_name() -> None:
    running, blocked = (row(b"Domain-0", rest(b"--b---", state)) for state in (b"-----r", b"--b---"))

    def domids(*rows: bytes) -> list[int | None]:
        return [each.domid for each in host_of(*rows).domains]

    assert domids(row(b"web01"), running) == [None, 0]
    assert domids(blocked) == [None]  # a guest: xentop runs in Dom0, so Dom0 is running at that moment
    assert domids(running, blocked) == [None, None]  # a guest took the name, and nothing distinguishes them
