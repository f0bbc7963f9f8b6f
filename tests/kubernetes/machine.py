"""An emulated Debian 13 as a node: cgroups v2, systemd as cgroup driver, Debian's containerd with AppArmor."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kernels.machine import COMMAND_LINE, HARDWARE
from tests.kubernetes import image
from tests.kubernetes.kubelet import NAME, PAUSE, STANDALONE, Kubelet, configuration
from tests.support.emulated import EmulatedMachine
from tests.support.program import program_path
from tests.support.waiting import wait_for

API, ADDRESS = 10255, "10.0.2.15"
DRIVE_BYTES = 1 << 30
START_SECONDS = 1200  # on a busy machine, images take seven minutes
PODS = "/etc/kubernetes/manifests"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
CONTAINERD = f"""\
version = 2
[{CRI}]
  sandbox_image = "docker.io/{PAUSE}"
[{CRI}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{CRI}.containerd.runtimes.runc.options]
  SystemdCgroup = true
"""
START = f"""\
set -e
mkdir -p {PODS}
mount -o ro /dev/vdb /mnt
sysctl --quiet --write kernel.perf_event_paranoid=2
systemctl restart containerd
for image in /mnt/*.tar; do ctr --namespace k8s.io images import $image; done
systemd-run --quiet --unit=kubelet /mnt/kubernetes kubelet --config /etc/kubernetes/kubelet.yaml \\
  --hostname-override {NAME} --node-ip {ADDRESS}
"""


class Machine(EmulatedMachine):
    """The machine, whose disk is built the first time."""

    def __init__(self, workdir: Path, images: Path, ports: Sequence[int]) -> None:
        """Raises BuildError and chroots.MissingError."""
        made = image.built()
        hardware: list[str | Path] = [
            *HARDWARE,
            *("-m", "2048"),
            *("-drive", f"file={made.disk},format=raw,if=virtio,snapshot=on"),
            *("-drive", f"file={_drive(workdir, images)},format=raw,if=virtio"),
            *("-kernel", made.kernel, "-initrd", made.initramfs, "-append", COMMAND_LINE),
        ]
        super().__init__("the node", workdir, [API, *ports], hardware)
        self.kubelet = Kubelet(self.forwarded[API], self._write, self.log)

    def start_kubelet(self) -> None:
        own = {"cgroupDriver": "systemd", "staticPodPath": PODS, "address": ADDRESS, "readOnlyPort": API}
        own |= {"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock"}
        self.put("/etc/kubernetes/kubelet.yaml", configuration(**STANDALONE, **own).encode())
        self.put("/etc/containerd/config.toml", CONTAINERD.encode())
        self.run(START, START_SECONDS)
        wait_for(lambda: self.kubelet.pods() == [], START_SECONDS, every=1, explain=self.log)

    def _write(self, name: str, text: str) -> None:
        self.put("/run/new.yaml", text.encode())
        self.run(f"cp /run/new.yaml {PODS}/.new && mv {PODS}/.new {PODS}/{name}")

    def log(self) -> str:
        return self.run("journalctl --no-pager --unit=kubelet --unit=containerd --lines=60")


def _drive(workdir: Path, images: Path) -> Path:
    """A drive with the kubelet and images."""
    root, drive = workdir / "drive", workdir / "drive.img"
    shutil.copytree(images, root)
    shutil.copy(program_path("kubernetes"), root)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, drive, str(DRIVE_BYTES >> 10)], check=True)
    shutil.rmtree(root)
    return drive
