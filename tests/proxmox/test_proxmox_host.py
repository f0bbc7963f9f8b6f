"""Guests and containers of a Proxmox host by their names, with their disk bytes, beside Proxmox's own tools."""

from __future__ import annotations

from functools import partial

import pytest

from tests.proxmox.host import INSTALLER, ProxmoxHost
from tests.support.pages import Page
from tests.support.reporting import Report
from tests.support.waiting import wait_for

MIB = 1 << 20
LAYERS = 4  # of LVM-thin: the volume, pool, pool's data, and disk
RENAMED_SECONDS = 150  # names are read once a minute

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # the first test also builds and boots

IO_STAT = "[ -e /sys/fs/cgroup/qemu.slice/100.scope/io.stat ] && echo present || echo absent"
USERS = """\
user:root@pam:1:0:::admin@example.org::
pool:sales:Their%3A guests:100,102:local-lvm:
"""


@pytest.fixture(scope="module")
def guests(host: ProxmoxHost) -> ProxmoxHost:
    """Two guests, one of them renamed since its start, and a container; a guest and a container share a name."""
    host.configure("user.cfg", USERS)
    host.configure("qemu-server/100.conf", "#shop%3A of sales\nname: web\ntags: shop;prod\n")
    host.configure("qemu-server/101.conf", 'name: new"na\\me\n')
    host.configure("lxc/102.conf", "arch: amd64\nhostname: web\ntags: prod\n")
    host.configure("lxc/103.conf", "hostname: mail\n")  # doesn't run
    host.start_vm(100, "web", "file=/dev/pve/vm-100-disk-0,cache=none,aio=io_uring")
    host.start_vm(101, "old", "file=/srv/vm-101-disk-0.raw,cache=none,aio=threads")
    host.start_container(102, "web")
    return host


def enable_io(host: ProxmoxHost) -> None:
    """Start the unit that the installer writes."""
    script = INSTALLER.read_text()
    unit = script.partition("# A member of qemu.slice")[2].partition("\nEND\n")[0]
    host.put("/etc/systemd/system/virtscope-disks.service", f"#{unit}\n".encode())
    host.run("systemctl daemon-reload && systemctl enable --quiet --now virtscope-disks.service")


def test_guests_and_containers_by_their_names(guests: ProxmoxHost) -> None:
    wait_for(
        lambda: Page.of(guests.exporter).labels("kvm_guest_info", "guest"),
        RENAMED_SECONDS,
        until=lambda names: names == {"web", 'new"na\\me'},
        every=1,
        explain=guests.log,
    )
    page = Page.of(guests.exporter)
    [web] = page.all("kvm_guest_info", id="100")
    assert {key: web.labels[key] for key in ("guest", "title", "tags", "pool", "manager")} == {
        "guest": "web",
        "title": "shop: of sales",
        "tags": "prod;shop",
        "pool": "sales",
        "manager": "proxmox",
    }
    cgroups = {(sample.labels["guest"], sample.labels["cgroup"]) for sample in page.all("kvm_guest_cgroup_info")}
    assert cgroups == {("web", "/qemu.slice/100.scope"), ('new"na\\me', "/qemu.slice/101.scope")}
    containers = {sample.labels["id"]: sample.labels for sample in page.all("kvm_container_info")}
    assert {ctid: (each["container"], each["tags"], each["pool"]) for ctid, each in containers.items()} == {
        "102": ("web (102)", "prod", "sales"),
        "103": ("mail", "", ""),
    }
    guests.run(f"test -d /sys/fs/cgroup{containers['102']['cgroup']}/ns")


def test_a_guest_that_is_renamed_has_its_new_name_soon(guests: ProxmoxHost) -> None:
    guests.configure("qemu-server/101.conf", "name: newer\n")
    wait_for(
        lambda: Page.of(guests.exporter).labels("kvm_guest_info", "guest"),
        RENAMED_SECONDS,
        until=lambda names: names == {"web", "newer"},
        every=1,
        explain=guests.log,
    )


def test_disk_bytes_of_each_guest_count_once(guests: ProxmoxHost, report: Report) -> None:
    """The kernel counts them for each layer of LVM-thin, once the installer's unit has enabled that."""
    assert guests.run(IO_STAT) == "absent\n"
    enable_io(guests)
    assert guests.run(IO_STAT) == "present\n"
    for vmid, guest, mib in ((100, "web", 8), (101, "newer", 3)):
        guests.use_disk(vmid, f"write 0 {mib}M")
        report(f"{guest}: {guests.counted(vmid)}")
        # A device is found within 15 s.
        wait_for(partial(written, guests, guest), 60, until=lambda now: sum(now.values()) > 0, every=1)
        assert sum(written(guests, guest).values()) == mib * MIB
    [volume] = [device for device, number in written(guests, "web").items() if number]
    assert volume == guests.run("basename $(readlink -f /dev/pve/vm-100-disk-0)").strip()
    assert guests.counted(100).count(f"wbytes={8 * MIB} ") == LAYERS
    assert set(written(guests, "newer")) == {"vda"}


def written(host: ProxmoxHost, guest: str) -> dict[str, float]:
    """Bytes that a guest has written, by device."""
    samples = Page.of(host.exporter).all("kvm_guest_disk_write_bytes_total", guest=guest)
    return {sample.labels["device"]: sample.value for sample in samples}
