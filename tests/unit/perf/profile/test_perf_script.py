"""perf script's lines, with the fields that it prints unless told otherwise and with fewer, and with call chains."""

from __future__ import annotations

import pytest

from virtscope.perf.profile import perf_script
from virtscope.perf.profile.samples import GUESTS, NO_SYMBOL, Hits
from virtscope.shell.sources import SourceRubbish


def places(text: str) -> list[tuple[tuple[str, ...], Hits]]:
    return [(tuple(place), hits) for place, hits in perf_script.parse(text.splitlines(keepends=True)).items()]


def test_what_it_prints_unless_told_otherwise() -> None:
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no samples"),
        ("# a comment\n\n", "no samples"),
        ("hello\n", "line 1 of perf script is no sample"),
        ("sleep 7f47259ad7ad _dl_start\n", "-F comm,tid,time,period,event,ip,sym,dso"),
        ("bash 1 [0] 1.0: sched:sched_switch: prev_comm=bash prev_pid=1\n", "line 1 of perf script has no address"),
        ("bash 1 [0] 1.0: 1 cycles: \nhello\n\n", "line 2 of perf script is no sample"),
    ],
)
def test_what_has_no_event_or_no_address_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceRubbish, match=words):
        places(text)
