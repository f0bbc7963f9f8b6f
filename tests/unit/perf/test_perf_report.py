"""perf's reports: with separators, as perf_record asks for them, and in columns; what is refused."""

from __future__ import annotations

from tests.support.refusals import assert_refused
from virtscope.perf import perf_report
from virtscope.perf.perf_record import Xensyms
from virtscope.perf.profile import GUESTS, NO_SYMBOL, Hits
from virtscope.toolkit.collect import SourceMalformed

COLUMNS = "# Overhead  Samples  Shared Object  Symbol\n"
SEPARATED = "# Overhead\tSamples\tShared Object\tSymbol\n"


def heading(samples: str = "200", event: str = "cache-misses", events: int = 1_000_000, lost: int = 0) -> str:
    return (
        f"# Total Lost Samples: {lost}\n#\n# Samples: {samples}  of event '{event}'\n"
        f"# Event count (approx.): {events}\n#\n"
    )


def by_symbol(text: str) -> dict[str, Hits]:
    return {place.symbol: hits for place, hits in perf_report.parse(text).profile.items()}


def places(text: str, xensyms: Xensyms | None = None) -> list[tuple[str, ...]]:
    """Image, symbol, space and domain of each row."""
    return [place[1:] for place in perf_report.parse(text, xensyms.symbol if xensyms else None).profile]


def test_a_separator_and_periods() -> None:
    text = heading(lost=7) + (
        "# Overhead\t     Samples\t      Period\tShared Object       \tSymbol                  \n"
        " 75.00% \t 150        \t 123456      \tweb server          \t[.] main\n"
        " 25.00% \t 50         \t 41152       \tlibc.so.6           \t[.] memcpy\n"
    )
    assert by_symbol(text) == {"main": Hits(150, 123456), "memcpy": Hits(50, 41152)}
    assert [place[0] for place in places(text)] == ["web server", "libc.so.6"]
    assert perf_report.parse(text).lost == 7


def test_names_may_have_in_them_what_ends_lines_elsewhere() -> None:
    for end in ("\f", "\x1c", "\x85", "\u2028", "\r"):
        [place] = places(heading() + SEPARATED + f"50.00%\t12\ta{end}b\t[.] c{end}d\n")
        assert place[:3] == (f"a{end}b", f"c{end}d", "user")
    rows = "50.00%\t12\tweb\t[.] a\n 9.00%\n30.00%\t7\tweb\t[.] main\n"  # a symbol with a line break
    found = by_symbol(heading() + SEPARATED + rows)
    assert {symbol: hits.samples for symbol, hits in found.items()} == {"a": 12, "main": 7}


def test_chains_between_rows_have_no_samples_of_their_own_and_of_children_and_self_it_is_self() -> None:
    graph = (
        "            |\n            ---__libc_start_call_main\n               main\n               |          \n"
        "               |--50.36%--a b [c]\n               |          0x7f12\n                --16.40%-- [...]\n\n"
    )
    for separator in (",", "|", "\t", ":"):
        titles = ["Children", "    Self", "  Samples", "Command", "Shared Object", "Symbol\n"]
        row = separator.join([" {:.2f}% ", " {}.00% ", " {}  ", "my prog", "libc.so.6  ", "[.] {}\n"])
        chains = "16.89% main;a;a;a;a;memcpy\n" + graph
        rows = row.format(100, 0, 0, "main") + chains + row.format(75, 75, 150, "memcpy")
        found = by_symbol(heading() + "# " + separator.join(titles) + rows)
        assert found == {"memcpy": Hits(150, 750_000)}, separator


def test_columns_as_wide_as_their_widest_name() -> None:
    text = heading() + (
        "# Overhead       Samples  Command          Shared Object             Symbol                         \n"
        "# ........  ............  ...............  ........................  ...............................\n"
        "#\n"
        "    75.00%           150  my program       [kernel.kallsyms]         [k] copy_page\n"
        "    24.00%            48  :1234            libstdc++.so.6            [.] std::map<int, long>::at(int const&)\n"
        "     1.00%             2  swapper          [unknown]                 [k] 0xffffffff821f4dab\n"
        "\n\n#\n# (Tip: Use parent filter to see specific call path: perf report -p <regex>)\n#\n"
    )
    assert places(text) == [
        ("[kernel.kallsyms]", "copy_page", "kernel", ""),
        ("libstdc++.so.6", "std::map<int, long>::at(int const&)", "user", ""),
        ("[unknown]", NO_SYMBOL, "kernel", ""),
    ]
    assert [*by_symbol(text).values()] == [Hits(150, 750_000), Hits(48, 240_000), Hits(2, 10_000)]


