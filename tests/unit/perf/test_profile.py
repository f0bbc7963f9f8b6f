"""Names that change with each process, build or boot would fill Prometheus with series."""

from __future__ import annotations

from virtscope.perf.profile import NO_SYMBOL, Place, event_name, in_base_units


def test_an_image_has_the_same_name_in_every_process() -> None:
    for name, printed in {
        "[JIT]": ("[JIT] tid 27492", "/tmp/perf-123.map", "jitted-4711-3.so", "/var/lib/oprofile/jitdump/7635.jo"),
        "anon": ("//anon",),
        "[stack]": ("[stack:4711]",),
        "[guest.kernel.kallsyms]": ("[guest.kernel.kallsyms.4711]",),
        "SYSV": ("SYSV0056a4d5 (deleted)",),
        "memfd": ("/memfd:sealed-91173221a7ea (deleted)",),
        "web": ("/usr/bin/web (deleted)", "(deleted) /usr/bin/web", "/usr/bin/web+0x1136", "/builds/2417/out/web"),
        "my web": ("(deleted) /home/me/my web",),
        "no-vmlinux": ("/no-vmlinux",),
        "(no name)": ("/tmp/hsperfdata_me/7635", f"/home/me/.debug/.build-id/6e/{'cd6ec21e' * 5}.debug"),
        "anon_inode:[perf_event]": ("anon_inode:[perf_event]",),
        "[ext4]": ("/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz", "ext4.ko", "[ext4]"),
        "bpf_prog_sd_devices": ("bpf_prog_6deef7357e7b4530_sd_devices",),
        "x" * 160: ("x" * 1000,),
    }.items():
        assert {Place.named("cycles", each, "main", "user").image for each in printed} == {name}, name


def test_a_symbol_is_no_address_and_not_endless() -> None:
    addresses = ("0xffffffff821f4dab", "0x00000000002ba7a4", "7f47259ad7ad", "0x1e3d", "deadbeef", "[unknown]", "")
    unknown = ("/no-vmlinux", "(deleted) /usr/bin/web")
    names = dict.fromkeys(addresses + unknown, NO_SYMBOL) | {
        "Function:~go file:///srv/app/a.js:7:1": "Function:~go a.js:7:1",
        "cmd/compile/internal/ssa.deadcode": "cmd/compile/internal/ssa.deadcode",
        "feed": "feed",
        "_dl_start+0x3d": "_dl_start",
        "do_idle.llvm.1234567890": "do_idle",
        "finish_task_switch.isra.0": "finish_task_switch.isra.0",
        "f" * 5000: "f" * 160,
    }
    assert {printed: Place.named("cycles", "web", printed, "user").symbol for printed in names} == names


def test_an_event_is_called_the_same_however_it_is_sampled() -> None:
    for name, printed in {
        "cpu-clock": ("cpu-clock", "cpu-clock/freq=99/", "cpu-clock:pppH"),
        "cache-misses": ("cache-misses/period=10000/",),
        "cpu/event=0x3c/": ("cpu/event=0x3c,period=0x3e8/", "cpu/freq=99,event=0x3c/"),
        "cpu_core/cycles,umask=1/": ("cpu_core/cycles,period=1000,umask=1/",),
        "cycles": ("cycles:ppp", "cycles:P", "cycles:ukhpp", "cycles:HG"),
        "cpu_core/cycles/": ("cpu_core/cycles/P",),
        "cycles:u": ("cycles:u", "cycles:uhpppH"),
        "cycles:k": ("cycles:kP",),
        "cycles:G": ("cycles:G",),
        "instructions": ("instructions:SDWeb",),
        "cpu-clock:u": ("cpu-clock/freq=99/uH",),
        "cpu_core/cycles/u": ("cpu_core/cycles/Pu",),
        "sched:sched_switch": ("sched:sched_switch",),
        "sched:sched_switch:u": ("sched:sched_switch:u",),
        "probe:up": ("probe:up",),
        "r1a8": ("r1a8:pp",),
    }.items():
        assert {event_name(each) for each in printed} == {name}, name


def test_events_that_count_nanoseconds_are_in_seconds() -> None:
    assert (in_base_units("cpu-clock:u", 10_000_000), in_base_units("cache-misses", 10_000_000)) == (0.01, 10_000_000)
