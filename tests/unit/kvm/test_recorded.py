"""A recording of a host shows the host's values; with pseudonyms, nothing that a person has named."""

import json
import re
from collections.abc import Mapping

import pytest

from tests.support.refusals import assert_refused
from tests.unit.kvm.captured import DEBIAN_12, FIXTURES, HOSTS, command_line, files, recorded
from tests.unit.kvm.test_libvirt import UUID
from tests.unit.kvm.test_threads import stat
from virtscope.kvm import libvirt
from virtscope.kvm.exporter import HostView, recordable
from virtscope.kvm.recorded import anonymised_files, anonymised_libvirt, anonymised_proxmox, libvirt_answer
from virtscope.kvm.recorded import files as decoded_files
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.record import StandIns
from virtscope.toolkit.recording import encode

pytestmark = pytest.mark.usefixtures("same_stand_ins")

Samples = dict[str, list[tuple[Mapping[str, str], float]]]


def samples(content: Mapping[str, bytes]) -> Samples:
    shown = HostView(recorded(dict(content)), [], recorded_ones=True).families(0)
    found: Samples = {}
    for family in shown:
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_a_recording_has_all_that_is_read_and_of_other_processes_nothing(host: str) -> None:
    whole = files(host) | {"proc/7/cmdline": b"/usr/sbin/sshd\0-p\0secret\0", "proc/7/stat": stat("sshd", 1)}
    reading = recordable(recorded(whole)).read()
    assert not [path for path in reading if path.startswith("proc/7/")]
    again = decoded_files(json.loads(json.dumps(encode(reading))))
    assert samples(again) == samples(whole)


@pytest.mark.parametrize("host", HOSTS)
def test_stand_ins_change_names_and_no_number(host: str) -> None:
    reading = recordable(recorded(files(host))).read()
    stood_in = anonymised_files(reading, StandIns())
    text = repr(stood_in).encode()
    for private in (b"instance-0000002a", b"db_1.prod", b"db1.prod", b"capped", b"6325b343-01a5", b"52:54:00"):
        assert private not in text

    def but_for_names(found: Samples) -> dict[str, list[tuple[dict[str, str], float]]]:
        named = {"guest", "uuid", "cgroup"}
        return {
            name: [({key: text for key, text in labels.items() if key not in named}, value) for labels, value in each]
            for name, each in found.items()
        }

    assert but_for_names(samples(stood_in)) == but_for_names(samples(reading))


def test_what_people_have_named_elsewhere_has_stand_ins() -> None:
    content = files(DEBIAN_12)
    content["proc/353/cmdline"] = command_line(
        *("-id", "100", "-name", "shop,,x", "-drive", "file=/images/shop.img", "-netdev", "tap,ifname=shoptap"),
        program="/opt/shop/bin/qemu-system-x86_64",
    )
    content |= {"proc/353/task/353/stat": stat("shop", 5), "proc/353/task/354/stat": stat("IO shop-thread", 5)}
    content |= {"proc/353/cgroup": b"0::/shop.slice/100.scope\n", "proc/353/exe": b"/opt/shop/bin/qemu-system-x86_64"}
    content["proc/1/net/dev"] = b"a\nb\nshoptap: 1 2 3 4 0 0 0 0 1 2 3 4 0 0 0 0\n"
    stood_in = anonymised_files(recordable(recorded(content)).read(), StandIns())
    assert b"shop" not in repr(stood_in).encode()
    shown = samples(stood_in)
    assert [labels["id"] for labels, _ in shown["kvm_guest_info"]] == ["100", "2", "3"]
    assert [value for _, value in shown["kvm_guest_network_transmit_bytes_total"]] == [1]


