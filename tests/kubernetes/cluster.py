"""A cluster of one node: etcd, API server, controllers, scheduler and kubelet in a network of their own."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.node import Node, running
from tests.support.needs import need
from tests.support.program import program_path
from tests.support.waiting import wait_for

Json = Any
ADDRESS, PODS = "10.244.0.1", "10.244.1.0/24"
SERVER = f"https://{ADDRESS}:6443"
# $1: the node's folder, $2: the program.
CONTROL_PLANE = f"""
ip link set lo up
ip address add {ADDRESS}/32 dev lo
openssl genrsa -out "$1/accounts.key" 2048 && openssl rsa -in "$1/accounts.key" -pubout -out "$1/accounts.pub"
"$2" etcd --data-dir "$1/etcd" --log-level warn &
"$2" kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address {ADDRESS} --advertise-address {ADDRESS} \\
  --cert-dir "$1/pki" --token-auth-file "$1/tokens" --authorization-mode AlwaysAllow \\
  --service-cluster-ip-range 10.245.0.0/24 --service-account-issuer https://cluster.local \\
  --service-account-signing-key-file "$1/accounts.key" --service-account-key-file "$1/accounts.pub" &
"$2" kube-controller-manager --kubeconfig "$1/kubeconfig" --leader-elect=false \\
  --service-account-private-key-file "$1/accounts.key" &
"$2" kube-scheduler --kubeconfig "$1/kubeconfig" --leader-elect=false &
until "$2" kubectl --kubeconfig "$1/kubeconfig" get --raw /readyz; do sleep 0.5; done
"""
# containerd's default network: a veth for each pod, without rules in the packet filter.
NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {"type": "host-local", "subnet": PODS, "dataDir": "/run/cni", "routes": [{"dst": "0.0.0.0/0"}]},
        },
    ],
}


class Cluster:
    """A running cluster."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def run(self, program: str, *arguments: str, given: str = "") -> str:
        """The output of helm or kubectl; AssertionError if it fails."""
        words = [program_path("helm")] if program == "helm" else [program_path("kubernetes"), program]
        command = ["nsenter", f"--target={self.node.process.pid}", "--net", *words]
        command += ["--kubeconfig", self.node.folder / "kubeconfig", *arguments]
        ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, f"{program} {' '.join(arguments)}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def get(self, *arguments: str) -> list[Json]:
        items: list[Json] = json.loads(self.run("kubectl", "get", "--output=json", *arguments))["items"]
        return items

    def explain(self) -> str:
        """What pods and events say, and the end of the log."""
        return self.run("kubectl", "get", "pods,events", "--all-namespaces") + self.node.log_tail()


@contextlib.contextmanager
def running_cluster(images: Path) -> Iterator[Cluster]:
    need(containernetworking_plugins="/usr/lib/cni/ptp", openssl="openssl", iproute2="ip")
    (images / "10-pods.conflist").write_text(json.dumps(NETWORK))
    user = {"name": "tests", "user": {"token": "tests"}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True}}],
        "users": [user],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    files = {"tokens": "tests,tests,tests,system:masters\n", "kubeconfig": yaml.safe_dump(kubeconfig)}
    with running(images, CONTROL_PLANE, files, ["--kubeconfig", "kubeconfig", "--node-ip", ADDRESS]) as node:
        cluster = Cluster(node)
        wait_for(lambda: cluster.get("nodes"), 180, every=1, not_yet=(AssertionError,), explain=node.log_tail)
        yield cluster
