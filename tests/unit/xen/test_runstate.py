"""Domains' wait, with a libxenctrl compiled for the test: XenServer's old and new one, and stock Xen's."""

from errno import EACCES, ENOSYS, EOPNOTSUPP, EPERM

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.model import RUNSTATES
from virtscope.xen.runstate import RawRunstate, Runstate, waiting

TIMES = (900_000_000_000, 12_500_000_000, 3_000_000_000, 4_000_000_000, 5_000_000_000, 6_000_000_000)
#        state, missed changes, entered, times, means over the vCPUs: runnable, running, nonaffine
ACCOUNT = (3, 7, 930_000_000_000, *TIMES, 8_000_000_000, 2_000_000_000, 1_000_000_000)
HERE = "; run node_exporter in the guests"


def _source(xen: FakeXen, *compiler_flags: str) -> Runstate:
    xen.build_libxenctrl(*compiler_flags)
    return Runstate(str(xen.sysfs), str(xen.libraries))


def test_every_field_arrives_where_the_header_puts_it(xen: FakeXen) -> None:
    longest = (1 << 63) - 1
    xen.show(FakeDomain(1, b"web", runstate=(*ACCOUNT[:9], longest, *ACCOUNT[10:])))
    source = _source(xen)
    assert source.read([1]) == [RawRunstate(1, 3, 7, TIMES, longest)]
    assert source.origin() == "libxenctrl.so.4.17, xc_get_runstate_info_ext"
    # A library newer than the running hypervisor, which doesn't fill the field: 0 would be wrong.
    xen.show(FakeDomain(1, b"web", runstate=(*ACCOUNT[:9], 0, 0, 0)))
    assert source.read([1])[0].runnable is None


def test_releases_before_autumn_2025_know_whole_domains_only_and_one_that_is_gone_is_left_out(xen: FakeXen) -> None:
    xen.show(FakeDomain(0, b"Domain-0", runstate=ACCOUNT), FakeDomain(2, b"db", runstate=ACCOUNT))
    source = _source(xen, "-DBEFORE_EXT")
    assert source.read([0, 1, 2]) == [RawRunstate(domid, 3, 7, TIMES, None) for domid in (0, 2)]
    assert source.origin() == "libxenctrl.so.4.17, xc_get_runstate_info"


def test_waiting_is_in_seconds_and_summed_over_vcpus() -> None:
    account = RawRunstate(1, 3, 7, TIMES, 8_000_000_000)
    web = waiting(account, "web", 4)
    assert (web.domid, web.name, web.missed_changes) == (1, "web", 7)
    assert web.runstate_seconds == dict(zip(RUNSTATES, (900, 12.5, 3, 4, 5, 6), strict=True))
    assert web.runnable_seconds == 32  # a mean of 8 s over all four vCPUs, online or not
    assert waiting(account, "web", 0).runnable_seconds is None, "of a domain that ends, 0 would be a counter's fall"


def test_a_hypervisor_without_the_call_or_that_refuses_it_is_no_failure(xen: FakeXen) -> None:
    absent, refused = f"this hypervisor not{HERE}", "refuses xc_get_runstate_info_ext of libxenctrl.so.4.17"
    for code, words in ((ENOSYS, absent), (EOPNOTSUPP, absent), (EACCES, refused), (EPERM, refused)):
        xen.say(f"runstate-fails {code}")
        assert words in str(refusal(SourceUnavailable, _source(xen).read, [0]))


def test_without_a_library_that_knows_the_call_the_error_names_the_remedy(xen: FakeXen) -> None:
    absent = rf"libxenctrl.so.4.17 can't be used: .*No such file.*{HERE}"
    with pytest.raises(SourceUnavailable, match=absent):
        Runstate(str(xen.sysfs), str(xen.libraries)).read([0])
    stock = _source(xen, "-DSTOCK")  # stock Xen's library is never called
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match=r"only XenServer and XCP-ng .* node_exporter in the guests"):
            stock.read([0])


def test_an_impossible_account_is_malformed(xen: FakeXen) -> None:
    source = _source(xen)
    for account in (
        (6, *ACCOUNT[1:]),  # an invalid state
        (*ACCOUNT[:3], 1 << 63, *ACCOUNT[4:]),  # a time of 292 years
        (*ACCOUNT[:2], 1 << 63, *ACCOUNT[3:]),  # entered in 292 years
        (*ACCOUNT[:9], 1 << 63, *ACCOUNT[10:]),  # runnable for 292 years
    ):
        xen.show(FakeDomain(1, b"web", runstate=account))
        refusal(SourceMalformed, source.read, [1])
    xen.say("answers-for 5\nrunstate 1 " + " ".join(map(str, ACCOUNT)))
    assert "answered for domain 5, not 1" in str(refusal(SourceMalformed, source.read, [1]))


def test_after_a_failure_it_starts_over(xen: FakeXen) -> None:
    source = _source(xen)
    xen.say("runstate-fails 5")
    with pytest.raises(SourceError, match=r"xc_get_runstate_info_ext failed for domain 1 \(Input/output error\)"):
        source.read([1])
    xen.say("xenctrl-closed 1")
    with pytest.raises(SourceError, match="needs root in Dom0"):
        source.read([1])
    xen.show(FakeDomain(1, b"web", runstate=ACCOUNT))
    assert len(source.read([1])) == 1
