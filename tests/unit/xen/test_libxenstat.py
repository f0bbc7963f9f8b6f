"""The libxenstat source against a library built for the test: found, read, and its failures named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.hypervisor import running_version
from virtscope.xen.libxenstat import HostReader, Libxenstat
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


def test_networks_are_read_where_they_are_asked_for_alone(xen: FakeXen) -> None:
    """Each costs the library a regular expression, compiled for it alone."""
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)], vbds=[(1, 51712, 1, 2, 3, 4, 5, 0)]))
    asked, not_asked = (_source(xen).read(None if asked else {}).domains[0] for asked in (True, False))
    assert len(asked.networks) == 1
    assert not_asked == asked._replace(networks=())


def test_networks_from_elsewhere_go_to_their_domains_and_those_of_a_domain_that_has_just_died_to_none(
    xen: FakeXen,
) -> None:
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)]), FakeDomain(2, b"db"))
    vifs = {1: [RawNetwork(0, *range(8)), RawNetwork(1, *range(8))], 7: [RawNetwork(0, *range(8))]}
    assert [list(domain.networks) for domain in _source(xen).read(vifs).domains] == [vifs[1], []]


class Interfaces:
    """A net/dev that can be read or not."""

    path = "/proc/net/dev"
    absent = True

    def read(self) -> dict[int, list[RawNetwork]]:
        if self.absent:
            raise SourceUnavailable("absent")
        return {}


def test_whose_networks_are_shown_is_logged_when_it_changes(xen: FakeXen, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "virtscope.xen")
    xen.show(FakeDomain(1, b"web", networks=[(0, 11, 12, 13, 14, 21, 22, 23, 24)]))
    interfaces = Interfaces()
    snapshots = HostReader(_source(xen), interfaces)  # type: ignore[arg-type]
    theirs, ours = ["networks are libxenstat's"], ["networks are libxenstat's no more"]
    for absent, said in ((True, theirs), (True, []), (False, ours), (False, []), (True, theirs)):
        interfaces.absent = absent
        caplog.clear()
        assert len(snapshots.read().domains[0].networks) == absent
        assert [record.getMessage() for record in caplog.records] == said


def test_a_domain_whose_name_is_not_known_yet_has_none(xen: FakeXen) -> None:
    xen.show(FakeDomain(3, None))
    assert _source(xen).read(None).domains[0].name is None


def test_a_library_from_before_4_13_has_no_vbd_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xen = _fake_xen(tmp_path, monkeypatch, "-DBEFORE_4_13")
    xen.show(FakeDomain(1, b"old", vbds=[(1, 51712, 0, 1, 2, 3, 4, 0)]))
    assert _source(xen).read(None).domains[0].vbds[0].error is None


def test_origin_names_the_library_in_use(xen: FakeXen) -> None:
    source = _source(xen)
    source.read(None)
    assert source.origin() == "libxenstat.so.4.17"


def test_the_running_version_is_known_without_the_library(xen: FakeXen, tmp_path: Path) -> None:
    xen.show()
    version = _source(xen).read(None).xen_version
    assert running_version(xen.sysfs) == (version or b"").decode()
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


@pytest.mark.parametrize(("kind", "said"), [(None, "it is absent"), ("kvm\n", "it says 'kvm'")])
def test_off_xen_it_says_so_and_loads_nothing(tmp_path: Path, kind: str | None, said: str) -> None:
    (tmp_path / "hypervisor").mkdir()
    if kind:
        (tmp_path / "hypervisor/type").write_text(kind)
    with pytest.raises(SourceUnavailable, match=f"no Xen here: .*{said}; run this in Dom0"):
        Libxenstat(RAW, str(tmp_path), "/nowhere").read(None)


def test_xen_without_the_library_says_what_to_install(xen: FakeXen) -> None:
    with pytest.raises(SourceUnavailable, match=r"No such file.*install the tools of the running Xen"):
        Libxenstat(RAW, str(xen.sysfs), "/nowhere").read(None)


def test_without_permission_it_says_what_is_needed(xen: FakeXen) -> None:
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
