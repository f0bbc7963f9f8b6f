"""perf script's lines, with the fields that it prints by default and with fewer, and with call chains."""

from __future__ import annotations

import pytest

from profile_import import perf_script
from virtscope.perf.profile import GUESTS, NO_SYMBOL, Hits
from virtscope.toolkit.collect import SourceMalformed


def places(text: str) -> list[tuple[tuple[str, ...], Hits]]:
    return [(tuple(place), hits) for place, hits in perf_script.parse(text.splitlines(keepends=True)).items()]


def test_what_it_prints_by_default() -> None:
    text = (
        "# ========\n# captured on: today\n#\n"
        "     pytest 2464 [000] 14806.57:   10101010     cpu-clock:      7f1a453ab6e9 memcpy+0x39 (/lib/libc.so.6)\n"
        " my program 2  4711 [003] 14806.58:   10101010   cpu-clock:      7f1a453ab6f0 memcpy+0x40 (/lib/libc.so.6)\n"
        " swapper 0 [001] 14806.6: 7 cache-misses:ppp: ffffffff821f4dab pv_native_safe_halt+0xb ([kernel.kallsyms])\n"
        " java 12 [001] 14806.7:  1 cache-misses:ppp:  7f1a00000000 a.B::c(int, Object)+0x7 (/tmp/perf-12.map)\n"
        "  old    13 [001] 14806.8:          2 cache-misses:ppp:  401000 [unknown] (/usr/bin/old (deleted))\n"
    )
    assert places(text) == [
        (("cpu-clock", "libc.so.6", "memcpy", "user", ""), Hits(2, 2 * 10101010 * 1e-9)),
        (("cache-misses", "[kernel.kallsyms]", "pv_native_safe_halt", "kernel", ""), Hits(1, 7)),
        (("cache-misses", "[JIT]", "a.B::c(int, Object)", "user", ""), Hits(1, 1)),
        (("cache-misses", "old", NO_SYMBOL, "user", ""), Hits(1, 2)),
    ]


def test_of_a_call_chain_the_first_frame_is_the_samples_own() -> None:
    text = (
        "swapper     0 [000] 15642.338685:   10101010 cpu-clock: \n"
        "\tffffffff821f4dab pv_native_safe_halt+0xb ([kernel.kallsyms])\n"
        "\tffffffff821f68b5 default_idle+0x5 ([kernel.kallsyms])\n"
        "\n"
        "web 1 [000] 15642.338686:   10101010 cpu-clock: \n"
        "\t          401136 main+0x6 (/srv/web)\n"
        "\t    7f5a1d029d8f [unknown] ([unknown])\n"
        "\n"
        "web 1 [000] 15642.338687:   10101010 cpu-clock: \n"
        "\n"
        "web 1 [000] 15642.338688:   10101010 cpu-clock: \n"
        "\t          401136 main+0x6 (/srv/web)\n"
    )
    assert places(text) == [
        (("cpu-clock", "[kernel.kallsyms]", "pv_native_safe_halt", "kernel", ""), Hits(1, 10101010 * 1e-9)),
        (("cpu-clock", "web", "main", "user", ""), Hits(2, 2 * 10101010 * 1e-9)),
        (("cpu-clock", "", NO_SYMBOL, "", ""), Hits(1, 10101010 * 1e-9)),
    ]


