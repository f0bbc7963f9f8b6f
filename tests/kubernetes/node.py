"""A kubelet with Debian's containerd, for the duration of a test: with static pods, or with an API server."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.places import CHECKOUT
from tests.compose import images
from tests.compose.engine import Engine
from tests.kubernetes.kubelet import EXPORTERS, NAME, PAUSE, STANDALONE, Kubelet, configuration
from tests.support.needs import need, need_root
from tests.support.ports import free_port
from tests.support.program import program_path
from tests.support.waiting import wait_for

Json = Any
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
    """A running node in `folder`, and its kubelet."""

    def __init__(self, folder: Path, images: Path) -> None:
        self.folder = folder
        self.api = free_port()
        self.kubelet = Kubelet(f"127.0.0.1:{self.api}", self._write, self.log_tail)
        self.process: subprocess.Popen[bytes]
        for part in ("pods", "kubelet", "pki", "var", "work"):
            (folder / part).mkdir()
        (folder / "images").symlink_to(images)

    def _write(self, name: str, text: str) -> None:
        new = self.folder / "new.yaml"
        new.write_text(text)
        new.rename(self.folder / "pods" / name)

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
            node.kubelet.pods()
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
    own: dict[str, Json] = {
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "volumePluginDir": f"{folder}/plugins",
    }
    if standalone:
        own |= STANDALONE | {"staticPodPath": f"{folder}/pods", "readOnlyPort": node.api}
        own |= {"address": "127.0.0.1", "port": free_port()}
    return {"containerd.toml": containerd, "kubelet.yaml": configuration(**own)}


def _remove_cgroups() -> bool:
    """Remove the kubelet's cgroups, which are in use until all processes have ended; whether none is left."""
    tops = [*Path("/sys/fs/cgroup").glob("kubepods"), *Path("/sys/fs/cgroup").glob("*/kubepods")]
    for top in tops:
        for folder in sorted([top, *(each for each in top.rglob("*") if each.is_dir())], reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return not any(top.exists() for top in tops)
