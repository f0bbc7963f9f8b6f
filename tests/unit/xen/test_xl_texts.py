"""Output of xl and xm of every Xen version, with each value visible in the text above it."""

from tests.support.refusals import refusal
from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen.model import Host, Placement, Pool, Share, Timing
from virtscope.xen.xl_domains import Details, Listed, cpus_of, parse_details, parse_list, parse_vcpus
from virtscope.xen.xl_host import parse_info, parse_pool_cpus, parse_pools, parse_psr, parse_shares

UUID = "586d02b6-9100-4965-a4ea-f600cf10add6"
LIST = b"Name                                        ID   Mem VCPUs\tState\tTime(s)"
WITH_POOLS = LIST + b"   UUID                            Reason-Code\tSecurity Label         Cpupool\n"
SHARES = b"Name                                ID Weight  Cap\n"
VCPUS = b"Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n"


def row(name: bytes, domid: int = 7, seconds: bytes = b"7.8") -> bytes:
    return b"%-40b %5d    96     1     -b----  %8b" % (name, domid, seconds)


def verbose_row(name: bytes, pool: bytes, label: bytes = b"-") -> bytes:
    return b"%b %b %8b %16b%16b\n" % (row(name), UUID.encode(), b"-", label, pool)


def test_lists_of_every_name_and_age() -> None:
    for name in ("name with blanks", "12 34", "käse", "", "a-name-that-is-longer-than-forty-characters"):
        assert parse_list(LIST + b"\n" + row(name.encode()) + b"\n") == ([Listed(7, name, 7.8, "", "")], [])
    of_xm = b"Name      ID Mem(MiB) VCPUs State   Time(s)\nDomain-0   0     1024     2 r-----   1234.5\n"
    assert parse_list(of_xm) == ([Listed(0, "Domain-0", 1234.5, "", "")], [])
    of_4_1 = LIST + b"   UUID                            Reason-Code\n" + row(b"web01") + b" " + UUID.encode()
    assert parse_list(of_4_1 + b"        1\n") == ([Listed(7, "web01", 7.8, UUID, "")], [])
    for pool in ("Pool-0", "pool with blanks"):
        for label in (b"-", b"system_u:system_r:domU_t"):
            text = WITH_POOLS + verbose_row(b"web01", b" " + pool.encode(), label)
            assert parse_list(text) == ([Listed(7, "web01", 7.8, UUID, pool)], []), label
    sticking = WITH_POOLS + verbose_row(b"w", b"sixteen-or-longer")
    assert parse_list(sticking)[0][0].cpupool == "sixteen-or-longer", "to the label before it"


def test_other_lines_of_a_list_are_unknown() -> None:
    evil = row(b"evil", domid=1) + b" 00000000-0000-0000-0000-000000000001 - -"
    assert parse_list(WITH_POOLS + verbose_row(evil, b"Pool-0"))[0][0].domid == 7, "a guest called like a row"
    text = b"libxl: warning: something\n" + LIST + b"\nwhat is this\n" + row(b"web01") + b"\n"
    assert parse_list(text) == ([Listed(7, "web01", 7.8, "", "")], [b"what is this"])
    no_name = b"7 96 1 -b---- 7.8"  # a row without a name starts with a blank
    for odd in (row(b"web01").replace(b"-b----", b"-what-"), row(b"web01", seconds=b"?.0"), no_name, b" 1 -b---- 7.8"):
        assert parse_list(LIST + b"\n" + odd + b"\n") == ([], [odd])
        assert parse_list(WITH_POOLS + odd + b" " + UUID.encode() + b" - - -\n")[0] == []
    assert "not implemented" in str(refusal(SourceMalformed, parse_list, b"command not implemented\n"))


