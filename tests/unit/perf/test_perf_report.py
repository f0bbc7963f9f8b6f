"""perf's reports: in columns or with separators, with and without numbers of samples, with call chains between rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtscope.perf import perf_report
from virtscope.perf.perf_record import Xensyms
from virtscope.perf.profile import GUESTS, NO_SYMBOL, Hits, Profile
from virtscope.toolkit.collect import SourceMalformed

SAMPLE = Path(__file__).resolve().parents[4] / "shared/samples/perf/report-stdio-rk3588-two-events-refs-and-misses.txt"

HEADING = (
    "# Total Lost Samples: {lost}\n#\n# Samples: {samples}  of event '{event}'\n# Event count (approx.): {events}\n#\n"
)


def heading(samples: str = "200", event: str = "cache-misses", events: int = 1_000_000, lost: int = 0) -> str:
    return HEADING.format(samples=samples, event=event, events=events, lost=lost)


def by_symbol(profile: Profile) -> dict[str, Hits]:
    return {place.symbol: hits for place, hits in profile.items()}


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
    profile = perf_report.parse(text).profile
    assert [tuple(place)[1:] for place in profile] == [
        ("[kernel.kallsyms]", "copy_page", "kernel", ""),
        ("libstdc++.so.6", "std::map<int, long>::at(int const&)", "user", ""),
        ("[unknown]", NO_SYMBOL, "kernel", ""),
    ]
    assert list(profile.values()) == [Hits(150, 750_000), Hits(48, 240_000), Hits(2, 10_000)]


def test_in_columns_a_share_has_its_sign() -> None:
    row = "    75.00%      150  web      [kernel.kallsyms]  [k] copy_page\n"
    text = heading() + "# Overhead  Samples  Command  Shared Object      Symbol\n#\n"
    assert by_symbol(perf_report.parse(text + row).profile) == {"copy_page": Hits(150, 750_000)}
    with pytest.raises(SourceMalformed):
        perf_report.parse(text + row.replace("%", " "))


def test_a_separator_and_periods() -> None:
    text = heading(lost=7) + (
        "# Overhead\t     Samples\t      Period\tShared Object       \tSymbol                  \n"
        " 75.00% \t 150        \t 123456      \tweb server          \t[.] main\n"
        " 25.00% \t 50         \t 41152       \tlibc.so.6           \t[.] memcpy\n"
    )
    report = perf_report.parse(text)
    assert by_symbol(report.profile) == {"main": Hits(150, 123456), "memcpy": Hits(50, 41152)}
    assert {place.image for place in report.profile} == {"web server", "libc.so.6"}
    assert report.lost == 7


@pytest.mark.parametrize("end", ["\f", "\v", "\x1c", "\x85", "\u2028", "\r"])
def test_names_may_have_in_them_what_ends_lines_elsewhere(end: str) -> None:
    text = heading() + f"# Overhead\tSamples\tShared Object\tSymbol\n50.00%\t12\ta{end}b\t[.] c{end}d\n"
    (place,) = perf_report.parse(text).profile
    assert place[1:4] == (f"a{end}b", f"c{end}d", "user")


def test_a_symbol_with_a_line_break_costs_no_other_one() -> None:
    rows = "50.00%\t12\tweb\t[.] a\n 9.00%\n30.00%\t7\tweb\t[.] main\n"
    profile = perf_report.parse(heading() + "# Overhead\tSamples\tShared Object\tSymbol\n" + rows).profile
    assert {place.symbol: hits.samples for place, hits in profile.items()} == {"a": 12, "main": 7}


def test_percentages_alone_are_of_the_headings_numbers() -> None:
    text = heading(samples="161K", events=34019959751) + (
        "# Overhead  Command  Shared Object  Symbol\n    44.13%  demo     demo           [.] start_routine2\n"
    )
    assert by_symbol(perf_report.parse(text).profile) == {"start_routine2": Hits(71049, 15013008238)}


def test_of_children_and_self_it_is_self_that_fell_here() -> None:
    text = heading(samples="101", event="cpu-clock", events=1_020_202_010) + (
        "# Children      Self       Samples  Command  Shared Object      Symbol                      \n"
        "# ........  ........  ............  .......  .................  ............................\n"
        "#\n"
        "    95.05%     0.00%             0  swapper  [kernel.kallsyms]  [k] common_startup_64\n"
        "            |\n"
        "            ---common_startup_64\n"
        "               |          \n"
        "               |--94.06%--do_idle\n"
        "                --0.99%--schedule_idle\n"
        "                          __schedule\n"
        "\n"
        "    94.06%    94.06%            95  swapper  [kernel.kallsyms]  [k] pv_native_safe_halt\n"
        "            |\n"
        "            ---common_startup_64\n"
    )
    assert by_symbol(perf_report.parse(text).profile) == {
        "pv_native_safe_halt": Hits(95, round(0.9406 * 1_020_202_010) * 1e-9)
    }


def test_several_events_and_one_without_samples() -> None:
    columns = "# Overhead  Samples  Shared Object  Symbol\n"
    text = (
        heading(event="cache-references/period=1000/")
        + columns
        + "   100.00%  200  web  [.] main\n\n\n"
        + heading(samples="0", event="page-faults", events=0)
        + columns
        + "\n\n"
        + heading(samples="3", event="cache-misses:ppp", events=30)
        + columns
        + "   100.00%  3  web  [.] main\n"
    )
    events = {place.event: hits.samples for place, hits in perf_report.parse(text).profile.items()}
    assert events == {"cache-references": 200, "cache-misses": 3}


def test_the_header_that_perf_prints_when_asked() -> None:
    text = (
        "# ========\n# captured on    : Fri Nov 20 05:43:40 2026\n# cmdline : /usr/bin/perf record -a\n"
        "# event : name = cpu-clock, type = 1\n# ========\n#\n"
        + heading()
        + "# Overhead  Samples  Shared Object  Symbol\n   100.00%  200  web  [.] main\n"
    )
    assert by_symbol(perf_report.parse(text).profile) == {"main": Hits(200, 1_000_000)}


def test_samples_in_guests_are_of_no_particular_guest() -> None:
    text = heading() + (
        "# Overhead  Samples  Shared Object             Symbol\n"
        "    50.00%  100  [guest.kernel.kallsyms.42]  [g] copy_page\n"
        "    50.00%  100  [unknown]  [u] 0x00000000004005d0\n"
    )
    places = [tuple(place)[1:] for place in perf_report.parse(text).profile]
    assert places == [
        ("[guest.kernel.kallsyms]", "copy_page", "guest_kernel", GUESTS),
        ("[unknown]", NO_SYMBOL, "guest_user", GUESTS),
    ]


def test_xens_own_symbols_where_perf_shows_their_addresses() -> None:
    xensyms = Xensyms(
        "ffff82d040200000 t _stext\nffff82d040201000 T do_softirq\nffff82d040202000 t idle_loop\nmalformed\n"
    )
    text = heading() + (
        "# Overhead  Samples  Shared Object  Symbol\n"
        "    50.00%  100  [unknown]  [k] 0xffff82d040201abc\n"
        "    25.00%   50  [unknown]  [k] 0xffff82d040202000\n"
        "    20.00%   40  [unknown]  [k] 0xffffffff81234567\n"
        "     5.00%   10  web        [.] 0x0000000000201abc\n"
    )
    places = [tuple(place)[1:4] for place in perf_report.parse(text, xensyms.symbol).profile]
    assert places == [
        ("xen-syms", "do_softirq", "hypervisor"),
        ("xen-syms", "idle_loop", "hypervisor"),
        ("[unknown]", NO_SYMBOL, "kernel"),
        ("web", NO_SYMBOL, "user"),
    ]
    unread = [tuple(place)[1:4] for place in perf_report.parse(text, Xensyms("").symbol).profile]
    assert unread[0] == ("xen-syms", NO_SYMBOL, "hypervisor")


PLAIN = (
    "# Overhead  Command  Shared Object      Symbol\n"
    "# ........  .......  .................  ......................\n"
    "#\n"
    "    75.00%  my prog  libc.so.6          [.] memcpy\n{0}"
    "    25.00%  dd       [kernel.kallsyms]  [k] copy_page\n{1}"
)
TWO = {"memcpy": Hits(150, 750_000), "copy_page": Hits(50, 250_000)}
GRAPH = (
    "            |\n            ---__libc_start_call_main\n               main\n               |          \n"
    "               |--50.36%--a b [c]\n               |          0x7f12\n                --16.40%-- [...]\n\n"
)


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param(GRAPH, id="graph"),
        pytest.param(GRAPH.replace("50.36%", "2374").replace("16.40%", "773"), id="graph with counts"),
        pytest.param(
            "           16.89%\n                memcpy\n                main\n\n           9.00%\n             f\n\n",
            id="flat",
        ),
        pytest.param("           12\n                memcpy\n                main\n\n", id="flat with counts"),
        pytest.param("16.89% memcpy;a;a;main;__libc_start_call_main\n8.17% memcpy;main\n", id="folded"),
        pytest.param("796796796 __libc_start_call_main;main;memcpy\n", id="folded with periods"),
    ],
)
def test_a_call_chain_has_no_samples_of_its_own(chain: str) -> None:
    assert by_symbol(perf_report.parse(heading() + PLAIN.format(chain, chain)).profile) == TWO


@pytest.mark.parametrize("separator", [",", ";", "|", "\t", ":"])
def test_chains_between_rows_with_separators(separator: str) -> None:
    row = separator.join([" {:.2f}% ", " {}.00% ", " {}  ", "my prog", "libc.so.6  ", "[.] {}\n"])
    text = (
        heading() + "# " + separator.join(["Children", "    Self", "  Samples", "Command", "Shared Object", "Symbol\n"])
    )
    text += row.format(100, 0, 0, "main") + "16.89% main;a;a;a;a;memcpy\n" + GRAPH + row.format(75, 75, 150, "memcpy")
    assert by_symbol(perf_report.parse(text).profile) == {"memcpy": Hits(150, 750_000)}


def test_decimal_commas() -> None:
    text = PLAIN.format(GRAPH.replace("50.36", "50,36"), "").replace("75.00", "75,00").replace("25.00", "25,00")
    assert by_symbol(perf_report.parse(heading() + text).profile) == TWO


@pytest.mark.parametrize("number", ["1K", "200 ", "12M", "3G", "1T"])
def test_the_heading_of_linux_2_6_39(number: str) -> None:
    text = f"# Events: {number} cycles\n#\n" + PLAIN.format("", "")
    samples = {"1K": 1000, "200 ": 200, "12M": 12_000_000, "3G": 3 * 10**9, "1T": 10**12}[number]
    profile = perf_report.parse(text).profile
    assert {place.event for place in profile} == {"cycles"}
    assert by_symbol(profile) == {"memcpy": Hits(samples * 3 // 4, None), "copy_page": Hits(samples // 4, None)}


def test_what_the_terminal_interface_shows() -> None:
    text = (
        "Samples: 200  of event 'cache-misses:P', 4000 Hz, Event count (approx.): 1000000\n"
        "  Children      Self  Command  Shared Object      Symbol\n"
        "-   99.00%     0.00%  my prog  libc.so.6          [.] __libc_start_main               ◆\n"
        "   - 98.00% __libc_start_main                                                         ▒\n"
        "      + 50.00% main                                                                   ▒\n"
        "        10.00% exit                                                                   ▒\n"
        "     _start\n"
        "+   75.00%    75.00%  my prog  libc.so.6          [.] memcpy                          ▒\n"
        "     25.00%    25.00%  dd       [kernel.kallsyms]  [k] copy_page\n"
        "Press '?' for help on key bindings\n"
    )
    profile = perf_report.parse(text).profile
    assert by_symbol(profile) == TWO
    assert {place.event for place in profile} == {"cache-misses"}


@pytest.mark.parametrize(
    ("titles", "row"),
    [
        ("# Symbol      Shared Object  Overhead  ", "  [.] memcpy  libc.so.6        75.00%"),
        ("# Overhead  Symbol      Shared Object", "    75.00%  [.] memcpy  libc.so.6    "),
        (
            "# Overhead      Pid:Command  Shared Object  Symbol    ",
            "    75.00%      12:my  prog  libc.so.6      [.] memcpy",
        ),
        (
            "# Overhead  CPU   Parent symbol  Shared Object  Symbol    ",
            "    75.00%  -001  [other]        libc.so.6      [.] memcpy",
        ),
        ("# Overhead  Source:Line  Shared Object  Symbol    ", "    75.00%               libc.so.6      [.] memcpy"),
        (
            "# Overhead       sys       usr  Shared Object  Symbol",
            "    75.00%     0.00%    75.00%  libc.so.6      [.] memcpy",
        ),
        (
            "# Overhead  Shared Object  Symbol      IPC   [IPC Coverage]",
            "    75.00%  libc.so.6      [.] memcpy  0.32  [ 1.5%]",
        ),
        (
            "# Overhead  Shared Object  Symbol                      ",
            "    75.00%  libc.so.6      0x114c             B [.] memcpy",
        ),
    ],
)
def test_columns_of_other_orders(titles: str, row: str) -> None:
    dots = "# " + "".join(
        "." if letter != " " else " " for letter in titles[2:].replace("Shared Object", "Shared_Object")
    )
    if "my  prog" in row or "  -001" in row or "Source:Line" in titles:
        dots = {
            "Pid": "# ........  ...............  .............  ..........",
            "CPU": "# ........  ....  .............  .............  ..........",
            "Sou": "# ........  ...........  .............  ..........",
        }[titles.split()[2][:3]]
    else:
        dots = "#"
    (place,) = perf_report.parse(heading() + f"{titles}\n{dots}\n#\n{row}\n").profile
    assert place[:3] == ("cache-misses", "libc.so.6", "memcpy")


@pytest.mark.parametrize(
    ("titles", "row", "image", "symbol"),
    [
        ("# Overhead  Symbol", "    75.00%  [k] copy_page", "", "copy_page"),
        ("# Overhead  Shared Object", "    75.00%  libc.so.6", "libc.so.6", NO_SYMBOL),
    ],
)
def test_reports_of_symbols_or_of_images_alone(titles: str, row: str, image: str, symbol: str) -> None:
    (place,) = perf_report.parse(f"{heading()}{titles}\n{row}\n").profile
    assert place[1:3] == (image, symbol)


def test_lines_that_a_mail_program_wrapped() -> None:
    text = heading() + (
        "# Overhead  Command  Shared Object\n    Symbol\n# ........  .......  .............\n  ......\n#\n"
        "    75.00%  my prog  libc.so.6  [.]\nmemcpy\n    25.00%  dd  [kernel.kallsyms]  [k] copy_page\n"
    )
    assert by_symbol(perf_report.parse(text).profile) == TWO


def test_weights_are_no_events() -> None:
    """perf mem report's percentages are of the time that accesses took."""
    columns = "# Overhead  Samples  Local Weight  Shared Object  Symbol\n   100.00%  7  30  libc.so.6  [.] memcpy\n"
    text = "# Samples: 7  of event 'cpu/mem-loads/'\n# Total weight : 300\n# Event count (approx.): 300\n#\n" + columns
    assert list(perf_report.parse(text).profile.values()) == [Hits(7, None)]
    with pytest.raises(SourceMalformed, match=r"line 6 .* report with -n"):
        perf_report.parse(text.replace("Samples  ", "").replace("7  30", "30"))


