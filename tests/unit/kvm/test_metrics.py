"""The families of a host: names that tell guests apart, and what is absent instead of 0."""

from __future__ import annotations

from prometheus_client import Metric

from tests.unit.kvm.captured import command_line
from tests.unit.kvm.test_guests import Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.metrics import families


def labels(made: list[Metric], name: str, label: str) -> list[str]:
    return [sample.labels[label] for family in made for sample in family.samples if sample.name == name]


def test_guests_of_one_name_are_kept_apart() -> None:
    machine = Machine()
    machine.runs(9, command_line("-id", "100", "-name", "web"), stat("kvm", 5))
    machine.runs(10, command_line("-id", "101", "-name", "web"), stat("kvm", 5))
    machine.runs(11, command_line("-name", "web"), stat("qemu", 5))
    machine.runs(12, command_line("-name", "db"), stat("qemu", 5))
    machine.runs(13, command_line("-m", "16"), stat("qemu", 5))
    made = families(machine.look())
    assert labels(made, "kvm_guest_cpu_seconds_total", "guest") == [
        "web (100)",
        "web (101)",
        "web (11)",
        "db",
        "qemu-13",
    ]


def test_guest_time_that_means_nothing_is_absent_with_its_reason() -> None:
    machine = Machine()
    machine.runs(9, command_line("-name", "web"), stat("qemu", 500), _11=stat("CPU 0/TCG", 400))
    made = families(machine.look())
    names = {sample.name for family in made for sample in family.samples}
    assert labels(made, "kvm_guest_time_absent", "reason") == ["tcg"]
    assert not {name for name in names if "guest_seconds" in name}
    assert "kvm_vcpu_system_seconds_total" in names
    assert not {name for name in names if "block" in name or "limit_cpus" in name or "state" in name}