def test_details_in_json_and_from_xm_and_xl_4_1() -> None:
    for c_info, b_info, kind in [
        ('"type": "pv"', "", "pv"),
        ('"type": "hvm"', '"device_model_version": "qemu_xen"', "hvm"),
        ('"type": "pvh"', "", "pvh"),
        ('"type": "pv", "pvh": "True"', "", "pvh"),  # Xen 4.4 to 4.8
        ('"type": "hvm"', '"device_model_version": "none"', "pvh"),  # Xen 4.9
        ('"type": "invalid"', "", ""),
    ]:
        text = f'[{{"domid": 3, "config": {{"c_info": {{{c_info}, "uuid": "{UUID}"}}, "b_info": {{{b_info}}}}}}}]'
        assert parse_details(text.encode()) == {3: Details(UUID, kind)}, text
    dom0 = "(domain\n    (domid 0)\n    (name Domain-0)\n    (image (linux (kernel )))\n)\n"
    web = (
        f"(domain\n    (domid 1)\n    (uuid {UUID})\n    (name web01)\n    (image\n        (hvm\n        )\n    )\n)\n"
    )
    assert parse_details((dom0 + web).encode()) == {0: Details("", "pv"), 1: Details(UUID, "hvm")}
    # xl 4.1 prints `(image` on a separate line, and doesn't quote names.
    of_4_1 = f"(domain\n\t(domid 2)\n\t(hvm 1)\n\t(name (hvm 0) x)\n\t(uuid {UUID})\n\t(image\n\t\t(hvm\n"
    assert parse_details(of_4_1.encode()) == {2: Details(UUID, "hvm")}
    assert parse_details(b"(domain\n    (domid 5)\n(domain\n    (name x)\n") == {5: Details("", "")}
    for malformed in (b"[1]", b'[{"domid": true, "config": {}}]', b'[{"domid": 1}]', b"[" * 100_000, b"x"):
        refusal(SourceMalformed, parse_details, malformed)


def test_shares_of_every_scheduler_and_age() -> None:
    text = (
        b"Cpupool Pool-0: tslice=30ms ratelimit=1000us migration-delay=0us\n"
        + SHARES
        + b"Domain-0                             0    256    0\n"
        b"name with spaces                     3    128   50\n"
        b"Cpupool spare pool: tslice=5ms ratelimit=0us\n"
        + SHARES
        + b"Cpupool fake: tslice=1ms             4    512    0\n"
    )
    pool, spare = Share(cpupool="Pool-0"), Share(512, 0, cpupool="spare pool")
    assert parse_shares(text) == (
        {0: pool._replace(weight=256, cap=0), 3: pool._replace(weight=128, cap=50), 4: spare},
        {"Pool-0": Timing(0.03, 0.001), "spare pool": Timing(0.005, None)},
        [],
    )
    of_xm = SHARES + b"Domain-0              0    256    0\nno-such-scheduler     1     -1   -1\n"
    assert parse_shares(of_xm) == ({0: Share(256, 0), 1: Share()}, {}, []), "no pools, and -1 is unknown"
    credit2 = b"Cpupool Pool-0: [sched params unavailable]\nName    ID Weight\nweb01   1    512\n"
    assert parse_shares(credit2) == ({1: Share(512, cpupool="Pool-0")}, {"Pool-0": Timing(None, None)}, [])
    rtds = b"Cpupool Pool-0: sched=RTDS\nName  ID  Period  Budget  Extratime\nweb01  1  10000  4000  yes\n"
    assert parse_shares(rtds)[0] == {1: Share(period=0.01, budget=0.004, cpupool="Pool-0")}
    odd = b"Name ID Weight Cap\nweb01 x 512 0\nweb02 2 many 0\n"
    assert parse_shares(odd) == ({}, {}, odd.splitlines()[1:])
    to_come = b"Name ID Luck Cap\nweb01 1 512 0\n"
    assert parse_shares(to_come) == ({}, {}, to_come.splitlines())
    assert parse_shares(b"") == ({}, {}, []), "a scheduler that is not in use prints nothing"


def test_pools_and_their_cpus() -> None:
    text = (
        b"Name               CPUs   Sched     Active   Domain count\n"
        b"a pool of this name   12   credit2       y          0\n"
        b"idle                 2      null       n          0\n"  # xm lists inactive pools
        b"Pool-128           128 credit       y\n"
        b"Pool-9             9999999999 credit   y          4\n"
    )
    pools = [Pool("a pool of this name", "credit2", 12), Pool("idle", "null", 2)]
    assert parse_pools(text) == (pools, text.splitlines()[3:])
    text = b"Name               CPU list\nPool-0             0,1,2,10\nempty              \npool-of-20-letters-a4,5\n"
    names = ["Pool-0", "empty", "pool-of-20-letters-a", "gone", "Pool"]
    cpus = {"Pool-0": {0, 1, 2, 10}, "empty": set[int](), "pool-of-20-letters-a": {4, 5}}
    assert parse_pool_cpus(text + b"made-since         6\n", names) == cpus
    assert parse_pool_cpus(b"Pool-0             0,1-2\nPool-0             x\nlibxl: error\n", names) == {}


