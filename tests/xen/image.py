"""Builds the boot files of the emulated Xen host: hypervisor, Dom0 and guest, from Debian 12 packages and our own
files.

Nothing is installed and root is not needed: packages are downloaded with a separate apt state and unpacked. The result
is cached under a hash of our own files, so that only a change in this folder rebuilds. Debian's packages are those of
the build time.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.disk import cached
from tests.xen.debian import Archive, run

HERE = Path(__file__).parent

HYPERVISOR = "xen-hypervisor-4.17-amd64"
DOM0_KERNEL = "linux-image-amd64"  # the cloud kernel can't be Dom0: it lacks XEN_DOM0
GUEST_KERNEL = "linux-image-cloud-amd64"  # a quarter of the modules; boots faster
DOM0_PACKAGES = (
    *("base-files", "busybox-static", "coreutils", "dash", "grep", "iproute2", "kmod", "libc-bin", "mount"),
    *("openssh-server", "python3", "sed", "util-linux", "xen-utils-4.17", "xenstore-utils"),
)
# Dom0 runs from memory: files that it never reads would only slow down loading.
DOM0_UNUSED = (
    *("boot", "usr/lib/systemd", "usr/lib/udev", "usr/lib/xen-4.17/boot", "usr/lib/x86_64-linux-gnu/perl"),
    *("usr/lib/x86_64-linux-gnu/perl-base", "usr/share/doc", "usr/share/info", "usr/share/locale"),
    *("usr/share/man", "usr/share/perl", "usr/share/zoneinfo"),
)
XEN_MODULES = ("xen-privcmd", "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xenfs", "xen-netback", "xen-blkback")
DOM0_MODULES = (*XEN_MODULES, "loop", "bridge", "virtio_pci", "virtio_net")
GUEST_MODULES = ("xen-netfront", "xen-blkfront")


@dataclass(frozen=True)
class Image:
    """Files that QEMU loads: the hypervisor as an ELF file, the Dom0 kernel and its initramfs, which contains the
    guests'."""

    hypervisor: Path
    kernel: Path
    initramfs: Path


def image() -> Image:
    """The image for the current files, built if it isn't cached. Raises BuildError."""
    inside = [path for folder in ("dom0", "guest") for path in sorted((HERE / folder).rglob("*")) if path.is_file()]
    built = cached("xen", [HERE / "image.py", HERE / "debian.py", *inside], build, kept=2)
    return Image(built / "xen", built / "vmlinuz", built / "initramfs")


def build(workdir: Path) -> None:
    """Create `xen`, `vmlinuz` and `initramfs` in the empty folder `workdir`."""
    scratch = workdir / "scratch"
    archive = Archive(scratch / "apt")
    hypervisor, dom0_kernel, guest_kernel = scratch / "hypervisor", scratch / "dom0-kernel", scratch / "guest-kernel"
    archive.unpack(HYPERVISOR, hypervisor)
    archive.unpack(archive.dependency(DOM0_KERNEL), dom0_kernel)
    archive.unpack(archive.dependency(GUEST_KERNEL), guest_kernel)

    # QEMU's multiboot loader needs the ELF file, not Debian's gzip of it.
    (workdir / "xen").write_bytes(gzip.decompress(only(hypervisor / "boot", "xen-4.17*.gz").read_bytes()))
    shutil.copy(only(dom0_kernel / "boot", "vmlinuz-*"), workdir / "vmlinuz")

    dom0 = scratch / "dom0"
    dom0_root(dom0, archive)
    add_modules(dom0, dom0_kernel, DOM0_MODULES)

    guest = scratch / "guest"
    (guest / "bin").mkdir(parents=True)
    for folder in ("dev", "proc", "sys", "tmp"):
        (guest / folder).mkdir()
    shutil.copy(dom0 / "bin" / "busybox", guest / "bin")
    shutil.copy(HERE / "guest" / "init", guest)
    add_modules(guest, guest_kernel, GUEST_MODULES)

    (dom0 / "guest").mkdir()
    shutil.copy(only(guest_kernel / "boot", "vmlinuz-*"), dom0 / "guest" / "vmlinuz")
    pack(guest, dom0 / "guest" / "initramfs")
    pack(dom0, workdir / "initramfs")
    shutil.rmtree(scratch)


def dom0_root(root: Path, archive: Archive) -> None:
    """Dom0's file system: packages unpacked, no maintainer scripts run, busybox for missing commands."""
    for folder in ("bin", "sbin", "lib", "lib64"):  # merged /usr, which packages of Debian 12 expect
        (root / "usr" / folder).mkdir(parents=True)
        (root / folder).symlink_to(f"usr/{folder}")
    archive.unpack_all(DOM0_PACKAGES, root)
    for unused in DOM0_UNUSED:
        shutil.rmtree(root / unused, ignore_errors=True)

    compile_python(root)
    present = {program.name for folder in ("bin", "sbin") for program in (root / "usr" / folder).iterdir()}
    applets = run([root / "bin" / "busybox", "--list"]).split()
    for applet in set(applets) - present:
        (root / "usr" / "bin" / applet).symlink_to("busybox")

    for folder in ("dev", "proc", "sys", "run", "tmp", "root", "var/lib/xen", "var/lib/xenstored", "var/log/xen"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder, target in (("run", "/run"), ("lock", "/run/lock")):
        link = root / "var" / folder
        shutil.rmtree(link, ignore_errors=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    # sshd's unprivileged user before authentication.
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nsshd:x:100:100::/run/sshd:/usr/sbin/nologin\n")
    (root / "etc" / "group").write_text("root:x:0:\nsshd:x:100:\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost dom0\n")
    for name in ("init", "agent.py"):
        shutil.copy(HERE / "dom0" / name, root)
    shutil.copy(HERE / "dom0" / "scripts" / "create-guest", root / "usr" / "bin")
    for name in ("block-lite", "vif-lite"):
        shutil.copy(HERE / "dom0" / "scripts" / name, root / "etc" / "xen" / "scripts")


def compile_python(root: Path) -> None:
    """Compile Dom0's Python library with Dom0's own Python: imports from source take half a minute in emulation."""
    loader, libraries = root / "usr/lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    python, library = root / "usr/bin/python3", root / "usr/lib/python3.11"
    compileall: list[str | Path] = [loader, "--library-path", libraries, python, "-m", "compileall", "-q", library]
    run(compileall, environment={"PYTHONHOME": str(root / "usr")})


def add_modules(root: Path, kernel: Path, names: tuple[str, ...]) -> None:
    """Copy kernel modules and their dependencies to `root`/modules, with the load order in `order`.

    Built-in modules are left out.
    """
    available = {path.stem.replace("-", "_"): path for path in (kernel / "lib" / "modules").rglob("*.ko")}
    order: list[Path] = []

    def add(name: str) -> None:
        path = available.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for dependency in filter(None, depends[1].decode().split(",") if depends else []):
            add(dependency)
        order.append(path)

    for name in names:
        add(name)
    modules = root / "modules"
    modules.mkdir()
    for path in order:
        shutil.copy(path, modules)
    (modules / "order").write_text("".join(f"{path.name}\n" for path in order))


def pack(root: Path, initramfs: Path) -> None:
    """Pack a folder in the kernel's initramfs format, with all files owned by root."""
    cpio = ["cpio", "--create", "--format=newc", "--owner=+0:+0", "--quiet", f"--file={initramfs}"]
    with subprocess.Popen(["find", ".", "-mindepth", "1"], cwd=root, stdout=subprocess.PIPE) as names:
        run(cpio, cwd=root, stdin=names.stdout)


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path
