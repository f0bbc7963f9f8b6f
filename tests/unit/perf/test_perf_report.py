"""perf's reports in the format that perf_record requests, and refusals."""

from tests.support.refusals import assert_refused
from virtscope.perf import perf_report
from virtscope.perf.perf_record import Xensyms
from virtscope.perf.profile import GUESTS, NO_SYMBOL, Hits
from virtscope.toolkit.collect import SourceMalformed

COLUMNS = "# Overhead\t     Samples\t      Period\tShared Object       \tSymbol       \n"
ROW = " 50.00% \t 100        \t 500      \tweb server          \t[.] main\n"


def heading(event: str = "cache-misses", lost: int = 0) -> str:
    return (
        f"# Total Lost Samples: {lost}\n#\n# Samples: 2K of event '{event}'\n# Event count (approx.): 1\n#\n{COLUMNS}"
    )


def places(rows: str, xensyms: Xensyms | None = None) -> list[tuple[str, ...]]:
    text = heading() + rows
    return [place[1:] for place in perf_report.parse(text, xensyms.symbol if xensyms else None).profile]


def test_samples_and_periods_of_several_events_one_without_samples() -> None:
    text = (
        f"# ========\n# cmdline : /usr/bin/perf record -a\n# ========\n#\n{heading('cycles/period=9/', lost=7)}{ROW}"
        f"{ROW.replace('main', 'copy').replace('%', '')}\n\n{heading('page-faults')}\n\n"
        f"{heading('cpu-clock:ppp', lost=1)}{ROW}\n#\n# (Tip: Use parent filter to see specific call path)\n#\n"
    )
    found, lost = perf_report.parse(text)
    assert {(place.event, place.image, place.symbol): hits for place, hits in found.items()} == {
        ("cycles", "web server", "main"): Hits(100, 500),
        ("cycles", "web server", "copy"): Hits(100, 500),
        ("cpu-clock", "web server", "main"): Hits(100, 500 * 1e-9),
    }
    assert lost == 8


def test_names_may_have_in_them_what_ends_lines_elsewhere() -> None:
    for end in ("\f", "\x1c", "\x85", "\u2028", "\r"):
        assert places(f"50.00%\t12\t5\ta{end}b\t[.] c{end}d\n") == [(f"a{end}b", f"c{end}d", "user", "")]
    assert [place[1] for place in places("50.00%\t12\t9\tweb\t[.] a\n 9.00%\n" + ROW)] == ["a", "main"]


def test_samples_in_guests_are_of_no_particular_guest() -> None:
    rows = "50.00%\t1\t9\t[guest.kernel.kallsyms.42]\t[g] copy_page\n50.00%\t1\t9\t[unknown]\t[u] 0x00000000004005d0\n"
    assert places(rows) == [
        ("[guest.kernel.kallsyms]", "copy_page", "guest_kernel", GUESTS),
        ("[unknown]", NO_SYMBOL, "guest_user", GUESTS),
    ]


def test_xens_own_symbols_where_perf_shows_their_addresses() -> None:
    symbols = "ffff82d040200000 t _stext\nffff82d040201000 T do_softirq\nffff82d040202000 t idle_loop\nmalformed\n"
    addresses = {
        "0xffff82d040201abc": "k",
        "0xffff82d040202000": "k",
        "0xffffffff81234567": "k",
        "0x0000000000201abc": ".",
    }
    rows = "".join(f"20.00%\t1\t9\tweb\t[{level}] {address}\n" for address, level in addresses.items())
    assert places(rows, Xensyms(symbols)) == [
        ("xen-syms", "do_softirq", "hypervisor", ""),
        ("xen-syms", "idle_loop", "hypervisor", ""),
        ("web", NO_SYMBOL, "kernel", ""),
        ("web", NO_SYMBOL, "user", ""),
    ]
    assert places(rows, Xensyms(""))[0] == ("xen-syms", NO_SYMBOL, "hypervisor", "")


def test_what_is_no_such_report_is_refused() -> None:
    for text, words in (
        ("", "names no event"),
        ("hello\n", "line 1 of perf report is no row of an event: 'hello'"),
        (ROW, "line 1 of perf report is no row"),
        (heading().replace(COLUMNS, "") + ROW, "line 6 of perf report is no row"),
        (heading().replace("Period", "Weight"), "line 6 of perf report doesn't name the columns"),
        (heading() + ROW.replace("500", "many"), "line 7 of perf report is no row"),
        (heading() + ROW.replace("%", "?"), "line 7 of perf report is no row"),
        (heading() + "some words\n", "line 7 of perf report is no row"),
        (heading("cycles/period=9/") + ROW + heading("cycles"), "'cycles', which was sampled twice"),
        (f"# Samples: 6K of events 'anon group {{ cycles, instructions }}'\n{COLUMNS}{ROW}", "line 3 .* is no row"),
    ):
        assert_refused(SourceMalformed, words, perf_report.parse, text)