def test_libvirt_s_answers_with_stand_ins() -> None:
    domstats = (FIXTURES / DEBIAN_12 / "domstats-t0.txt").read_bytes()
    raw = libvirt.Raw(1.5, domstats, f"{UUID} db_1.prod\n".encode(), ((UUID, b"my shop"),))
    stand_ins = StandIns()
    stood_in = anonymised_libvirt(raw, stand_ins)
    text = repr(stood_in).encode()
    assert not re.search(rb"db_1\.prod|capped|/var/lib|my shop|" + UUID.encode(), text)
    was, now = libvirt.understand(raw), libvirt.understand(stood_in)
    # The same name has the same pseudonym in all files.
    name = stand_ins(b"db_1.prod").decode()
    assert now.domains[name].title == stand_ins(b"my shop").decode()
    assert now.domains[name]._replace(title="") == was.domains["db_1.prod"]._replace(title="")


def test_proxmox_s_configuration_with_stand_ins() -> None:
    files = {
        "100": b"#for Jane\nname: shop\ntags: eu;prod\nnet0: virtio=BC:24:11:0A:0B:0C\n",
        "lxc/101": b"hostname: mail\n",
        "user.cfg": b"user:root@pam:1:0:::jane@example.org::\npool:sales:Jane:100,101::\n",
    }
    stood_in = anonymised_proxmox(files, StandIns())
    assert re.fullmatch(rb"#[a-z]{3} [A-Z][a-z]{3}\nname: [a-z]{4}\ntags: [a-z]{2};[a-z]{4}\n", stood_in["100"])
    assert re.fullmatch(rb"name: [a-z]{4}\n", stood_in["lxc/101"])
    assert re.fullmatch(rb"pool:([a-z]{5})::100::\npool:\1::101::\n", stood_in["user.cfg"])


def test_a_recorded_answer_comes_back_and_other_data_is_refused() -> None:
    raw = libvirt.Raw(1.5, b"Domain: 'a\xff'\n", b"", ((UUID, b"t"),))
    assert libvirt_answer(json.loads(json.dumps(encode(raw)))) == raw
    others: tuple[object, ...] = ([], {"proc/stat": 5})
    for data in others:
        assert_refused(SourceMalformed, "", decoded_files, data)
    for titles in ([["a"]], "x", [["a", 5]]):
        answer = {"asked": 1, "domstats": "", "domains": "", "titles": titles}
        assert_refused(SourceMalformed, "", libvirt_answer, answer)


def test_other_monitors_and_files_of_options_with_stand_ins() -> None:
    firecracker = command_line("--id", "payroll", "--api-sock", "/srv/payroll.sock", program="firecracker")
    own = command_line("-name", "payroll", "-m", "16", "-smp", "2", program="/opt/payroll/vmm")
    content = files(DEBIAN_12) | {
        "proc/70/cmdline": firecracker,
        "proc/70/stat": stat("firecracker", 500, guest=300),
        "proc/70/task/71/stat": stat("fc_vcpu 0", 400, guest=300),
        "proc/80/cmdline": own,
        "proc/80/stat": stat("payroll", 7),
        "proc/80/exe": b"/opt/payroll/vmm",
        "proc/80/fd/3": b"/home/payroll/disk",
        "proc/80/fd/9": b"anon_inode:kvm-vm",
        "proc/353/cmdline": command_line("-name", "v1", "-readconfig", "/run/payroll/qemu.conf"),
        "proc/353/root/run/payroll/qemu.conf": b'[memory]\nsize = "64M"\n[chardev "payroll"]\n',
    }
    reading = recordable(recorded(content)).read()
    stood_in = anonymised_files(reading, StandIns())
    assert b"payroll" not in repr(stood_in).encode()
    was, now = samples(reading), samples(stood_in)
    for name in ("kvm_guest_cpu_seconds_total", "kvm_guest_vcpus", "kvm_guest_memory_limit_bytes"):
        assert [value for _, value in now[name]] == [value for _, value in was[name]]
    assert 64 << 20 in [value for _, value in now["kvm_guest_memory_limit_bytes"]]
    managers = [sorted(labels["manager"] for labels, _ in shown["kvm_guest_info"]) for shown in (was, now)]
    assert managers == [["firecracker", "libvirt", "libvirt", "qemu", "qemu"]] * 2
