"""Names that are new for each process, build or boot would fill Prometheus with series."""

from __future__ import annotations

import pytest

from virtscope.perf.profile import NO_SYMBOL, Hits, Place, event_name, in_base_units, without_scope


def test_an_image_has_the_same_name_in_every_process() -> None:
    names = {
        "[JIT] tid 27492": "[JIT]",
        "/tmp/perf-123.map": "[JIT]",
        "perf-123.map": "[JIT]",
        "jitted-4711-3.so": "[JIT]",
        "anon (tgid:7826 range:0xb577f000-0xb57ff000)": "anon",
        "[vdso] (tgid:7826 range:0xb577f000-0xb57ff000)": "[vdso]",
        "[stack:4711]": "[stack]",
        "[guest.kernel.kallsyms.4711]": "[guest.kernel.kallsyms]",
        "[kernel.kallsyms]": "[kernel.kallsyms]",
        "SYSV0056a4d5 (deleted)": "SYSV",
        "/memfd:sealed-91173221a7ea (deleted)": "memfd",
        "/usr/bin/web (deleted)": "web",
        "(deleted) /usr/bin/web": "web",
        "(deleted) /home/me/my web": "my web",
        "/no-vmlinux": "no-vmlinux",
        "//anon": "anon",
        "build/out/web": "web",
        "/usr/bin/web+0x1136": "web",
        "/var/lib/oprofile/jitdump/7635.jo": "[JIT]",
        "/tmp/hsperfdata_me/7635": "(no name)",
        "/home/me/.debug/.build-id/6e/cd6ec21ec69416e50a8aa6737e500901ddb47a.debug": "(no name)",
        "anon_inode:[perf_event]": "anon_inode:[perf_event]",
        "/builds/2417/out/web": "web",
        "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz": "[ext4]",
        "ext4.ko": "[ext4]",
        "[ext4]": "[ext4]",
        "libc.so.6": "libc.so.6",
        "bpf_prog_6deef7357e7b4530_sd_devices": "bpf_prog_sd_devices",
        "x" * 1000: "x" * 160,
        "": "",
    }
    assert {printed: Place.named("cycles", printed, "main", "user").image for printed in names} == names


def test_a_symbol_is_no_address_and_not_endless() -> None:
    names = {
        "0xffffffff821f4dab": NO_SYMBOL,
        "0x00000000002ba7a4": NO_SYMBOL,
        "7f47259ad7ad": NO_SYMBOL,
        "0x1e3d": NO_SYMBOL,
        "/no-vmlinux": NO_SYMBOL,
        "(deleted) /usr/bin/web": NO_SYMBOL,
        "anon (tgid:7826 range:0xb577f000-0xb57ff000)": NO_SYMBOL,
        "Function:~go file:///srv/app/a.js:7:1": "Function:~go a.js:7:1",
        "cmd/compile/internal/ssa.deadcode": "cmd/compile/internal/ssa.deadcode",
        "[unknown]": NO_SYMBOL,
        "": NO_SYMBOL,
        "main": "main",
        "deadbeef": NO_SYMBOL,
        "feed": "feed",
        "_dl_start+0x3d": "_dl_start",
        "do_idle.llvm.1234567890": "do_idle",
        "finish_task_switch.isra.0": "finish_task_switch.isra.0",
        "std::map<int, long>::at(int const&) const": "std::map<int, long>::at(int const&) const",
        "f" * 5000: "f" * 160,
    }
    assert {printed: Place.named("cycles", "web", printed, "user").symbol for printed in names} == names


def test_an_event_is_called_the_same_however_it_is_sampled() -> None:
    names = {
        "cpu-clock": "cpu-clock",
        "cpu-clock/freq=99/": "cpu-clock",
        "cache-misses/period=10000/": "cache-misses",
        "cpu/event=0x3c,period=0x3e8/": "cpu/event=0x3c/",
        "cpu_core/cycles,period=1000,umask=1/": "cpu_core/cycles,umask=1/",
        "cpu/freq=99,event=0x3c/": "cpu/event=0x3c/",
        "cycles:ppp": "cycles",
        "cycles:P": "cycles",
        "cpu_core/cycles/P": "cpu_core/cycles/",
        "cycles:u": "cycles:u",
        "cycles:uhpppH": "cycles:u",
        "cycles:ukhpp": "cycles",
        "cycles:kP": "cycles:k",
        "cycles:G": "cycles:G",
        "cycles:HG": "cycles",
        "cpu-clock:pppH": "cpu-clock",
        "instructions:SDWeb": "instructions",
        "cpu-clock/freq=99/uH": "cpu-clock:u",
        "cpu_core/cycles/Pu": "cpu_core/cycles/u",
        "sched:sched_switch:u": "sched:sched_switch:u",
        "probe:up": "probe:up",
        "r1a8:pp": "r1a8",
        "sched:sched_switch": "sched:sched_switch",
    }
    assert {printed: event_name(printed) for printed in names} == names


def test_two_events_never_get_one_name() -> None:
    for names, bare in (
        (["cycles:u"], ["cycles"]),
        (["cycles:u", "instructions:u"], ["cycles", "instructions"]),
        (["cycles:u", "cycles:k"], ["cycles:u", "cycles:k"]),
        (["cycles:G", "cycles"], ["cycles:G", "cycles"]),
        (["cpu_core/cycles/u", "cpu_atom/cycles/u"], ["cpu_core/cycles/", "cpu_atom/cycles/"]),
        (["probe:up", "probe:u"], ["probe:up", "probe:u"]),
    ):
        assert without_scope(names) == dict(zip(names, bare, strict=True))


def test_events_that_count_time_are_in_seconds() -> None:
    assert in_base_units("cpu-clock:u", 10_000_000) == pytest.approx(0.01)
    assert in_base_units("cache-misses", 10_000_000) == 10_000_000


def test_events_of_which_a_part_is_unknown_are_unknown() -> None:
    assert Hits(2, 20.0).plus(Hits(1, 5.0)) == Hits(3, 25.0)
    assert Hits(2, 20.0).plus(Hits(1, None)) == Hits(3, None)
