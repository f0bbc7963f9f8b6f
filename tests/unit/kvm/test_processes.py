"""Processes that are guests, recognised by the kernel's data and not by their command line."""

from tests.unit.kvm.captured import command_line
from tests.unit.kvm.test_guests import QEMU, Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.host_files import Blocked
from virtscope.kvm.processes import recorded_paths

WORDS = ("-name", "guest=web", "-machine", "q35", "-m", "16", "-smp", "2")


def found(comm: str, line: bytes, files: dict[str, bytes] | None = None, guest: int = 0) -> list[tuple[str, str]]:
    """Name and manager of the guests on a host where only this process may be one."""
    machine = Machine()
    machine.runs(9, line, stat(comm, 500, guest=guest))
    machine.content |= {f"proc/9/{path}": text for path, text in (files or {}).items() if text}
    return [(each.name, each.manager) for each in machine.look().guests]


def test_a_process_that_runs_qemu_is_a_guest() -> None:
    for comm, program, exe in (
        ("qemu-system-x86", "qemu-system-x86_64", b""),  # only root may read its exe
        ("qemu-kvm", "/usr/libexec/qemu-kvm", b"/usr/libexec/qemu-kvm"),
        (".qemu-system-x8", "/nix/store/a/bin/qemu-system-x86_64", b""),
        ("qemu:web", "/usr/bin/qemu-system-x86_64", b""),  # libvirt's set_process_name
        ("shop", "shop", b"/usr/bin/qemu-system-x86_64 (deleted)"),  # after an upgrade
    ):
        assert found(comm, command_line(*WORDS, program=program), {"exe": exe}) == [("web", "qemu")], comm


def test_words_of_qemu_s_make_no_guest() -> None:
    for comm, program, exe in (
        ("sleep", "qemu-system-x86_64", b""),
        ("sleep", "/usr/bin/qemu-system-x86_64", b"/usr/bin/sleep"),
        ("qemu-system-x86", "qemu-system-x86_64", b"/usr/bin/python3.11"),  # a script with this name
        ("vmm-3.1", "/opt/vmm-3.1", b""),
        ("qemu-storage-da", "qemu-storage-daemon", b"/usr/bin/qemu-storage-daemon"),
    ):
        assert found(comm, command_line(*WORDS, program=program), {"exe": exe}) == [], comm


def test_a_build_of_another_name_is_a_guest_by_guest_time_or_its_open_files() -> None:
    line = command_line(*WORDS, program="/opt/vmm-3.1")
    assert found("vmm-3.1", line, guest=1) == [("web", "qemu")]
    assert found("vmm-3.1", line, {"fd/12": b"/dev/kvm"}) == [], "a tool that only asks what KVM can do"
    assert found("lkvm", command_line("run", "disk", program="lkvm"), guest=1) == [("lkvm-9", "")]
    for before, seen in ((255, [("web", "qemu")]), (256, [])):  # it is among the first open files
        files = {f"fd/{number}": b"/dev/null" for number in range(before)}
        assert found("vmm-3.1", line, {**files, "fd/999": b"anon_inode:kvm-vm"}) == seen
    # Crosvm's devices are processes of the same program; Firecracker waits for API calls.
    assert found("crosvm", command_line("run", "vmlinux", program="crosvm")) == []
    assert found("firecracker", command_line("--id", "a", program="firecracker")) == []


def test_other_monitors_are_guests_with_their_vcpus() -> None:
    for comm, vcpu, words, shown in (
        ("firecracker", "fc_vcpu 0", ("--id", "shop-7", "--api-sock", "/run/firecracker.socket"), "shop-7"),
        ("firecracker", "fc_vcpu 0", ("--api-sock", "/srv/vms/shop-7/firecracker.socket"), "shop-7"),
        ("cloud-hyperviso", "vcpu0", ("--api-socket", "path=/run/shop-7.sock"), "shop-7"),
        ("cloud-hyperviso", "vcpu0", ("--api-socket=/run/vc/vm/shop-7/clh-api.sock",), "shop-7"),
        ("crosvm", "crosvm_vcpu0", ("run", "--socket", "/run/shop-7.sock", "vmlinux"), "shop-7"),
        ("crosvm", "crosvm_vcpu0", ("run", "vmlinux"), "crosvm-9"),
    ):
        machine, manager = Machine(), "cloud-hypervisor" if comm == "cloud-hyperviso" else comm
        line = command_line(*words, program=manager)
        machine.runs(9, line, stat(comm, 500, guest=300), _11=stat(vcpu, 400, guest=300))
        (guest,) = machine.look().guests
        assert (guest.name, guest.manager, guest.accelerator, guest.vcpu_count) == (shown, manager, "kvm", 1), comm
        assert (guest.cpu_seconds, guest.guest_seconds, guest.guest_time_absent) == (5, 3, ""), comm


def blocking(machine: Machine, path: str) -> set[str]:
    """Files that block their reader, starting with this one."""
    blocked, read = {path}, machine.files.beginning

    def beginning(path: str) -> bytes | None:
        if path in blocked:
            raise Blocked
        return read(path)

    machine.files.beginning = beginning  # type: ignore[method-assign]
    return blocked


def test_a_command_line_that_blocks_costs_a_guest_s_name_until_it_can_be_read() -> None:
    machine = Machine()
    blocked = blocking(machine, "proc/9/cmdline")
    machine.runs(9, QEMU, stat("qemu-system-x86", 500, guest=300))
    machine.runs(10, command_line("-name", "db"), stat("qemu-system-x86", 700))
    assert [(each.name, each.cpu_seconds) for each in machine.look().guests] == [("qemu-9", 5), ("db", 7)]
    blocked.clear()
    assert machine.names(2) == ["web", "db"]


def test_other_processes_are_neither_read_nor_recorded() -> None:
    machine = Machine()
    blocking(machine, "proc/9/cmdline")
    machine.runs(9, b"tar\0-x\0", stat("tar", 500))
    assert machine.names() == []
    paths = ["proc/stat", "proc/1/net/dev", "proc/1/stat", "proc/9/stat", "proc/20/stat", "sys/fs/cgroup/cpu.max"]
    assert recorded_paths(paths, [9], ["20"]) == [path for path in paths if path != "proc/1/stat"]


def test_what_incus_gives_by_readconfig_is_known_to_root() -> None:
    machine, file = Machine(), "/run/incus/v1/qemu.conf"
    machine.runs(9, command_line("-S", "-name", "v1", "-readconfig", file), stat("qemu-system-x86", 5))
    machine.content[f"proc/9/root{file}"] = (
        b'# Machine\n[machine]\ntype = "q35"\naccel = "kvm"\n[smp-opts]\ncpus = "2"\n'
        b'[memory]\nsize = "1024M"\n[device "dev-qemu_rng"]\ndriver = "virtio-rng-pci"\n'
    )
    (guest,) = machine.look().guests
    assert (guest.name, guest.accelerator, guest.vcpu_count, guest.memory_limit_bytes) == ("v1", "kvm", 2, 1 << 30)
