"""A kubelet that runs static pods: its configuration, and what its API says of them."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import requests
import yaml

from tests.support.endpoints import Group
from tests.support.waiting import wait_for

Json = Any
NAME = "node1"
EXPORTERS, PAUSE = "virtscope/exporters:under-test", "virtscope/pause:1"
STANDALONE = {"registerNode": False, "fileCheckFrequency": "1s", "healthzPort": 0}


class Kubelet:
    """A running kubelet.

    api: host and port of its API, which asks for no password.
    write: makes a file with this name and content in its folder of static pods, in one step.
    """

    def __init__(self, api: str, write: Callable[[str, str], None], log_tail: Callable[[], str]) -> None:
        self.api, self._write, self.log_tail = api, write, log_tail

    def run(self, pod: Json) -> None:
        """Start a pod; the kubelet adds the node's name to the pod's."""
        name = f"{pod['metadata']['namespace']}-{pod['metadata']['name']}.yaml"
        self._write(name, yaml.safe_dump({"apiVersion": "v1", "kind": "Pod"} | pod))

    def pods(self) -> list[Json]:
        """The pods that the kubelet knows, with their states."""
        found: list[Json] = requests.get(f"http://{self.api}/pods", timeout=10).json()["items"] or []
        return found

    def pod(self, name: str) -> Json:
        (pod,) = (pod for pod in self.pods() if pod["metadata"]["name"] == f"{name}-{NAME}")
        return pod

    def wait_until_ready(self, *names: str, seconds: float) -> None:
        def ready() -> set[str]:
            return {
                pod["metadata"]["name"].removesuffix(f"-{NAME}")
                for pod in self.pods()
                for condition in pod["status"].get("conditions", ())
                if condition["type"] == "Ready" and condition["status"] == "True"
            }

        wait_for(ready, seconds, until=set(names).issubset, explain=self.log_tail)

    def targets(self, exporters: Mapping[str, str]) -> dict[str, list[Group]]:
        """Prometheus's targets, by job: this API, and exporters with their host and port."""
        of_exporters = {"host": NAME, "platform": "base"}
        of_kubelet = {"host": NAME, "platform": "cgroup", "__metrics_path__": "/metrics/cadvisor"}
        found: dict[str, list[Group]] = {
            job: [{"targets": [address], "labels": of_exporters}] for job, address in exporters.items()
        }
        return found | {"cadvisor": [{"targets": [self.api], "labels": of_kubelet}]}

    def started(self, name: str) -> float:
        """When the container of a pod was started, as Unix time."""
        (container,) = self.pod(name)["status"]["containerStatuses"]
        return datetime.fromisoformat(container["state"]["running"]["startedAt"]).timestamp()


def configuration(**own: Json) -> str:
    """A KubeletConfiguration for a small machine whose API asks for no password."""
    every = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        "makeIPTablesUtilChains": False,
        "maxPods": 300,
        "syncFrequency": "5s",
    }
    return yaml.safe_dump(every | own)
