"""Reasons of refused events, by the kernel's error and the machine, with remedies."""

import errno
import os
from pathlib import Path

import pytest

from tests.support.refusals import assert_refused
from virtscope.perf import support
from virtscope.perf.events import resolve
from virtscope.perf.machine import Machine, parse_cpus
from virtscope.perf.support import Refusal, RefusalLog, Wanted, refusal
from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

PARANOID = "proc/sys/kernel/perf_event_paranoid"
RELEASE = "proc/sys/kernel/osrelease"
GUEST = {"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"}
DEVICES = "sys/bus/event_source/devices"
VENDOR = "sys/class/dmi/id/sys_vendor"


def machine(folder: Path, files: dict[str, str]) -> Machine:
    folder /= str(len(list(folder.iterdir())))
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return Machine(folder / "proc", folder / "sys")


def why(folder: Path, files: dict[str, str], error: int, event: str = "cycles") -> Refusal:
    (resolved,) = resolve(event, Path("/nowhere"))
    return refusal(OSError(error, os.strerror(error)), resolved, machine(folder, files))


def test_the_capability_that_is_missing_and_the_setting_that_would_do(tmp_path: Path) -> None:
    """At Debian's perf_event_paranoid level 3, the capability isn't enough."""
    for release, level, capability, enough in (
        ("6.1.0-13-amd64", 3, "CAP_PERFMON", True),
        ("6.1.0-13-amd64", 2, "CAP_PERFMON", False),
        ("5.8.0", 3, "CAP_PERFMON", True),
        ("5.7.19", 3, "CAP_SYS_ADMIN", False),
        ("4.18.0-513.el8", 4, "CAP_SYS_ADMIN", False),
    ):
        reason, advice = why(tmp_path, {RELEASE: release, PARANOID: f"{level}"}, errno.EACCES)
        assert reason == "no_permission"
        assert f"give the exporter {capability} (" in advice
        assert f"kernel.perf_event_paranoid=0, which is {level}" in advice
        assert ("at 2, CAP_PERFMON is enough" in advice) is enough, (release, level)


def test_what_else_refuses_an_event_and_what_would_help(tmp_path: Path) -> None:
    azure = {"sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}
    kvm_clock = {"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc"}
    pmus = ("cpu/type", "armv8_cortex_a72/cpus", "cpum_cf/type")
    hidden, bare = "hidden_by_hypervisor", {"proc/cpuinfo": "flags: fpu"}
    cases: list[tuple[dict[str, str], int, str, str]] = [
        ({RELEASE: "6.1.0", PARANOID: "2"}, errno.EPERM, "no_permission", "seccomp"),
        ({"sys/hypervisor/type": "xen"}, errno.ENOENT, hidden, "vpmu"),
        ({**GUEST, VENDOR: "QEMU"}, errno.ENOENT, hidden, "pmu state='on'"),
        ({**GUEST, **kvm_clock}, errno.ENOENT, hidden, "QEMU"),
        ({VENDOR: "Amazon EC2"}, errno.ENOENT, hidden, "metal"),  # ARM's cpuinfo has no such flag
        ({**GUEST, VENDOR: "Google"}, errno.ENOENT, hidden, "--performance-monitoring-unit"),
        ({**GUEST, VENDOR: "Microsoft Corporation"}, errno.ENOENT, hidden, "Set-VMProcessor"),
        ({**GUEST, VENDOR: "Microsoft Corporation", **azure}, errno.ENOENT, hidden, "Azure"),
        (GUEST, errno.ENOENT, hidden, "hypervisor's operator"),
        # A guest with some counters lacks only this event.
        *(({**GUEST, f"{DEVICES}/{pmu}": "0-3"}, errno.ENOENT, "not_supported", "hypervisor") for pmu in pmus),
        *(
            (bare, number, "not_supported", "")
            for number in (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
        ),
        *((bare, number, "too_many_files", "") for number in (errno.EMFILE, errno.ENFILE)),
        *((bare, number, "failed", "") for number in (errno.EBUSY, errno.ENOMEM)),
    ]
    for files, error, reason, words in cases:
        refused = why(tmp_path, files, error)
        assert refused.reason == reason, (files, error)
        assert words in refused.advice, (files, refused.advice)
    assert why(tmp_path, GUEST, errno.ENOENT, "page-faults").reason == "not_supported", "nobody hides it"
    page = (Path(__file__).parents[3] / "docs/perf-events.md").read_text()
    known = {value for name, value in vars(support).items() if name.isupper() and isinstance(value, str)}
    assert known > {reason for _, _, reason, _ in cases}
    assert [reason for reason in known if f"\n| `{reason}` |" not in page] == []


def test_each_reason_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    wanted = [Wanted("cache", *resolve(event, Path("/nowhere"))) for event in ("cycles", "page-faults")]
    refused, otherwise = Refusal("not_supported", "none"), Refusal("no_permission", "root")
    logged = RefusalLog()

    def said(*refusals: Refusal | None) -> list[tuple[str, str, str]]:
        caplog.clear()
        logged.update(dict(zip(wanted, refusals, strict=True)))
        fields = [(record.getMessage(), vars(record)["fields"]) for record in caplog.records]
        return [(text, field.get("reason", ""), field["events"]) for text, field in fields]

    both = "cache/cycles cache/page-faults"
    assert said(refused, refused) == [("events can't be counted", "not_supported", both)]
    assert said(refused, refused) == []
    assert said(refused, otherwise) == [("events can't be counted", "no_permission", "cache/page-faults")]
    assert said(None, otherwise) == [("events are counted now", "", "cache/cycles")]


def test_what_a_machine_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = "sys/devices/system/cpu/online"
    assert_refused(SourceUnavailable, r"--path\.sysfs", machine(tmp_path, {}).online)
    assert machine(tmp_path, {file: "0-2,5"}).online() == {0, 1, 2, 5}
    assert_refused(SourceMalformed, "all", machine(tmp_path, {file: "all"}).online)
    monkeypatch.setattr(bounded, "LARGEST_FILE", 200_000)
    for endless in (file, PARANOID):
        (tmp_path / "endless" / endless).parent.mkdir(parents=True)
        (tmp_path / "endless" / endless).symlink_to("/dev/zero")
    unread = Machine(tmp_path / "endless/proc", tmp_path / "endless/sys")
    assert unread.paranoid() is None
    assert_refused(SourceUnavailable, "cpu/online: File too large", unread.online)
    mediated = {"sys/module/kvm_intel/parameters/enable_mediated_pmu": "Y"}
    assert [machine(tmp_path, files).mediated_pmu for files in ({}, mediated)] == [False, True]
    lists = {"0-3,8,10-11\n": (0, 1, 2, 3, 8, 10, 11), "\n": (), "65535": (65535,)}
    assert {text: parse_cpus(text) for text in lists} == lists
    for text in ("65536", "0-99999999999"):  # more than any machine has
        assert_refused(ValueError, text, parse_cpus, text)
