"""A kubelet with Debian's containerd, for the duration of a test: with static pods, or with an API server."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import requests
import yaml

from deploy.places import CHECKOUT
from tests.compose import images
from tests.compose.engine import Engine
from tests.support.needs import need, need_root
from tests.support.ports import free_port
from tests.support.program import program_path
from tests.support.waiting import wait_for

Json = Any
NAME = "node1"
EXPORTERS, PAUSE = "virtscope/exporters:under-test", "virtscope/pause:1"
START_SECONDS = 180
# In its own mounts and processes, so that nothing remains however it ends. $1: its folder, $2: the program.
RUNTIME = """
mount --make-rslave /
mount -t tmpfs tmpfs /run
mount -t overlay -o "lowerdir=/var,upperdir=$1/var,workdir=$1/work" overlay /var
containerd --config "$1/containerd.toml" &
ctr() { command ctr --address "$1/containerd.sock" --namespace k8s.io "${@:2}"; }
until ctr "$1" version; do sleep 0.2; done
for image in "$1"/images/*.tar; do ctr "$1" images import "$image"; done
"""
KUBELET = """
cd "$1"
exec "$2" kubelet --config kubelet.yaml --hostname-override "$3" --root-dir "$1/kubelet" --cert-dir "$1/pki" "${@:4}"
"""


class Node:
    """A running node in `folder`, with the port of a kubelet's API that asks for no password."""

    def __init__(self, folder: Path, images: Path) -> None:
        self.folder = folder
        self.api = free_port()
        self.process: subprocess.Popen[bytes]
        for part in ("pods", "kubelet", "pki", "var", "work"):
            (folder / part).mkdir()
        (folder / "images").symlink_to(images)

    def run(self, pod: Json) -> None:
        """Start a pod by a file of the kubelet's, which adds the node's name to the pod's."""
        file = self.folder / "pods" / f"{pod['metadata']['namespace']}-{pod['metadata']['name']}.yaml"
        new = self.folder / "new.yaml"
        new.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod"} | pod))
        new.rename(file)

    def pods(self) -> list[Json]:
        """The pods that the kubelet knows, with their states."""
        found: list[Json] = requests.get(f"http://127.0.0.1:{self.api}/pods", timeout=10).json()["items"] or []
        return found

    def wait_until_ready(self, *names: str, seconds: float) -> None:
        def ready() -> set[str]:
            return {
                pod["metadata"]["name"].removesuffix(f"-{NAME}")
                for pod in self.pods()
                for condition in pod["status"].get("conditions", ())
                if condition["type"] == "Ready" and condition["status"] == "True"
            }

        wait_for(ready, seconds, until=set(names).issubset, explain=self.log_tail)

    def started(self, name: str) -> float:
        """When the container of a pod was started, as Unix time."""
        (pod,) = (pod for pod in self.pods() if pod["metadata"]["name"] == f"{name}-{NAME}")
        (container,) = pod["status"]["containerStatuses"]
        return datetime.fromisoformat(container["state"]["running"]["startedAt"]).timestamp()

    def log_tail(self) -> str:
        return (self.folder / "log").read_text()[-5000:]


def save_images(engine: Engine, folder: Path, scratch: Path) -> None:
    """The exporters' image as the Dockerfile builds it, and the one that holds a pod's namespaces."""
    images.make_debian(engine, scratch)
    build = ["build", "--network", "host", "--file", "exporters/Dockerfile", "--tag", EXPORTERS, "."]
    engine.run(["docker", *build], folder=CHECKOUT, seconds=900)
    root = scratch / "pause"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/sleep")
    engine.make_image(PAUSE, root, 'ENTRYPOINT ["/bin/sleep", "999999999"]')
    for image, file in ((EXPORTERS, "exporters.tar"), (PAUSE, "pause.tar")):
        engine.docker("save", "--output", str(folder / file), image, seconds=300)


@contextlib.contextmanager
def running_node(images: Path) -> Iterator[Node]:
    """A node with static pods only. Skips without root or containerd; in CI that is a failure."""
    with running(images) as node:

        def answers() -> bool:
            assert node.process.poll() is None, node.log_tail()
            node.pods()
            return True

        wait_for(answers, START_SECONDS, explain=node.log_tail)
        yield node


@contextlib.contextmanager
def running(
    images: Path, control_plane: str = "", files: Mapping[str, str] | None = None, flags: Sequence[str] = ()
) -> Iterator[Node]:
    """The processes of a node with the images in this folder; with a control plane, in a network of their own."""
    need_root("may start a kubelet")
    need(containerd="containerd", runc="runc", util_linux="unshare")
    kubernetes = program_path("kubernetes")
    node = Node(Path(tempfile.mkdtemp(prefix="node-")), images)  # short: socket paths are limited to 108 bytes
    for name, text in {**(files or {}), **_configuration(node, standalone=not control_plane)}.items():
        (node.folder / name).write_text(text)
    command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += ["--net"] if control_plane else []
    script = RUNTIME + control_plane + KUBELET
    try:
        with (node.folder / "log").open("wb") as log:
            node.process = subprocess.Popen(
                [*command, "bash", "-euc", script, "bash", node.folder, kubernetes, NAME, *flags],
                stdout=log,
                stderr=log,
            )
        try:
            yield node
        finally:
            node.process.kill()
            node.process.wait()
            wait_for(_remove_cgroups, 30)
    finally:
        shutil.rmtree(node.folder, ignore_errors=True)


def _configuration(node: Node, *, standalone: bool) -> dict[str, str]:
    folder = node.folder
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    containerd = f"""
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[{cri}]
  sandbox_image = "docker.io/{PAUSE}"
  restrict_oom_score_adj = true  # where root may not lower it, as in a container
[{cri}.cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{folder}/images"
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi"},
        "makeIPTablesUtilChains": False,
        "maxPods": 300,
        "volumePluginDir": f"{folder}/plugins",
        "syncFrequency": "5s",
    }
    if standalone:
        kubelet |= {"staticPodPath": f"{folder}/pods", "fileCheckFrequency": "1s", "registerNode": False}
        kubelet |= {"address": "127.0.0.1", "port": free_port(), "readOnlyPort": node.api, "healthzPort": 0}
    return {"containerd.toml": containerd, "kubelet.yaml": yaml.safe_dump(kubelet)}


def _remove_cgroups() -> bool:
    """Remove the kubelet's cgroups, which are in use until all processes have ended; whether none is left."""
    tops = [*Path("/sys/fs/cgroup").glob("kubepods"), *Path("/sys/fs/cgroup").glob("*/kubepods")]
    for top in tops:
        for folder in sorted([top, *(each for each in top.rglob("*") if each.is_dir())], reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return not any(top.exists() for top in tops)
