"""Pods of a node without an API server: the chart's, and two that compete for a CPU.

They are static, and on the node's network as there is no other.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.kubelet import EXPORTERS
from tools import chart as tool

Json = Any
QEMU = "qemu-system-x86_64 -S -accel tcg -m 16 -nodefaults -display none"  # stopped, so that it takes no CPU
BURN = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"


def chart(folder: Path, ports: Mapping[str, int]) -> Json:
    """The pod of the chart's DaemonSet, with these exporters on these ports."""
    values: Json = {name: {"enabled": True, "port": port} for name, port in ports.items()}
    image, _, tag = EXPORTERS.partition(":")
    values["image"] = {"repository": f"docker.io/{image}", "tag": tag, "pullPolicy": "Never"}
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    tool.write(folder / "chart")
    made = yaml.load_all(tool.manifests(folder / "chart", folder / "values.yaml"), yaml.CSafeLoader)
    (daemons,) = (each for each in made if each["kind"] == "DaemonSet")
    spec = daemons["spec"]["template"]["spec"] | {"hostNetwork": True}
    for container in spec["containers"]:  # a container's port is the node's then
        for port in container["ports"]:
            port["hostPort"] = port["containerPort"]
    return {"metadata": {"name": "virtscope", "namespace": "virtscope"}, "spec": spec}


def burner(namespace: str, name: str, uid: str | None = None, **limits: str) -> Json:
    """A pod that always wants the first CPU."""
    resources = {"requests": {"cpu": "500m"}, "limits": limits}
    return _pod(namespace, name, uid, {"command": ["python3", "-c", BURN], "resources": resources})


def guest(namespace: str, name: str, uid: str) -> Json:
    """A pod with a guest named as KubeVirt does, which the node's QEMU runs."""
    main: Json = {
        "command": ["chroot", "/node", *QEMU.split(), "-name", f"guest={namespace}_{name}"],
        "securityContext": {"runAsUser": 0},
    }
    main |= {"volumeMounts": [{"name": "node", "mountPath": "/node"}], "resources": {"requests": {"cpu": "100m"}}}
    return _pod(namespace, name, uid, main, volumes=[{"name": "node", "hostPath": {"path": "/"}}])


def _pod(namespace: str, name: str, uid: str | None, main: Json, **spec: Json) -> Json:
    container: Json = {"name": "main", "image": f"docker.io/{EXPORTERS}", "imagePullPolicy": "Never"} | main
    spec |= {"hostNetwork": True, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    of = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
    return {"metadata": of, "spec": spec | {"containers": [container]}}