@pytest.mark.parametrize(
    ("line", "image", "symbol", "period"),
    [
        ("sleep 264 [001] 1.5: 10 page-faults: 7f47259ad7ad _dl_start+0x3d (/lib/ld.so)", "ld.so", "_dl_start", 10),
        ("sleep 264/264 [001] 1.5: 10 page-faults: 7f47259ad7ad _dl_start (/lib/ld.so)", "ld.so", "_dl_start", 10),
        ("   page-faults:      7f47259ad7ad _dl_start", "", "_dl_start", None),
        ("  sleep 264 page-faults:  7f47259ad7ad _dl_start (/lib/ld.so)", "ld.so", "_dl_start", None),
        ("  sleep page-faults:  7f47259ad7ad (/lib/ld.so)", "ld.so", NO_SYMBOL, None),
        ("page-faults: 7f47259ad7ad", "", NO_SYMBOL, None),
    ],
)
def test_other_fields(line: str, image: str, symbol: str, period: int | None) -> None:
    """A number before the event is its period only where the time stands before it; else it may be a thread's id."""
    assert places(line) == [(("page-faults", image, symbol, "user", ""), Hits(1, period))]


@pytest.mark.parametrize(("length", "image"), [(20_000, "web"), (20_001, "")])
def test_a_line_has_20000_characters_at_most(length: int, image: str) -> None:
    head, tail = "page-faults: 7f47259ad7ad ", " (/srv/web)"
    ((place, _),) = places(f"{head}{'f' * (length - len(head) - len(tail))}{tail}\n")
    assert place[1] == image


def test_without_a_time_an_address_in_the_first_page_is_no_sample() -> None:
    assert places("page-faults: 1000\n") == [(("page-faults", "", NO_SYMBOL, "user", ""), Hits(1, None))]
    with pytest.raises(SourceMalformed):
        places("page-faults: fff\n")


def test_kernels_modules_and_guests() -> None:
    text = (
        "a 1 [0] 1.0: 1 cycles: ffffffffc0123456 ext4_read+0x1 ([ext4])\n"
        "a 1 [0] 1.0: 1 cycles:         c0123456 ext4_read+0x1 (/lib/modules/2.6.32/ext4.ko)\n"
        "a 1 [0] 1.0: 1 cycles: ffffffff81234567 do_idle+0x1 ([guest.kernel.kallsyms])\n"
    )
    assert places(text) == [
        (("cycles", "[ext4]", "ext4_read", "kernel", ""), Hits(2, 2)),
        (("cycles", "[guest.kernel.kallsyms]", "do_idle", "guest_kernel", GUESTS), Hits(1, 1)),
    ]


ACCESS = "|OP LOAD|LVL L3 or L3 hit|SNP None|TLB L1 or L2 hit|LCK No"
BRANCHES = "0x401136(/srv/web)/0x401140(/srv/web)/P/-/-/0 0x401150/0x401160/M/X/A/12/CALL/- "


