"""Why events are refused, by the kernel's error and the machine, and what the user can do about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from virtscope.perf import support
from virtscope.perf.events import resolve
from virtscope.perf.machine import Machine
from virtscope.perf.support import Refusal, RefusalLog, Wanted, refusal
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

PARANOID = "proc/sys/kernel/perf_event_paranoid"
RELEASE = "proc/sys/kernel/osrelease"
GUEST = {"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"}
VENDOR = "sys/class/dmi/id/sys_vendor"


def why(folder: Path, files: dict[str, str], error: int, event: str = "cycles") -> Refusal:
    """Return what is said of an event that a machine with these files refuses."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    (resolved,) = resolve(event, folder / "sys")
    return refusal(OSError(error, os.strerror(error)), resolved, Machine(folder / "proc", folder / "sys"))


@pytest.mark.parametrize(
    ("release", "capability"),
    [
        ("6.1.0-13-amd64", "CAP_PERFMON"),
        ("5.8.0", "CAP_PERFMON"),
        ("5.7.19", "CAP_SYS_ADMIN"),
        ("4.18.0-513.el8", "CAP_SYS_ADMIN"),
    ],
)
def test_the_capability_that_is_missing_and_the_setting_that_would_do(
    tmp_path: Path, release: str, capability: str
) -> None:
    reason, advice = why(tmp_path, {RELEASE: release, PARANOID: "4"}, errno.EACCES)
    assert reason == "no_permission"
    assert f"give the exporter {capability} (" in advice
    assert "kernel.perf_event_paranoid=0, which is 4" in advice


def test_the_level_of_debian_at_which_the_capability_is_not_enough(tmp_path: Path) -> None:
    _, advice = why(tmp_path / "debian", {RELEASE: "6.1.0-13-amd64", PARANOID: "3"}, errno.EACCES)
    assert "at 2, CAP_PERFMON is enough" in advice
    _, advice = why(tmp_path / "other", {RELEASE: "6.1.0-13-amd64", PARANOID: "2"}, errno.EACCES)
    assert "enough" not in advice
    _, advice = why(tmp_path / "first", {RELEASE: "5.8.0-1-amd64", PARANOID: "3"}, errno.EACCES)
    assert "enough" in advice
    _, advice = why(tmp_path / "before", {RELEASE: "5.7.0-1-amd64", PARANOID: "3"}, errno.EACCES)
    assert "enough" not in advice


def test_a_filter_of_system_calls(tmp_path: Path) -> None:
    reason, advice = why(tmp_path, {RELEASE: "6.1.0", PARANOID: "2"}, errno.EPERM)
    assert reason == "no_permission"
    assert "seccomp" in advice


@pytest.mark.parametrize(
    ("files", "advised"),
    [
        ({"sys/hypervisor/type": "xen"}, "vpmu"),
        ({**GUEST, VENDOR: "QEMU"}, "pmu state='on'"),
        ({**GUEST, "sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc"}, "QEMU"),
        ({**GUEST, VENDOR: "Amazon EC2"}, "metal"),
        ({VENDOR: "Amazon EC2"}, "metal"),  # ARM's cpuinfo has no such flag
        ({**GUEST, VENDOR: "Google"}, "--performance-monitoring-unit"),
        ({**GUEST, VENDOR: "VMware, Inc."}, "Virtualize CPU performance counters"),
        ({**GUEST, VENDOR: "Microsoft Corporation"}, "Set-VMProcessor"),
        (
            {
                **GUEST,
                VENDOR: "Microsoft Corporation",
                "sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
            },
            "Azure",
        ),
        (GUEST, "whoever runs the hypervisor"),
    ],
)
def test_a_hypervisor_that_hides_the_counters_and_how_they_are_turned_on(
    tmp_path: Path, files: dict[str, str], advised: str
) -> None:
    reason, advice = why(tmp_path, files, errno.ENOENT)
    assert reason == "hidden_by_hypervisor"
    assert advised in advice


@pytest.mark.parametrize("pmu", ["cpu/type", "armv8_cortex_a72/cpus", "cpum_cf/type"])
def test_a_guest_with_some_counters_lacks_only_this_event(tmp_path: Path, pmu: str) -> None:
    files = {**GUEST, f"sys/bus/event_source/devices/{pmu}": "0-3"}
    reason, advice = why(tmp_path, files, errno.ENOENT)
    assert reason == "not_supported"
    assert "hypervisor" in advice


def test_a_software_event_is_hidden_by_nobody(tmp_path: Path) -> None:
    assert why(tmp_path, GUEST, errno.ENOENT, "page-faults").reason == "not_supported"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.ENOENT, "not_supported"),
        (errno.EOPNOTSUPP, "not_supported"),
        (errno.EINVAL, "not_supported"),
        (errno.ENOSYS, "not_supported"),
        (errno.EMFILE, "too_many_files"),
        (errno.ENFILE, "too_many_files"),
        (errno.EBUSY, "failed"),
        (errno.ENOMEM, "failed"),
    ],
)
def test_every_error_has_a_reason(tmp_path: Path, error: int, reason: str) -> None:
    assert why(tmp_path, {"proc/cpuinfo": "flags: fpu"}, error).reason == reason


def test_each_reason_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (cycles,), (faults,) = resolve("cycles", Path("/nowhere")), resolve("page-faults", Path("/nowhere"))
    wanted = [Wanted("cache", cycles), Wanted("cache", faults)]
    refused, otherwise = Refusal("not_supported", "none"), Refusal("no_permission", "root")
    logged = RefusalLog()

    def said(*refusals: Refusal | None) -> list[tuple[str, str, str]]:
        caplog.clear()
        logged.update(dict(zip(wanted, refusals, strict=True)))
        fields = [vars(record)["fields"] for record in caplog.records]
        messages = [record.getMessage() for record in caplog.records]
        return [(text, field.get("reason", ""), field["events"]) for text, field in zip(messages, fields, strict=True)]

    both = "cache/cycles cache/page-faults"
    assert said(refused, refused) == [("events can't be counted", "not_supported", both)]
    assert said(refused, refused) == []
    assert said(refused, otherwise) == [("events can't be counted", "no_permission", "cache/page-faults")]
    assert said(None, otherwise) == [("events are counted now", "", "cache/cycles")]
    assert said(None, None) == [("events are counted now", "", "cache/page-faults")]


def test_which_cpus_are_online(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "proc", tmp_path / "sys")
    with pytest.raises(SourceUnavailable, match=r"--path\.sysfs"):
        machine.online()
    online = tmp_path / "sys/devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0-2,5\n")
    assert machine.online() == {0, 1, 2, 5}
    online.write_text("all\n")
    with pytest.raises(SourceMalformed, match="all"):
        machine.online()


def test_kvm_that_gives_its_guests_the_counters(tmp_path: Path) -> None:
    assert not Machine(tmp_path / "proc", tmp_path / "sys").mediated_pmu
    parameters = tmp_path / "sys/module/kvm_intel/parameters"
    parameters.mkdir(parents=True)
    (parameters / "enable_mediated_pmu").write_text("Y\n")
    assert Machine(tmp_path / "proc", tmp_path / "sys").mediated_pmu


def test_every_reason_is_explained_to_users() -> None:
    page = (Path(__file__).parents[3] / "docs/perf-events.md").read_text()
    reasons = {value for name, value in vars(support).items() if name.isupper() and isinstance(value, str)}
    assert len(reasons) > 5
    assert [reason for reason in reasons if f"\n| `{reason}` |" not in page] == []