COLUMNS = "# Overhead  Samples  Shared Object  Symbol\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no output of perf report"),
        ("hello\n", "no line names an event"),
        ("# just a comment\n", "no line names an event"),
        (
            heading() + "    50.00%  100  web  [.] main\n",
            "line 6 of perf report stands before the names of the columns",
        ),
        (heading() + COLUMNS + "    50.00%  100  web\n", "line 7 of perf report is no row"),
        (heading() + COLUMNS + "    50.00%  many  web  [.] main\n", "line 7 of perf report is no row"),
        (heading() + "# Overhead  Command\n    50.00%  web\n", "sort by dso and symbol"),
        (heading() + "#    Overhead  Command / Shared Object / Symbol\n    50.00%  web\n", "--hierarchy"),
        (
            (heading(event="cycles/period=9/") + COLUMNS + "  9.00%  1  web  [.] main\n") * 2,
            "'cycles', which was sampled twice",
        ),
        (heading() + "# Overhead  Source Shared Object  Source Symbol  Target Symbol\n", "--no-branch-stack"),
        (heading() + COLUMNS + "    50.00% 100 web [.] main\n", "line 7 of perf report is no row"),
        (heading() + COLUMNS + "    50.00%  100  web  [.] main\n    20.00% 40 web [.] f\n", "line 8 .* is no row"),
        (heading() + COLUMNS + "    50.00%  100  web  [.] main\nsome words\n", "line 8 .* is no row .*'some words'"),
        (heading() + COLUMNS + "    50.00%  100  web  [.] main\n" * 3, "some count twice"),
        (heading() + "# Overhead,Shared Object,Symbol\n23,02%,web,[.] main\n", "line 7 of perf report is no row"),
        ("# Samples: 3921378\n#\n" + COLUMNS, "names no event"),
        ("#\n# (1234 samples)\n#\n" + COLUMNS, "line 2 .* names no event"),
        ("    50.00%  web  [.] main\n", "line 1 of perf report stands before the name of an event"),
        ("# Samples: 6K of events 'anon group { cycles, instructions }'\n", "--no-group"),
    ],
)
def test_what_is_no_such_report_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceMalformed, match=words):
        perf_report.parse(text)


@pytest.mark.skipif(not SAMPLE.exists(), reason="real reports are not beside this checkout, in ../shared/samples")
def test_a_real_report_of_two_events() -> None:
    profile = perf_report.parse(SAMPLE.read_text()).profile
    assert {place.event for place in profile} == {"cache-references", "cache-misses"}
    hottest = max((hits.samples, place) for place, hits in profile.items() if place.event == "cache-misses")
    assert hottest[1][1:4] == ("demo", "start_routine2", "user")
    assert hottest[0] == round(0.2924 * 159_000)
