"""The chart's exporters on a real kubelet: pods by name, charged for the waits that they cause.

There is no API server, so the DaemonSet's pod is a static one, on the node's network as there is no other. kvm-exporter
isn't in it: the node has a PID namespace of its own, in which no process of the machine can be seen.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes import node as nodes
from tests.kubernetes.node import Node, running_node
from tests.support import Prometheus
from tests.support.ports import free_port
from tools import chart as tool

# The first run builds Kubernetes.
pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(3600)]

Json = Any
NAMED_SECONDS = 70
RATE_SECONDS = 130  # until a rate is over two minutes of the pod's life
BURN = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"
PORTS = {name: free_port() for name in ("sched", "perf")}


@pytest.fixture(scope="module")
def node(images: Path) -> Iterator[Node]:
    with running_node(images) as node:
        yield node


@pytest.fixture(scope="module")
def exporters(node: Node, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The chart's pod; the ports of its exporters."""
    folder = tmp_path_factory.mktemp("chart")
    values = {name: {"enabled": True, "port": port} for name, port in PORTS.items()}
    image, _, tag = nodes.EXPORTERS.partition(":")
    given = {"image": {"repository": f"docker.io/{image}", "tag": tag, "pullPolicy": "Never"}}
    (folder / "values.yaml").write_text(yaml.safe_dump(values | given))
    tool.write(folder / "chart")
    made = yaml.load_all(tool.manifests(folder / "chart", folder / "values.yaml"), yaml.CSafeLoader)
    (daemons,) = (each for each in made if each["kind"] == "DaemonSet")
    template = daemons["spec"]["template"]
    spec = template["spec"] | {"hostNetwork": True}
    for container in spec["containers"]:  # a container's port is the node's then
        for port in container["ports"]:
            port["hostPort"] = port["containerPort"]
    node.run({"metadata": {"name": "virtscope", "namespace": "virtscope"}, "spec": spec})
    node.wait_until_ready("virtscope", seconds=120)
    return PORTS


@pytest.fixture(scope="module")
def prometheus(node: Node, exporters: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    targets: dict[str, list[Json]] = {
        job: [{"targets": [f"127.0.0.1:{port}"], "labels": {"host": nodes.NAME, "platform": "base"}}]
        for job, port in exporters.items()
    }
    of_kubelet = {"host": nodes.NAME, "platform": "cgroup", "__metrics_path__": "/metrics/cadvisor"}
    targets["cadvisor"] = [{"targets": [f"127.0.0.1:{node.api}"], "labels": of_kubelet}]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), targets, interval="5s") as prometheus:
        yield prometheus


def burner(namespace: str, name: str, **limits: str) -> Json:
    resources = {"requests": {"cpu": "500m"}, "limits": limits}
    container: Json = {"name": "main", "image": f"docker.io/{nodes.EXPORTERS}", "imagePullPolicy": "Never"}
    container |= {"command": ["python3", "-c", BURN], "resources": resources}
    spec = {"hostNetwork": True, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec | {"containers": [container]}}


def test_a_pod_s_wait_is_charged_to_its_neighbour_by_name(node: Node, prometheus: Prometheus) -> None:
    for exporter in PORTS:
        prometheus.wait_for(f"{exporter}_up == 1", 60)
    node.run(burner("shop", "checkout", cpu="2"))
    node.run(burner("batch", "etl-7"))
    node.wait_until_ready("checkout", "etl-7", seconds=120)
    began = max(node.started("checkout"), node.started("etl-7"))
    checkout, etl = f"shop/checkout-{nodes.NAME}", f"batch/etl-7-{nodes.NAME}"
    of_checkout = f'vserver="{checkout}"'
    caused = f'vserver:delay:rate{{{of_checkout}, resource="cpu", reason="neighbour", by="{etl}"}}'
    prometheus.wait_for(f"{caused} > 0", 120, node.log_tail)
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
    assert {checkout, etl, f"virtscope/virtscope-{nodes.NAME}"} <= names
    assert not [name for name in names if "kubepods" in name]
