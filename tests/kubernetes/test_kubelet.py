"""The chart's exporters on a real kubelet: pods by name, charged for the waits that they cause.

kvm-exporter isn't in the pod: the node has a PID namespace of its own, in which no process of the machine can be seen.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import pods
from tests.kubernetes.kubelet import NAME, Kubelet
from tests.kubernetes.node import running_node
from tests.support import Prometheus
from tests.support.ports import free_port

# The first run builds Kubernetes.
pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(3600)]

NAMED_SECONDS = 70
RATE_SECONDS = 130  # until a rate is over two minutes of the pod's life
PORTS = {name: free_port() for name in ("sched", "perf")}


@pytest.fixture(scope="module")
def kubelet(images: Path) -> Iterator[Kubelet]:
    with running_node(images) as node:
        yield node.kubelet


@pytest.fixture(scope="module")
def prometheus(kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    kubelet.run(pods.chart(tmp_path_factory.mktemp("chart"), PORTS))
    kubelet.wait_until_ready("virtscope", seconds=120)
    targets = kubelet.targets({exporter: f"127.0.0.1:{port}" for exporter, port in PORTS.items()})
    with Prometheus(tmp_path_factory.mktemp("prometheus"), targets, interval="5s") as prometheus:
        yield prometheus


def test_a_pod_s_wait_is_charged_to_its_neighbour_by_name(kubelet: Kubelet, prometheus: Prometheus) -> None:
    for exporter in PORTS:
        prometheus.wait_for(f"{exporter}_up == 1", 60)
    kubelet.run(pods.burner("shop", "checkout", cpu="2"))
    kubelet.run(pods.burner("batch", "etl-7"))
    kubelet.wait_until_ready("checkout", "etl-7", seconds=120)
    began = max(kubelet.started("checkout"), kubelet.started("etl-7"))
    checkout, etl = f"shop/checkout-{NAME}", f"batch/etl-7-{NAME}"
    of_checkout = f'vserver="{checkout}"'
    caused = f'vserver:delay:rate{{{of_checkout}, resource="cpu", reason="neighbour", by="{etl}"}}'
    prometheus.wait_for(f"{caused} > 0", 120, kubelet.log_tail)
    assert time.time() - began < NAMED_SECONDS
    time.sleep(max(0.0, began + RATE_SECONDS - time.time()))
    # It always wants one CPU. The kubelet counts what it had, sched-exporter what it had not.
    used, waited = (prometheus.value(f"vserver:cpu_{what}:rate{{{of_checkout}}}") for what in ("usage", "wait"))
    assert used + waited == pytest.approx(1, abs=0.1)
    assert prometheus.value(caused) > 0.5 * waited
    assert prometheus.value(f"vserver:cpu_limit:cpus{{{of_checkout}}}") == 2
    assert prometheus.value(f"vserver:cpu_weight:shares{{{of_checkout}}}") == 512
    names = {
        each["metric"]["vserver"]
        for each in prometheus.query('count by (vserver) (vserver:cpu_usage:rate{role="guest"})')
    }
    assert {checkout, etl, f"virtscope/virtscope-{NAME}"} <= names
    assert not [name for name in names if "kubepods" in name]
