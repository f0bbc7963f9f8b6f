"""A QEMU guest behind a tap in a bridge of this machine: sshd, iperf3 and nginx on a Debian kernel.

Its image is made of unpacked packages (tests/xen/image.py) and cached. The guest is emulated, so that it runs wherever
QEMU does; tap and bridge are real.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import programs
from lab import LabError
from lab.environments import Guest
from tests.lab.conftest import ssh_by
from tests.ssh.sshd import make_key
from tests.xen.debian import Archive, BuildError, run
from tests.xen.image import GUEST_KERNEL, add_modules, only, pack

INIT = Path(__file__).parent / "guest" / "init"
PACKAGES = ("busybox-static", "dropbear-bin", "iperf3", "nginx")
HOST, GUEST = "198.51.100.1", "198.51.100.2"  # of TEST-NET-2 (RFC 5737)
BOOT_SECONDS = 180


@contextlib.contextmanager
def guest(folder: Path) -> Iterator[Guest]:
    """The running guest, as "tapped" for ssh within the block; skips if it can't run here."""
    kernel, initramfs = _image()
    bridge, tap = f"vsb{os.getpid()}", f"vst{os.getpid()}"
    with contextlib.ExitStack() as ending:
        for command, undo in (
            (f"link add name {bridge} type bridge", f"link delete {bridge}"),
            (f"address add {HOST}/24 dev {bridge}", ""),
            (f"link set {bridge} up", ""),
            (f"tuntap add dev {tap} mode tap", f"link delete {tap}"),
            (f"link set {tap} master {bridge} up", ""),
        ):
            _ip(command)
            if undo:
                ending.callback(_ip, undo)
        make_key(folder / "key")
        whole = folder / "initramfs"
        whole.write_bytes(initramfs.read_bytes() + _own(folder).read_bytes())
        log = ending.enter_context((folder / "console").open("wb"))
        qemu = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "384", "-nographic", "-no-reboot"),
                # Without the timer check, which fails if QEMU isn't scheduled for a while.
                *("-kernel", kernel, "-initrd", whole, "-append", "console=ttyS0 panic=-1 quiet no_timer_check"),
                *("-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no"),
                *("-device", "virtio-net-pci,netdev=net,romfile="),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        ending.callback(qemu.wait)
        ending.callback(qemu.kill)
        found = Guest(name="tapped", ssh="tapped", platform="kvm", emulated=True)
        with _ssh(folder):
            _await(found, qemu, folder / "console")
            yield found


def _await(found: Guest, qemu: subprocess.Popen[bytes], console: Path) -> None:
    deadline = time.monotonic() + BOOT_SECONDS
    while True:
        with contextlib.suppress(LabError), found.ready():
            return
        assert qemu.poll() is None, console.read_text(errors="replace")
        assert time.monotonic() < deadline, console.read_text(errors="replace")


@contextlib.contextmanager
def _ssh(folder: Path) -> Iterator[None]:
    """The user's ssh, as found by the lab, knows the guest."""
    (folder / "config").write_text(
        f"""
        Host tapped
          HostName {GUEST}
          User root
          IdentityFile {folder}/key
          IdentitiesOnly yes
          IdentityAgent none
          UserKnownHostsFile {folder}/known_hosts
          StrictHostKeyChecking accept-new
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        ssh_by(folder / "config", folder / "bin", patch)
        yield


def _own(folder: Path) -> Path:
    """Files that only exist in this guest's memory: authorized key and address."""
    root = folder / "own"
    (root / "root" / ".ssh").mkdir(parents=True, mode=0o700)
    shutil.copy(folder / "key.pub", root / "root" / ".ssh" / "authorized_keys")
    (root / "etc").mkdir()
    (root / "etc" / "address").write_text(f"{GUEST}\n")
    pack(root, folder / "own.cpio")
    return folder / "own.cpio"


def _image() -> tuple[Path, Path]:
    """The kernel and the initramfs, built if they aren't cached."""
    if os.geteuid() or shutil.which("qemu-system-x86_64") is None or not Path("/dev/net/tun").exists():
        pytest.skip("a guest behind a tap needs root, qemu-system-x86 and /dev/net/tun")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (INIT, Path(__file__)))).hexdigest()[:16]
    images = programs.cache("tapped")
    built = images / digest
    with programs.exclusively(images):
        if not built.is_dir():
            with tempfile.TemporaryDirectory(dir=images) as scratch:
                try:
                    _build(Path(scratch))
                except BuildError as error:
                    if os.environ.get("CI") == "true":
                        raise
                    pytest.skip(f"the guest's image can't be built: {error}")
                for older in images.glob("[0-9a-f]*"):
                    shutil.rmtree(older)
                (Path(scratch) / "image").rename(built)
    return built / "vmlinuz", built / "initramfs"


def _build(scratch: Path) -> None:
    archive = Archive(scratch / "apt")
    kernel, root = scratch / "kernel", scratch / "root"
    archive.unpack(archive.dependency(GUEST_KERNEL), kernel)
    for name in ("bin", "sbin", "lib", "lib64"):  # merged /usr, which packages of Debian 12 expect
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    archive.unpack_all(PACKAGES, root)
    for unused in ("usr/share", "var"):
        shutil.rmtree(root / unused, ignore_errors=True)
    for name in ("dev", "proc", "sys", "tmp", "etc/dropbear", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
    (root / "etc" / "group").write_text("nogroup:x:65534:\n")
    add_modules(root, kernel, ("virtio_pci", "virtio_net"))
    shutil.copy(INIT, root / "init")
    (scratch / "image").mkdir()
    shutil.copy(only(kernel / "boot", "vmlinuz-*"), scratch / "image" / "vmlinuz")
    pack(root, scratch / "image" / "initramfs")


def _ip(command: str) -> None:
    run(["ip", *command.split()])
