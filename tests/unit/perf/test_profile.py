"""Samples by place: names that are the same everywhere, and few series without losing a sample."""

from virtscope.perf.profile import NO_SYMBOL, OTHER, Hits, Place, Profile, Top, event_name, in_base_units


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


def profile(**samples: int) -> Profile:
    """A profile of samples by symbol, each worth ten events."""
    return {Place("cycles", "web", symbol, "user"): Hits(count, 10.0 * count) for symbol, count in samples.items()}


def counted(top: Top, *profiles: Profile) -> dict[str, int]:
    for found in profiles:
        top.add(found)
    return {place.symbol: hits.samples for place, hits in top.counts().items()}


def test_which_symbols_have_series_of_their_own() -> None:
    grown = profile(heavy=50, light=2, late=30)
    # In the long tail, symbols have a sample or two in some rounds: an additional one doesn't make them heavier.
    chance = [profile(heavy=50, some=2 + turn % 2, other=3 - turn % 2) for turn in range(100)]
    tail = [profile(heavy=5000, **{f"tail{number}": 4}) for number in range(50)]
    together = {Place("cycles", OTHER, OTHER, ""): Hits(900, 9000.0), **profile(web=50, tail=1)}
    light = profile(heavy=50_000_000, light=1, lighter=1)
    # With a frequency, an idle CPU's few misses create as many samples as a busy one's many.
    idle, busy = (Place("cache-misses", "a", symbol, "user") for symbol in ("idle", "busy"))
    cases: list[tuple[str, Top, list[Profile], dict[str, int] | set[str]]] = [
        ("the heaviest", Top(2, 1), [profile(heavy=50, light=1, middle=9)], {"heavy": 50, "middle": 9, OTHER: 1}),
        ("light ones too", Top(3, 1), [light, light], {"heavy": 100_000_000, "light": 2, "lighter": 2, OTHER: 0}),
        ("not the report's own rest", Top(1, 1), [together], {"web": 50, OTHER: 901}),
        ("from 0", Top(2, 1), [profile(heavy=50, light=2), grown], {"heavy": 100, "late": 0, OTHER: 32}),
        ("one a round", Top(3, 1), [profile(heavy=50), profile(heavy=50, late=30, later=20)], {"heavy", "late", OTHER}),
        ("one grown", Top(2, 1), [profile(heavy=50, light=2), grown, grown], {"heavy": 150, "late": 30, OTHER: 34}),
        # Of the previous round, four fifths still count: 8, and twice that takes its series over.
        ("less than twice", Top(1, 1), [profile(early=10), profile(late=15)], {"early", OTHER}),
        ("twice", Top(1, 1), [profile(early=10), profile(late=16)], {"late", OTHER}),
        ("not by chance", Top(2, 1), [profile(heavy=50, some=2), *chance], {"heavy", "some", OTHER}),
        ("below a thousandth", Top(100, 10), [profile(heavy=5000), *tail], {"heavy", OTHER}),
        ("gone", Top(5, 1), [profile(gone=10, stays=10), *[profile(stays=10)] * 100], {"stays", OTHER}),
        ("by events", Top(1, 1), [{idle: Hits(100, 1e3), busy: Hits(90, 1e6)}], {"busy", OTHER}),
    ]
    for why, top, rounds, shown in cases:
        found = counted(top, *rounds)
        assert (found if isinstance(shown, dict) else set(found)) == shown, why