@pytest.mark.parametrize(
    ("tail", "image", "symbol"),
    [
        ("    7ffdf1391b0c     7fad7c47425d main+0x4 (/srv/web)", "web", "main"),
        ("               0     401136 main (/srv/web)", "web", "main"),
        (
            "ffff800034123970 ffffcbebcde1d5b8 do_idle ([kernel.kallsyms])       153d1234",
            "[kernel.kallsyms]",
            "do_idle",
        ),
        ("    7f354586d408 [unknown] (anon_inode:[perf_event])     5638f68c652d main (/srv/web)", "web", "main"),
        (
            "    55add6b5d018 x+0x0 (/tmp/dd) ffffffff8175016a elf_load+0x28a ([kernel.kallsyms])",
            "[kernel.kallsyms]",
            "elf_load",
        ),
        (
            f"    7ffdf1391b0c     10268100142 {ACCESS}|BLK  N/A    5   7    0     7fad7c47425d main (/srv/web)",
            "web",
            "main",
        ),
        (f"    7ffdf1391b0c     10268100142 {ACCESS}        57           401136 add (/srv/web)", "web", "add"),
        (f"    88000182 {ACCESS}|BLK  N/A|AFF PRED SG ffffa7c22b4b2a00 [unknown] ([ext4])", "[ext4]", NO_SYMBOL),
        ("  88000182 L1 miss|SNP N/A|TLB Walker hit|LCK No|BLK  N/A ffffa7c22b4b2a00 f ([ext4])", "[ext4]", "f"),
        ("  jmp                       401136 main+0x6 (/srv/web) =>     401200 f+0x0 (/srv/lib)", "web", "main"),
        ("  tr strt jmp               401136 main+0x6 (/srv/web)", "web", "main"),
        (" /system.slice/web.service           401136 main+0x6 (/srv/web)", "web", "main"),
        (f"    401136 main+0x6 (/srv/web) {BRANCHES}", "web", "main"),
        (f"    401136 main+0x6 (/srv/web)  {BRANCHES}{BRANCHES}", "web", "main"),
        ("    401136 main+0x6 (/srv/web) main+0x3/f+0x0/P/-/-/0 ", "web", "main"),
        ("    401136 main+0x6 (/srv/web) ABI:2    AX:0xe9    BX:0xe8d9 ", "web", "main"),
        ("    401136 main+0x6 (/srv/web) ilen: 3 insn: 48 89 e5", "web", "main"),
        ("    401136 main+0x6 (/srv/web) 4K 2M", "web", "main"),
        ("    401136 main+0x6 (/srv/web+0x1136)", "web", "main"),
        (
            "    401136 operator|(A, (anonymous namespace)::B)+0x6 (/srv/web)",
            "web",
            "operator|(A, (anonymous namespace)::B)",
        ),
        ("    401136 (anonymous namespace)::f()+0x6 (/srv/web (deleted))", "web", "(anonymous namespace)::f()"),
        ("    401136 a (/srv/web)", "web", "a"),
        ("    401136 add (/srv/web)", "web", "add"),
        ("    401136 LazyCompile:*go /srv/app/main.js:12 (/tmp/perf-12.map)", "[JIT]", "LazyCompile:*go main.js:12"),
        ("    401136 py::go:/srv/app/main.py (/tmp/perf-12.map)", "[JIT]", "py::go:main.py"),
    ],
)
def test_what_stands_beside_the_address(tail: str, image: str, symbol: str) -> None:
    ((place, hits),) = places(f"web 1 [000] 1.5:   7  cpu/mem-loads,ldlat=30/P: {tail}\n")
    assert place[:3] == ("cpu/mem-loads,ldlat=30/", image, symbol)
    assert hits == Hits(1, 7)


@pytest.mark.parametrize("comm", ["dd", "ab", "bc", "add", "dead beef", "a b: c", "12 34", ":1234", "sshd: me", "#me"])
@pytest.mark.parametrize("ids", ["4711", "4711/4712", "4711 [002]"])
def test_commands_that_look_like_something_else(comm: str, ids: str) -> None:
    without = f"{comm:>16} {ids} 12.500000:       1000  cycles: \n" * 3
    assert places(without) == [(("cycles", "", NO_SYMBOL, "", ""), Hits(3, 3000))]
    chains = f"{comm} {ids} 12.500000:       1000  cycles: \n\t          401136 main+0x6 (/srv/web)\n" * 3
    assert places(chains) == [(("cycles", "web", "main", "user", ""), Hits(3, 3000))]


@pytest.mark.parametrize("between", ["", "\n"])
@pytest.mark.parametrize("tab", ["\t", "        ", ""])
def test_call_chains_with_and_without_blank_lines_between_them(between: str, tab: str) -> None:
    chain = (
        f"dd 1 [0] 1.5: 10 cycles: \n"
        f"{tab}          401136 inner+0x6 (inlined)\n{tab}          401136 main+0x6 (/srv/web)\n"
        f"{tab}           27249 start+0x79 (/lib/libc.so.6)\n{between}"
        f"dd 1 [0] 1.6: 10 cycles: \n{tab}ffffffff8175016a elf_load+0x28a ([kernel.kallsyms])\n{between}"
        f"dd 1 [0] 1.7: PERF_RECORD_MMAP2 1/1: [0x7f(0x1) @ 0 00:00 0 0]: r-xp [vdso]\n"
    )
    assert places(chain * 2) == [
        (("cycles", "web", "main", "user", ""), Hits(2, 20)),
        (("cycles", "[kernel.kallsyms]", "elf_load", "kernel", ""), Hits(2, 20)),
    ]


