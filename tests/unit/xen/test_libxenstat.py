"""The libxenstat source with a library compiled for the test: lookup, reading, and error messages."""

import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.fake_host import FakeDomain, FakeXen
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.xen.hypervisor import running_version
from virtscope.xen.libxenstat import Libxenstat, RawDomain, RawVbd, RawVcpu
from virtscope.xen.netdev import NetDev, RawNetwork

NETWORK = (0, 11, 12, 13, 14, 21, 22, 23, 24)
VBD = (1, 51712, 1, 2, 3, 4, 5, 0)


def _source(xen: FakeXen, *vifs: object) -> Libxenstat:
    """A library with this /proc/net/dev, which is missing if the text is empty."""
    net_dev = Mock(spec=NetDev, path="/proc/net/dev")
    net_dev.read.side_effect = [*vifs, *[SourceUnavailable("absent")] * 9]
    return Libxenstat(net_dev, str(xen.sysfs), str(xen.libraries))


def test_every_field_arrives_where_the_header_puts_it(xen: FakeXen) -> None:
    web = FakeDomain(7, b"web \xc3\xa4", 123, 1 << 30, 2 << 30, "paused", [(1, 100), (0, 200)], [NETWORK], [VBD])
    xen.show(FakeDomain(0, None, state="running"), web)
    node = _source(xen).read()
    assert node[1:] == (b"4.17.7", 4, 2_400_000_000, 17179869184, 1073741824)
    assert running_version(xen.sysfs) == "4.17.7", "without the library"
    dom0, found = node.domains
    assert (dom0.id, dom0.name, dom0.running, dom0.blocked) == (0, None, 1, 0), "a name that isn't known yet"
    vcpus, networks, vbds = (RawVcpu(1, 100), RawVcpu(0, 200)), (RawNetwork(*NETWORK),), (RawVbd(*VBD[:-1], False),)
    states = {**dict.fromkeys(("dying", "crashed", "shutdown", "blocked", "running"), 0), "paused": 1}
    assert found == RawDomain(vcpus, networks, vbds, 7, b"web \xc3\xa4", 123, 1 << 30, 2 << 30, ssid=0, **states)


def test_the_librarys_networks_are_read_only_where_net_dev_cannot_be(xen: FakeXen) -> None:
    """Each makes the library compile a regular expression."""
    xen.show(FakeDomain(1, b"web", networks=[NETWORK], vbds=[VBD]), FakeDomain(2, b"db"))
    vifs = {1: [RawNetwork(0, *range(8)), RawNetwork(1, *range(8))], 7: [RawNetwork(0, *range(8))]}  # 7 has just ended
    reader = _source(xen, SourceUnavailable("absent"), vifs)
    assert [domain.networks for domain in reader.read().domains] == [(RawNetwork(*NETWORK),), ()]
    assert [list(domain.networks) for domain in reader.read().domains] == [vifs[1], []]


def test_the_running_releases_own_library_is_taken_of_several_and_one_that_lacks_a_symbol_passed_over(
    xen: FakeXen,
) -> None:
    """After an upgrade several are installed; the others don't support the running hypervisor's interface."""
    for name in ("libxenstat.so.4.9", "libxenstat.so.4.19"):
        xen.build(name)
    for minor in ("17", "19"):
        (xen.sysfs / "hypervisor/version/minor").write_text(f"{minor}\n")
        source = _source(xen)
        source.read()
        assert source.origin() == f"libxenstat.so.4.{minor}"
    (xen.sysfs / "hypervisor/version/minor").write_text("13\n")
    xen.build("libxenstat.so.4.13", "-DBROKEN")
    with pytest.raises(SourceUnavailable, match=r"4\.13 can't be used: .*xenstat_domain_cpu_ns"):
        _source(xen).read()
    # Up to Xen 4.13 it is libxenstat.so.0 in every release, and lacks xenstat_vbd_error.
    xen.build("libxenstat.so.0", "-DBEFORE_4_13")
    xen.show(FakeDomain(1, b"old", vbds=[VBD]))
    source = _source(xen)
    assert source.read().domains[0].vbds[0].error is None
    assert source.origin() == "libxenstat.so.0"


def test_where_it_cannot_work_the_error_names_the_remedy(xen: FakeXen, tmp_path: Path) -> None:
    def failure(sysfs: Path, libraries: str = "/nowhere") -> str:
        return str(refusal(SourceUnavailable, Libxenstat(NetDev(), str(sysfs), libraries).read))

    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "hypervisor").mkdir(parents=True)
    assert re.search("no Xen here: .*it is absent; run this in Dom0", failure(elsewhere))
    (elsewhere / "hypervisor/type").write_text("kvm\n")
    assert re.search("no Xen here: .*it says 'kvm'; run this in Dom0", failure(elsewhere))
    assert re.search("No such file.*install the tools of the running Xen", failure(xen.sysfs))
    xen.say("init-fails 13")
    assert re.search("Permission denied.*needs root in Dom0", failure(xen.sysfs, str(xen.libraries)))


def test_after_a_failure_it_starts_over_and_recovers(xen: FakeXen) -> None:
    source = _source(xen)
    source.read()
    xen.say("fails 5")
    with pytest.raises(SourceError, match="Input/output error"):
        source.read()
    xen.say("domain 1 - 0 0 0 0 0 0 0 0 0 0\nvcpus 4294967295")  # a count without an array
    with pytest.raises(SourceMalformed, match="xenstat_domain_num_vcpus says 4294967295"):
        source.read()
    xen.show(FakeDomain(0, b"Domain-0"))
    assert [domain.id for domain in source.read().domains] == [0]
