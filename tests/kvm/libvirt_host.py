"""A whole KVM host: Debian 12 with systemd, libvirt and vhost; its kvm_amd uses the SVM that QEMU emulates.

Durations mean nothing in it: emulation is more than ten times slower. Tests check structure, and that counters agree.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.distributions.chroots import DEBIAN_12
from tests.kvm.guests import BURN, DISK, Load, assemble, duty
from tests.support import disk
from tests.support.emulated import EmulatedMachine, log_of
from tests.support.privileges import unprivileged

PACKAGES = ("libvirt-clients", "libvirt-daemon-driver-qemu", "libvirt-daemon-system", "polkitd", "qemu-system-x86")
MODULES = ("kvm_amd", "vhost_net", "tun")  # loaded at boot
EXPORTER_PORT = 10297
SECONDS = 240  # for slow operations, in emulation
DOMAIN_SECONDS = 300
# Its CPUs share one host thread. With a thread each, one may get stuck in a guest: "rcu_preempt detected stalls".
# no_timer_check: as in tests/kernels/machine.py.
HARDWARE = (
    *("-accel", "tcg,thread=single,tb-size=512", "-cpu", "qemu64,+svm,+npt", "-m", "2048", "-smp", "2"),
    *("-append", "console=ttyS0,115200 root=/dev/vda rw quiet mitigations=off net.ifnames=0 no_timer_check"),
)
NOVA = "<metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>{}</nova:instance></metadata>"


@dataclass(frozen=True)
class Domain:
    """A libvirt guest; `metadata` and `cputune` are elements of its XML."""

    name: str
    load: Load
    metadata: str = ""
    cputune: str = ""


INSTANCE = Domain("instance-0000002a", duty(3), NOVA.format("<nova:name>web01.example.org</nova:name>"))
# systemd drops the underscore from its scope's name. With a quota per vCPU and one for the emulator.
DATABASE = Domain(
    "db_1.prod",
    DISK,
    "<title>the data base</title>",
    "<cputune><shares>512</shares><period>100000</period><quota>20000</quota>"
    "<emulator_period>100000</emulator_period><emulator_quota>50000</emulator_quota></cputune>",
)
# One quota for the whole domain.
ONE_QUOTA = "<cputune><global_period>100000</global_period><global_quota>40000</global_quota></cputune>"
CAPPED = Domain("capped", BURN, cputune=ONE_QUOTA)
DOMAINS = (INSTANCE, DATABASE, CAPPED)


class LibvirtHost(EmulatedMachine):
    """The host, whose disk is built the first time. `exporter` is kvm-exporter's address on this machine."""

    def __init__(self, workdir: Path) -> None:
        image = disk.debian("kvm", Path(__file__), DEBIAN_12, "linux-image-amd64", *PACKAGES, loaded=MODULES)
        drive = ("-drive", f"file={image.disk},format=raw,if=virtio,snapshot=on")
        kernel = ("-kernel", str(image.kernel), "-initrd", str(image.initramfs))
        super().__init__("the KVM host", workdir, [EXPORTER_PORT], [*HARDWARE, *drive, *kernel])
        self.exporter = self.forwarded[EXPORTER_PORT]

    def create(self, domain: Domain, workdir: Path) -> None:
        """Define and start a domain."""
        image = workdir / f"{domain.name}.img"
        assemble(domain.load, image)
        self.put(f"/var/lib/libvirt/images/{image.name}", image.read_bytes())
        self.put("/root/create-domain", (Path(__file__).parent / "inside" / "create-domain").read_bytes())
        what = shlex.join([domain.name, domain.metadata, domain.cputune])
        self.run(f"sh /root/create-domain {what}", DOMAIN_SECONDS)

    def pid(self, domain: Domain) -> str:
        return self.run(f"cat /run/libvirt/qemu/{domain.name}.pid").strip()

    def start_kvm_exporter(self, tar: bytes) -> None:
        """Unpack tests.xen.package's tar file and run kvm-exporter as nobody."""
        self.install(tar)
        self.start_exporter("kvm", EXPORTER_PORT, "--libvirt.interval=2s", before=shlex.join(unprivileged(())))

    def log(self) -> str:
        return self.run(f"cat {log_of('kvm')}")

    @contextlib.contextmanager
    def hung(self, domain: Domain) -> Iterator[None]:
        """The domain's QEMU is stopped (SIGSTOP) within the block, so its monitor doesn't answer."""
        pid = self.pid(domain)
        self.run(f"kill -STOP {pid}")
        try:
            yield
        finally:
            self.run(f"kill -CONT {pid}")


@contextlib.contextmanager
def booted(workdir: Path) -> Iterator[LibvirtHost]:
    """The host with its domains running. Raises MachineError."""
    with LibvirtHost(workdir) as host:
        for domain in DOMAINS:
            host.create(domain, workdir)
        yield host