def test_lines_of_source_below_frames() -> None:
    text = (
        "dd 1 1.5: 10 cycles: \n\t            1144 inl+0xb\n  w.c:5 (inlined)\n\t            1144 leaf+0xb (/tmp/dd)\n"
        "  w.c:6\n|6        leaf();\n\t            1168 a+0x11 (/tmp/dd)\n  libc.so.6[26270]\n ilen: 2 insn: 01 c2\n\n"
        "dd 1 1.6: 10 cycles:      1144 leaf+0xb (/tmp/dd)\n  ./elf/dl-lookup.c:74 (discriminator 3)\n"
    )
    assert places(text) == [(("cycles", "dd", "leaf", "user", ""), Hits(2, 20))]


def test_an_address_of_data_above_a_call_chain_is_no_place() -> None:
    text = (
        "dd 1 1.5: 1 page-faults:     5624c9265018 x+0x0 (/tmp/dd)\n\tffffffff8175016a elf_load ([kernel.kallsyms])\n\n"
        "dd 1 1.6: 1 page-faults:     5624c9265018 x+0x0 (/tmp/dd)\n\n"
        f"dd 1 1.7: 1 mem:     5624c9265018 10268100142 {ACCESS}|BLK  N/A     57\n\t     401136 main (/srv/web)\n\n"
        "dd 1 1.8: 1 sched:sched_switch: prev_comm=dd ==> next_comm=add\n\t     401136 main (/srv/web)\n\n"
    )
    assert places(text) == [
        (("page-faults", "[kernel.kallsyms]", "elf_load", "kernel", ""), Hits(1, 1)),
        (("page-faults", "", NO_SYMBOL, "", ""), Hits(1, 1)),
        (("mem", "web", "main", "user", ""), Hits(1, 1)),
        (("sched:sched_switch", "web", "main", "user", ""), Hits(1, 1)),
    ]


def test_an_images_space_by_its_name() -> None:
    spaces = {
        "[vdso]": "user",
        "[vsyscall]": "user",
        "[ext4]": "kernel",
        "[unknown]": "user",
        "[hypervisor]": "hypervisor",
    }
    for image, space in spaces.items():
        ((place, _),) = places(f"a 1 1.0: 1 cycles:     401136 f ({image})\n")
        assert place[3] == space


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no samples"),
        ("# a comment\n\n", "no samples"),
        ("hello\n", "line 1 of perf script is no sample"),
        ("sleep 7f47259ad7ad _dl_start\n", "-F comm,tid,time,period,event,ip,sym,dso"),
        ("bash 1 [0] 1.0: sched:sched_switch: prev_comm=bash prev_pid=1\n", "line 1 of perf script has no address"),
        ("a 1 1.0: 1 cycles: 401136 f (/a)\nError: 12\n", "line 2 of perf script is no sample"),
        ("a 1 1.0: 1 cycles: 401136 f (/a)\nNote:\n", "line 2 of perf script has no address"),
        ("a 1 1.0: 1 cycles:p: 401136 f (/a)\na 1 1.0: 1 cycles:pp: 401136 f (/a)\n", "line 2 .* sampled twice"),
        ("a 1 1.0: 1 x:y: add all these words\n", "line 1 of perf script has no address"),
        (f"a 1 1.0: 1 x: 401136 \x07{'f' * 999} (/a\n\nb\x07b\n", r"line 3 .*'b\\x07b'"),
        ("bash 1 [0] 1.0: 1 cycles: \nhello\n\n", "line 2 of perf script is no sample"),
    ],
)
def test_what_has_no_event_or_no_address_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceMalformed, match=words):
        places(text)
