"""What a real Xen 4.17 said (tests/xen/recordings), through model and metrics, against a golden page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.golden_pages import assert_golden
from virtscope.toolkit.exposition import Encoder
from virtscope.xen import metrics, model, recorded
from virtscope.xen.recorded import RawDomain, RawNetwork, RawNode, RawVbd, RawVcpu

TESTS = Path(__file__).resolve().parents[2]
RECORDING = TESTS / "xen/recordings/libxenstat-xen-4.17.json"
GOLDEN = TESTS / "golden/xen-4.17.prom"


def recorded_node() -> RawNode:
    node = json.loads(RECORDING.read_text())["node"]
    domains = tuple(_domain(domain) for domain in node.pop("domains"))
    return RawNode(domains=domains, xen_version=node.pop("xen_version").encode(), **node)


def _domain(domain: dict[str, Any]) -> RawDomain:
    return RawDomain(
        vcpus=tuple(RawVcpu(**vcpu) for vcpu in domain.pop("vcpus")),
        networks=tuple(RawNetwork(**network) for network in domain.pop("networks")),
        vbds=tuple(RawVbd(**vbd) for vbd in domain.pop("vbds")),
        name=domain.pop("name").encode(),
        **domain,
    )


def test_golden_page_of_a_real_host() -> None:
    page = Encoder().text(metrics.host_families(recorded.host(recorded_node())))
    assert_golden(GOLDEN, page)


def test_values_worked_out_by_hand() -> None:
    host = recorded.host(recorded_node())
    by_id = {domain.domid: domain for domain in host.domains}
    assert (host.xen_version, host.cpus, host.memory_bytes) == ("4.17.7", 1, 1610084352)
    assert by_id[0].cpu_seconds == 49.468627568
    assert by_id[0].states == {"running"}
    assert by_id[2].states == {"paused"}
    # rbytes 213480 is what Dom0's vif received: what the guest sent.
    assert by_id[1].networks[0].transmit.bytes == 213480
    # 5832 sectors of 512 bytes.
    assert by_id[1].blocks[0].read == model.Requests(79, 2985984)
    assert len(by_id[4].name) == 200
