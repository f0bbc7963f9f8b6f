"""How long domains waited, against a libxenctrl built for the test: XenServer's of either age, and Xen's own."""

from __future__ import annotations

from errno import EACCES, ENOSYS, EOPNOTSUPP, EPERM
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.libxenstat import MODEL, Libxenstat
from virtscope.xen.model import RUNSTATES, Waiting
from virtscope.xen.recorded import RawRunstate, raw_runstate
from virtscope.xen.runstate import Runstate, waiting

TIMES = (900_000_000_000, 12_500_000_000, 3_000_000_000, 4_000_000_000, 5_000_000_000, 6_000_000_000)
#        state, missed changes, entered, times, means over the vCPUs: runnable, running, nonaffine
ACCOUNT = (3, 7, 930_000_000_000, *TIMES, 8_000_000_000, 2_000_000_000, 1_000_000_000)


@pytest.fixture
def xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXen:
    fake = FakeXen(tmp_path)
    monkeypatch.setenv("FAKE_XENSTAT", str(fake.description))
    return fake


class Asked:
    """The source under test, which gives accounts as the call does."""

    def __init__(self, xen: FakeXen, *compiler_flags: str, built: bool = True) -> None:
        if built:
            xen.build_libxenctrl(*compiler_flags)
        self._source = Runstate(raw_runstate, str(xen.sysfs), str(xen.libraries))
        self.origin = self._source.origin

    def read(self, *domids: int) -> list[RawRunstate]:
        return self._source.read((domid, None) for domid in domids)


def _waiting(xen: FakeXen) -> Waiting:
    """Return how long the only domain waited."""
    xen.build_libxenctrl()
    [domain] = Libxenstat(MODEL, str(xen.sysfs), str(xen.libraries)).read({}).domains
    source = Runstate(waiting, str(xen.sysfs), str(xen.libraries))
    [found] = source.read([(domain.domid or 0, (domain.name, len(domain.vcpus)))])
    return found


def test_every_field_arrives_where_the_header_puts_it(xen: FakeXen) -> None:
    longest = (1 << 63) - 1
    xen.show(FakeDomain(1, b"web", runstate=(*ACCOUNT[:9], longest, *ACCOUNT[10:])))
    source = Asked(xen)
    assert source.read(1) == [RawRunstate(1, 3, 7, TIMES, longest)]
    assert source.origin() == "libxenctrl.so.4.17, xc_get_runstate_info_ext"
    # A library newer than the running hypervisor, which doesn't fill in the field: 0 would be a lie.
    xen.show(FakeDomain(1, b"web", runstate=(*ACCOUNT[:9], 0, 0, 0)))
    assert source.read(1)[0].runnable is None


def test_releases_before_autumn_2025_know_whole_domains_only(xen: FakeXen) -> None:
    xen.show(FakeDomain(1, b"web", runstate=ACCOUNT))
    source = Asked(xen, "-DBEFORE_EXT")
    assert source.read(1) == [RawRunstate(1, 3, 7, TIMES, None)]
    assert source.origin() == "libxenctrl.so.4.17, xc_get_runstate_info"


def test_waiting_is_named_and_in_seconds_and_summed_over_vcpus(xen: FakeXen) -> None:
    xen.show(FakeDomain(1, b"web", vcpus=[(1, 0)] * 3 + [(0, 0)], runstate=ACCOUNT))
    web = _waiting(xen)
    assert (web.domid, web.name, web.missed_changes) == (1, "web", 7)
    assert web.runstate_seconds == dict(zip(RUNSTATES, (900, 12.5, 3, 4, 5, 6), strict=True))
    assert web.runnable_seconds == 32  # a mean of 8 s over all four, the one that is offline included


def test_a_domain_that_is_gone_is_left_out_and_one_being_destroyed_has_no_vcpus_to_sum_over(xen: FakeXen) -> None:
    """0 would be a counter that goes back."""
    xen.show(FakeDomain(0, b"Domain-0", runstate=ACCOUNT), FakeDomain(2, b"db", runstate=ACCOUNT))
    assert [raw.domid for raw in Asked(xen).read(0, 1, 2)] == [0, 2]
    xen.show(FakeDomain(1, b"web", vcpus=[], runstate=ACCOUNT))
    web = _waiting(xen)
    assert (web.runnable_seconds, web.runstate_seconds["full_run"]) == (None, 900)


def test_a_hypervisor_without_the_call_or_that_refuses_it_is_no_failure(xen: FakeXen) -> None:
    absent = "this hypervisor not; run node_exporter in the guests"
    refused = "refuses xc_get_runstate_info_ext of libxenctrl.so.4.17"
    for code, words in ((ENOSYS, absent), (EOPNOTSUPP, absent), (EACCES, refused), (EPERM, refused)):
        xen.say(f"runstate-fails {code}")
        assert words in str(refusal(SourceUnavailable, Asked(xen).read, 0))


def test_without_a_library_that_knows_the_call_the_error_names_the_remedy(xen: FakeXen) -> None:
    absent = r"libxenctrl.so.4.17 can't be used: .*No such file.*; run node_exporter in the guests"
    with pytest.raises(SourceUnavailable, match=absent):
        Asked(xen, built=False).read(0)
    source = Asked(xen, "-DSTOCK")  # Xen's own, which is never asked
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match=r"only XenServer and XCP-ng .* node_exporter in the guests"):
            source.read(0)


def test_an_impossible_account_is_malformed(xen: FakeXen) -> None:
    source = Asked(xen)
    for account in (
        (6, *ACCOUNT[1:]),  # a state beyond the last
        (*ACCOUNT[:3], 1 << 63, *ACCOUNT[4:]),  # a time of 292 years
        (*ACCOUNT[:2], 1 << 63, *ACCOUNT[3:]),  # entered in 292 years
        (*ACCOUNT[:9], 1 << 63, *ACCOUNT[10:]),  # runnable for 292 years
    ):
        xen.show(FakeDomain(1, b"web", runstate=account))
        refusal(SourceMalformed, source.read, 1)
    xen.say("answers-for 5\nrunstate 1 " + " ".join(map(str, ACCOUNT)))
    with pytest.raises(SourceMalformed, match="answered for domain 5 when asked for 1"):
        source.read(1)


def test_after_a_failure_it_starts_over(xen: FakeXen) -> None:
    source = Asked(xen)
    xen.say("runstate-fails 5")
    with pytest.raises(SourceError, match=r"xc_get_runstate_info_ext failed for domain 1 \(Input/output error\)"):
        source.read(1)
    xen.say("xenctrl-closed 1")
    with pytest.raises(SourceError, match="needs root in Dom0"):
        source.read(1)
    xen.show(FakeDomain(1, b"web", runstate=ACCOUNT))
    assert len(source.read(1)) == 1