def test_a_guest_called_like_a_header_is_not_taken_for_one() -> None:
    rows = b"%-33b %4d %6d %4d\n%-33b %4d %6d %4d\n" % (b"Name ID", 7, 512, 30, b"web 01", 8, 256, 0)
    assert parse_shares(SHARES + rows) == ({7: Share(512, 30), 8: Share(256, 0)}, {}, [])
    rows = b"%-32b     7     0    1   -b-       7.8  all / 0-3\n%-32b     8     0    1   -b-       7.8  all / all\n"
    placements, unknown = parse_vcpus(VCPUS + rows % (b"Name ID", b"web01"))
    assert ({domid: each[0].soft for domid, each in placements.items()}, unknown) == ({7: "0-3", 8: "all"}, [])
    header = b"%-40b %5b%14b 0\n" % (b"Name", b"ID", b"Socket")
    rows = b"%-40b %5d%13d KB\n%-40b %5d%13d KB\n" % (b"Name ID Socket 1", 7, 2, b"web01", 8, 3)
    assert parse_psr(header + rows) == ({7: {0: 2048}, 8: {0: 3072}}, [])


def test_where_vcpus_run_and_may() -> None:
    text = (
        VCPUS + b"Domain-0                             0     0    3   r--      87.4  all / all\n"
        b"Domain-0                             0     1    -   --p       0.0  0-3,7 / none\n"
        b"a / b (1)                            5     0   12   -b-       1.0  4 / 0-1\n"
    )
    dom0 = {0: Placement(3, "all", "all"), 1: Placement(None, "0-3,7", "none")}
    assert parse_vcpus(text) == ({0: dom0, 5: {0: Placement(12, "4", "0-1")}}, [])
    times = (b"what  1.0  all / all", b"-b-  ?.0  all / all", b"-b-  1.0  some / all", b"-b-  1.0  all / some")
    for vcpu in [*(b"0    1   " + each for each in times), b"x    1   -b-       1.0  all / all"]:
        malformed = b"web01                                5     " + vcpu
        assert parse_vcpus(VCPUS + malformed + b"\n") == ({}, [malformed])
    before_4_5 = (
        b"Name                             ID  VCPU   CPU State   Time(s) CPU Affinity\n"
        b"horatio any cpu                  16     0     0   ---  140005.6 any cpu\n"
        b"horatio any cpu                  16     1     -   --p       0.0 0,2-3\n"
        b"horatio any cpu                  16     2     1   -b-       0.1 no cpus\n"
    )
    placements = {0: Placement(0, "all", ""), 1: Placement(None, "0,2-3", ""), 2: Placement(1, "none", "")}
    assert parse_vcpus(before_4_5) == ({16: placements}, [])
    affinities = {"all": None, "": None, "none": set[int](), "0-2,8,10-11": {0, 1, 2, 8, 10, 11}, "0-3^2": None}
    assert {affinity: cpus_of(affinity) for affinity in affinities} == affinities


def test_info() -> None:
    text = (
        b"host                   : dom0: the first\nnr_cpus                : 8\ncpu_mhz                : 1999.998\n"
        b"total_memory           : 2047\nfree_memory            : 968\nxen_major              : 4\n"
        b"xen_minor              : 17\nxen_extra              : .7\nxen_scheduler          : credit2\n"
    )
    assert parse_info(text) == Host("4.17.7", 8, 1_999_998_000, 2047 << 20, 968 << 20, scheduler="credit2")
    text = b"nr_cpus           : 2\ncpu_mhz           : 2400\nxen_major         : 3\nxen_minor         : 0\n"
    assert parse_info(text) == Host("3.0", 2, 2_400_000_000)


def test_cache_occupancy_and_bandwidth() -> None:
    header = b"Total RMID: 71\nName                                        ID        Socket 0        Socket 1\n"
    total = b"Total L3 Cache Size                                   30720 KB        30720 KB\n"
    line = b"web 01                                       1         2592 KB"
    assert parse_psr(header + total + line + b"         4032 KB\n") == ({1: {0: 2592 * 1024, 1: 4032 * 1024}}, [])
    of_one = header.replace(b"        Socket 1", b"")
    assert parse_psr(of_one + b"web01    1        512 KB/s\n") == ({1: {0: 512 * 1024}}, [])
    assert parse_psr(header + line + b"\n") == ({}, [line]), "a socket that couldn't be read makes it ambiguous"
