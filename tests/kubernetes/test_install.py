"""helm install, upgrade and uninstall against a real API server, with the DaemonSet's pods on a real kubelet."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import go_programs
from tests.kubernetes.cluster import Cluster, running_cluster
from tests.kubernetes.kubelet import EXPORTERS
from tests.support.waiting import wait_for
from tools import chart as tool

# The first run builds Kubernetes.
pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(3600)]

Json = Any
NAMESPACE = "virtscope"
KINDS = "daemonsets,configmaps,podmonitors,servicemonitors,prometheusrules"


def of_release(cluster: Cluster) -> set[tuple[str, str]]:
    selector = "--selector=app.kubernetes.io/name=virtscope"
    return {(each["kind"], each["metadata"]["name"]) for each in cluster.get(KINDS, "--all-namespaces", selector)}


def containers(cluster: Cluster) -> dict[str, bool]:
    """The containers of all pods, and whether they are ready."""
    pods = cluster.get("pods", f"--namespace={NAMESPACE}")
    return {each["name"]: each["ready"] for pod in pods for each in pod["status"].get("containerStatuses", ())}


def test_install_upgrade_and_uninstall(images: Path, tmp_path: Path) -> None:
    tool.write(tmp_path / "chart")
    image, _, tag = EXPORTERS.partition(":")
    given = {"image": {"repository": f"docker.io/{image}", "tag": tag, "pullPolicy": "Never"}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(given))
    of_helm = (f"--namespace={NAMESPACE}", str(tmp_path / "chart"), f"--values={tmp_path / 'values.yaml'}")
    with running_cluster(images) as cluster:
        for kind in ("podmonitors", "prometheusrules", "servicemonitors"):
            file = go_programs.custom_resource_definitions() / f"monitoring.coreos.com_{kind}.yaml"
            cluster.run("kubectl", "apply", "--server-side", f"--filename={file}")
            cluster.run("kubectl", "wait", "--for=condition=Established", f"crd/{kind}.monitoring.coreos.com")

        said = cluster.run("helm", "install", "virtscope", "--create-namespace", *of_helm)
        assert 'vserver:delay:rate{reason="neighbour"}' in said
        ready = {"sched": True, "perf": True}
        wait_for(lambda: containers(cluster), 180, every=1, until=ready.__eq__, explain=cluster.explain)
        # kube_pod_info has this UID, and cgroup.yml takes it from the path of the cgroup.
        (pod,) = cluster.get("pods", f"--namespace={NAMESPACE}")
        assert list(Path("/sys/fs/cgroup").glob(f"**/kubepods/burstable/pod{pod['metadata']['uid']}"))
        made = of_release(cluster)
        assert {("DaemonSet", "virtscope"), ("PodMonitor", "virtscope-sched"), ("ServiceMonitor", "virtscope-kubelet"),
                ("PrometheusRule", "virtscope-rules")} <= made  # fmt: skip
        assert ("PodMonitor", "virtscope-kvm") not in made

        cluster.run("helm", "upgrade", "virtscope", "--set=kvm.enabled=true", *of_helm)
        wait_for(
            lambda: containers(cluster), 180, every=1, until=(ready | {"kvm": True}).__eq__, explain=cluster.explain
        )
        assert of_release(cluster) == made | {("PodMonitor", "virtscope-kvm")}

        cluster.run("helm", "uninstall", "virtscope", f"--namespace={NAMESPACE}", "--wait")
        assert of_release(cluster) == set()
        wait_for(lambda: containers(cluster), 120, every=1, until={}.__eq__, explain=cluster.explain)