def test_percentages_alone_are_of_the_headings_numbers() -> None:
    rows = "# Overhead  Command  Shared Object  Symbol\n    44.13%  demo     demo           [.] start_routine2\n"
    found = by_symbol(heading(samples="161K", events=34019959751) + rows)
    assert found == {"start_routine2": Hits(71049, 15013008238)}


def test_several_events_one_without_samples_and_the_header_that_perf_prints_when_asked() -> None:
    text = (
        "# ========\n# captured on    : Fri Nov 20 05:43:40 2026\n# cmdline : /usr/bin/perf record -a\n"
        "# event : name = cpu-clock, type = 1\n# ========\n#\n"
        f"{heading(event='cache-references/period=1000/')}{COLUMNS}   100.00%  200  web  [.] main\n\n\n"
        f"{heading(samples='0', event='page-faults', events=0)}{COLUMNS}\n\n"
        f"{heading(samples='3', event='cpu-clock:ppp', events=30)}{COLUMNS}   100.00%  3  web  [.] main\n"
    )
    found = {place.event: hits for place, hits in perf_report.parse(text).profile.items()}
    assert found == {"cache-references": Hits(200, 1_000_000), "cpu-clock": Hits(3, 30 * 1e-9)}


def test_samples_in_guests_are_of_no_particular_guest() -> None:
    rows = "50.00%  100  [guest.kernel.kallsyms.42]  [g] copy_page\n50.00%  100  [unknown]  [u] 0x00000000004005d0\n"
    assert places(heading() + COLUMNS + rows) == [
        ("[guest.kernel.kallsyms]", "copy_page", "guest_kernel", GUESTS),
        ("[unknown]", NO_SYMBOL, "guest_user", GUESTS),
    ]


def test_xens_own_symbols_where_perf_shows_their_addresses() -> None:
    symbols = "ffff82d040200000 t _stext\nffff82d040201000 T do_softirq\nffff82d040202000 t idle_loop\nmalformed\n"
    rows = (
        "    50.00%  100  [unknown]  [k] 0xffff82d040201abc\n    25.00%   50  [unknown]  [k] 0xffff82d040202000\n"
        "    20.00%   40  [unknown]  [k] 0xffffffff81234567\n     5.00%   10  web        [.] 0x0000000000201abc\n"
    )
    text = heading() + COLUMNS + rows
    assert places(text, Xensyms(symbols)) == [
        ("xen-syms", "do_softirq", "hypervisor", ""),
        ("xen-syms", "idle_loop", "hypervisor", ""),
        ("[unknown]", NO_SYMBOL, "kernel", ""),
        ("web", NO_SYMBOL, "user", ""),
    ]
    assert places(text, Xensyms(""))[0] == ("xen-syms", NO_SYMBOL, "hypervisor", "")


def test_what_is_no_such_report_is_refused() -> None:
    row = "    50.00%  100  web  [.] main\n"
    head = heading() + COLUMNS
    twice = heading(event="cycles/period=9/") + COLUMNS + "  9.00%  1  web  [.] main\n"
    weight = "# Samples: 7  of event 'mem'\n# Total weight : 300\n# Overhead  Shared Object\n   9.00%  libc\n"
    for text, words in (
        ("", "no output of perf report"),
        ("hello\n", "no line names an event"),
        (heading() + row, "line 6 of perf report stands before the names of the columns"),
        (row, "line 1 of perf report stands before the name of an event"),
        ("# Samples: 3921378\n#\n" + COLUMNS, "names no event"),
        (head + "    50.00%  100  web\n", "line 7 of perf report is no row"),
        (head + row.replace("%", " "), "line 7 of perf report is no row"),
        (head + "    50.00%  many  web  [.] main\n", "line 7 of perf report is no row"),
        (head + row + "some words\n", "line 8 .* is no row .*'some words'"),
        (head + row * 3, "some count twice"),
        (heading() + "# Overhead,Shared Object,Symbol\n23,02%,web,[.] main\n", "line 7 of perf report is no row"),
        (heading() + "# Overhead  Command\n    50.00%  web\n", "sort by dso and symbol"),
        (twice * 2, "sampled twice"),
        ("# Samples: 6K of events 'anon group { cycles, instructions }'\n", "--no-group"),
        (weight, "report with -n"),
    ):
        assert_refused(SourceMalformed, words, perf_report.parse, text)
