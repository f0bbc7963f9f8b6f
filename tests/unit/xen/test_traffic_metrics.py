"""Each counter of a virtual interface is the one that its name says."""

from __future__ import annotations

from virtscope.xen.metrics import host_families
from virtscope.xen.model import Domain, Host, Network, Traffic

NETWORK = Network("0", receive=Traffic(1, 2, 3, 4), transmit=Traffic(5, 6, 7, 8))


def test_counters_of_an_interface() -> None:
    domain = Domain(3, "web", 1.0, 1 << 28, None, 0, frozenset(), (), (NETWORK,), ())
    samples = [
        sample for family in host_families(Host("4.17", 4, None, None, None, (domain,))) for sample in family.samples
    ]
    found = {sample.name: sample.value for sample in samples if sample.labels.get("vif") == "0"}
    kinds = ("bytes", "packets", "errors", "drops")
    assert found == {
        f"xen_domain_network_{direction}_{kind}_total": value
        for direction, traffic in (("receive", NETWORK.receive), ("transmit", NETWORK.transmit))
        for kind, value in zip(kinds, traffic, strict=True)
    }
