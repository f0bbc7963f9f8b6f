"""The libxenstat source against a library built for the test: found, read, and its failures named."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.hypervisor import running_version
from virtscope.xen.libxenstat import HostReader, Libxenstat
from virtscope.xen.netdev import NetDev
from virtscope.xen.recorded import RAW, RawNetwork, RawNode, RawVbd, RawVcpu


@pytest.fixture
def xen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXen:
    return _fake_xen(tmp_path, monkeypatch)


def _fake_xen(folder: Path, monkeypatch: pytest.MonkeyPatch, *compiler_flags: str) -> FakeXen:
    fake = FakeXen(folder, *compiler_flags)
    monkeypatch.setenv("FAKE_XENSTAT", str(fake.description))
    return fake


def _source(xen: FakeXen) -> Libxenstat[RawNode]:
    return Libxenstat(RAW, str(xen.sysfs), str(xen.libraries))


def test_every_field_arrives_where_the_header_puts_it(xen: FakeXen) -> None:
    guest = FakeDomain(
        7,
        b"web 'quoted' \xc3\xa4",
        cpu_ns=123_456_789_012,
        memory=1 << 30,
        limit=2 << 30,
        state="paused",
        vcpus=[(1, 100), (0, 200)],
        networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)],
        vbds=[(1, 51712, 1, 2, 3, 4, 5, 0)],
    )
    xen.show(FakeDomain(0, b"Domain-0", state="running"), guest)

    node = _source(xen).read(None)

    assert (node.xen_version, node.num_cpus, node.cpu_hz) == (b"4.17.7", 4, 2_400_000_000)
    assert (node.tot_mem, node.free_mem) == (17179869184, 1073741824)
    dom0, web = node.domains
    assert (dom0.id, dom0.name, dom0.running, dom0.blocked) == (0, b"Domain-0", 1, 0)
    assert (web.id, web.name) == (7, b"web 'quoted' \xc3\xa4")
    assert (web.cpu_ns, web.cur_mem, web.max_mem) == (123_456_789_012, 1 << 30, 2 << 30)
    assert (web.paused, web.running, web.blocked, web.dying, web.crashed, web.shutdown) == (1, 0, 0, 0, 0, 0)
    assert web.vcpus == (RawVcpu(1, 100), RawVcpu(0, 200))
    assert web.networks == (RawNetwork(0, 11, 12, 13, 14, 21, 22, 23, 24),)
    assert web.vbds == (RawVbd(1, 51712, 1, 2, 3, 4, 5, error=False),)


def test_networks_are_read_where_they_are_asked_for_alone_and_else_given_to_their_domains(xen: FakeXen) -> None:
    """Each costs the library a regular expression, compiled for it alone."""
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)], vbds=[(1, 51712, 1, 2, 3, 4, 5, 0)]))
    asked, not_asked = (_source(xen).read(None if asked else {}).domains[0] for asked in (True, False))
    assert len(asked.networks) == 1
    assert not_asked == asked._replace(networks=())
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)]), FakeDomain(2, b"db"))
    vifs = {1: [RawNetwork(0, *range(8)), RawNetwork(1, *range(8))], 7: [RawNetwork(0, *range(8))]}  # 7 has just died
    assert [list(domain.networks) for domain in _source(xen).read(vifs).domains] == [vifs[1], []]


def test_where_net_dev_cannot_be_read_networks_are_the_librarys(xen: FakeXen) -> None:
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)]))
    net_dev = Mock(spec=NetDev, path="/proc/net/dev")
    net_dev.read.side_effect = [SourceUnavailable("absent"), {}]
    reader = HostReader(_source(xen), net_dev)
    assert [len(reader.read().domains[0].networks) for _ in range(2)] == [1, 0]


def test_a_library_from_before_4_13_has_no_vbd_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xen = _fake_xen(tmp_path, monkeypatch, "-DBEFORE_4_13")
    xen.show(FakeDomain(1, b"old", vbds=[(1, 51712, 0, 1, 2, 3, 4, 0)]))
    assert _source(xen).read(None).domains[0].vbds[0].error is None


def test_the_running_version_is_known_without_the_library(xen: FakeXen, tmp_path: Path) -> None:
    xen.show(FakeDomain(3, None))
    node = _source(xen).read(None)
    assert node.domains[0].name is None, "it is not known yet"
    assert running_version(xen.sysfs) == (node.xen_version or b"").decode()
    assert running_version(tmp_path / "elsewhere") is None


def test_the_running_releases_own_is_taken_of_several(xen: FakeXen) -> None:
    """As they lie side by side after an upgrade: others don't speak the running hypervisor's interface."""
    for name in ("libxenstat.so.4.9", "libxenstat.so.4.19", "libxenstat.so.0"):
        xen.build(name)
    source = _source(xen)
    source.read(None)
    assert source.origin() == "libxenstat.so.4.17"
    (xen.sysfs / "hypervisor/version/minor").write_text("19\n")
    source = _source(xen)
    source.read(None)
    assert source.origin() == "libxenstat.so.4.19"


def test_a_library_that_lacks_a_symbol_is_passed_over(xen: FakeXen) -> None:
    """Up to Xen 4.13 it is libxenstat.so.0, whatever the release."""
    xen.build("libxenstat.so.4.17", "-DBROKEN")
    with pytest.raises(SourceUnavailable, match=r"4\.17 can't be used: .*xenstat_domain_cpu_ns"):
        _source(xen).read(None)
    xen.build("libxenstat.so.0")
    source = _source(xen)
    source.read(None)
    assert source.origin() == "libxenstat.so.0"


def test_where_it_cannot_work_it_says_what_to_do(xen: FakeXen, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "hypervisor").mkdir(parents=True)
    with pytest.raises(SourceUnavailable, match=r"no Xen here: .*it is absent; run this in Dom0"):
        Libxenstat(RAW, str(elsewhere), "/nowhere").read(None)
    (elsewhere / "hypervisor/type").write_text("kvm\n")
    with pytest.raises(SourceUnavailable, match=r"no Xen here: .*it says 'kvm'; run this in Dom0"):
        Libxenstat(RAW, str(elsewhere), "/nowhere").read(None)
    with pytest.raises(SourceUnavailable, match=r"No such file.*install the tools of the running Xen"):
        Libxenstat(RAW, str(xen.sysfs), "/nowhere").read(None)
    xen.say("init-fails 13")
    with pytest.raises(SourceUnavailable, match=r"Permission denied.*needs root in Dom0"):
        _source(xen).read(None)


def test_a_count_without_an_array_behind_it_is_malformed_and_no_crash(xen: FakeXen) -> None:
    source = _source(xen)
    xen.say("domain 1 - 0 0 0 0 0 0 0 0 0 0\nvcpus 4294967295")
    with pytest.raises(SourceMalformed, match="xenstat_domain_num_vcpus says 4294967295"):
        source.read(None)
    xen.show(FakeDomain(0, b"Domain-0"))
    assert len(source.read(None).domains) == 1


def test_after_a_failure_it_starts_over_and_recovers(xen: FakeXen) -> None:
    source = _source(xen)
    source.read(None)
    xen.say("fails 5")
    with pytest.raises(SourceError, match="Input/output error"):
        source.read(None)
    xen.show(FakeDomain(0, b"Domain-0"))
    assert [domain.id for domain in source.read(None).domains] == [0]
