"""Reports as opreport prints them, by its own source: columns of classes, names with blanks, frames, wrapped lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profile_import import opreport, reports
from profile_import.opreport import Counted
from virtscope.perf.profile import NO_SYMBOL, OTHER
from virtscope.toolkit.collect import SourceMalformed

SAMPLES = Path(__file__).resolve().parents[4] / "shared/samples/oprofile"

CPU = "CPU: Core 2, speed 2400 MHz (estimated)\n"
MISSES = "Counted LLC_MISSES events (L2 cache misses (demand)) with a unit mask of 0x41 (No unit mask) count 6000\n"
REFERENCES = "Counted LLC_REFS events (L2 references) with a unit mask of 0x4f (No unit mask) count 10000\n"


def counts(text: str, *events: Counted) -> dict[tuple[str, str, str], int]:
    """Return the samples by event, image and symbol."""
    profile = opreport.parse(text, events)
    return {(place.event, place.image, place.symbol): hits.samples for place, hits in profile.items()}


def test_two_events_side_by_side() -> None:
    text = (
        CPU + MISSES + REFERENCES + "samples  %        samples  %        app name                 symbol name\n"
        "60       60.0000  50       5.0000   vmlinux-2.6.18           copy_page\n"
        "40       40.0000  950      95.0000  apache2                  ap_process_request\n"
    )
    assert counts(text) == {
        ("LLC_MISSES", "vmlinux-2.6.18", "copy_page"): 60,
        ("LLC_REFS", "vmlinux-2.6.18", "copy_page"): 50,
        ("LLC_MISSES", "apache2", "ap_process_request"): 40,
        ("LLC_REFS", "apache2", "ap_process_request"): 950,
    }
    events = {(place.event, place.symbol): hits.events for place, hits in opreport.parse(text).items()}
    assert events["LLC_MISSES", "copy_page"] == 60 * 6000
    assert events["LLC_REFS", "ap_process_request"] == 950 * 10000


@pytest.mark.parametrize(
    "classes",
    ["Processes with a thread ID of 0\nProcesses with a thread ID of 463\n", "Samples on CPU 0\nSamples on CPU 1\n"],
)
def test_classes_of_one_event_are_added_up(classes: str) -> None:
    text = (
        CPU + MISSES + classes + "samples  %        samples  %        image name               app name"
        "                 symbol name\n"
        "32       91.4286  15       93.7500  libc-2.7.so              bash                     memcpy\n"
        "3        8.5714   0              0  libc-2.7.so              as                       memcpy\n"
    )
    assert counts(text) == {("LLC_MISSES", "libc-2.7.so", "memcpy"): 50}


def test_classes_that_are_unit_masks_of_one_event_stay_apart() -> None:
    text = (
        CPU + "Counted BSQ events (cache references) with a unit mask of 0x3f (multiple flags) count 3000\n"
        "Samples matching a unit mask of 0x3f\nSamples matching a unit mask of 0x200\n"
        "samples  %        samples  %        symbol name\n"
        "90       90.0000  8        80.0000  copy_page\n"
    )
    assert counts(text) == {("BSQ:0x3f", "", "copy_page"): 90, ("BSQ:0x200", "", "copy_page"): 8}


def test_one_event_counted_twice_with_two_unit_masks() -> None:
    event = "Counted BSQ events (cache references seen by the bus\nunit) with a unit mask of {} (x) count 3000\n"
    text = (
        CPU
        + event.format("0x3f")
        + event.format("0x200")
        + (
            "samples  %        samples  %        app name                 symbol name\n"
            "83       5.8039   177      1.1283   vmlinux                 \njournal_dirty_metadata\n"
            "57       4.0127   348      2.2183   vmlinux                  do_wp_page\n"
        )
    )
    assert counts(text) == {
        ("BSQ:0x3f", "vmlinux", "journal_dirty_metadata"): 83,
        ("BSQ:0x200", "vmlinux", "journal_dirty_metadata"): 177,
        ("BSQ:0x3f", "vmlinux", "do_wp_page"): 57,
        ("BSQ:0x200", "vmlinux", "do_wp_page"): 348,
    }


def test_one_event_counted_twice_with_two_periods() -> None:
    event = "Counted BSQ events (cache references) with a unit mask of 0x3f (x) count {}\n"
    text = (
        CPU + event.format(3000) + event.format(6000) + "samples  %  samples  %  symbol name\n8  1.0  4  1.0  memcpy\n"
    )
    profile = opreport.parse(text)
    assert {place.event: tuple(hits) for place, hits in profile.items()} == {
        "BSQ:0x3f:3000": (8, 24000),
        "BSQ:0x3f:6000": (4, 24000),
    }


def test_the_timer_where_the_processor_has_no_counters() -> None:
    text = (
        "CPU: CPU with timer interrupt, speed 0 MHz (estimated)\nProfiling through timer interrupt\n"
        "samples  %        symbol name\n100      100.000  default_idle\n"
    )
    assert counts(text) == {("timer", "", "default_idle"): 100}


def test_domains_watched_from_outside() -> None:
    text = (
        "     538 12.7973     11947 10.1256 domain2-apps\n"
        "      25  0.5947      3862  3.2732 domain13-xen\n"
        "       3  0.0714         9  0.0076 domain2-kernel\n"
        "       2  0.0476        65  0.0551 domain13-modules\n"
        "       0       0        47  0.0398 domain2-xen-unknown\n"
    )
    profile = opreport.parse(text, [Counted("LLC_MISSES", 6000), Counted("LLC_REFS", None)])
    found = {(place.event, place.space, place.domain): tuple(hits) for place, hits in profile.items()}
    assert found == {
        ("LLC_MISSES", "user", "2"): (538, 538 * 6000),
        ("LLC_REFS", "user", "2"): (11947, None),
        ("LLC_MISSES", "hypervisor", "13"): (25, 25 * 6000),
        ("LLC_REFS", "hypervisor", "13"): (3862, None),
        ("LLC_MISSES", "kernel", "2"): (3, 3 * 6000),
        ("LLC_REFS", "kernel", "2"): (9, None),
        ("LLC_MISSES", "kernel", "13"): (2, 2 * 6000),
        ("LLC_REFS", "kernel", "13"): (65, None),
        ("LLC_REFS", "hypervisor", "2"): (47, None),
    }


@pytest.mark.parametrize(
    ("image", "space"),
    [
        ("xen-syms-2.6.18-53.1.14.el5.debug", "hypervisor"),
        ("vmlinux", "kernel"),
        ("vmlinux-2.6.24", "kernel"),
        ("no-vmlinux", "kernel"),
        ("/lib/modules/2.6.18/kernel/drivers/ata/ahci.ko", "kernel"),
        ("libc-2.7.so", ""),
        ("xenstored", ""),
    ],
)
def test_an_images_space_as_far_as_its_name_shows_it(image: str, space: str) -> None:
    text = CPU + MISSES + f"samples  %        app name                 symbol name\n7        1.0000   {image}  main\n"
    assert [place.space for place in opreport.parse(text)] == [space]


def test_names_with_blanks() -> None:
    anon = "anon (tgid:7826 range:0xb577f000-0xb57ff000)"
    text = (
        CPU
        + MISSES
        + (
            "samples  %        app name                 symbol name\n"
            f"386      20.6860  {anon} {anon}\n"
            "48       26.1522  rbx                      rubinius::interpreter(rubinius::State*, Frame* const)\n"
            "8        2.1522   libstdc++-and-its-very-long-name.so.6 std::map<int, long>::at(int const&) const\n"
            "2        1.1522   libfoo.so                (no symbols)\n"
        )
    )
    assert counts(text) == {
        ("LLC_MISSES", "anon", NO_SYMBOL): 386,
        ("LLC_MISSES", "rbx", "rubinius::interpreter(rubinius::State*, Frame* const)"): 48,
        ("LLC_MISSES", "libstdc++-and-its-very-long-name.so.6", "std::map<int, long>::at(int const&) const"): 8,
        ("LLC_MISSES", "libfoo.so", NO_SYMBOL): 2,
    }


@pytest.mark.parametrize(
    ("header", "numbers"),
    [
        ("vma      samples  %        ", "c0123456 12       1.0000   "),
        ("vma      samples  %        ", "ffffffff80123456 12       1.0000   "),
        ("samples  cum. samples  %        cum. %     ", "12       112           1.0000   51.0000    "),
        ("samples  %        linenr info                 ", "12       1.0e-04  memcpy.c:12                 "),
        ("samples  %        linenr info                 ", "12       1.0000   (no location information)   "),
        ("vma      samples  %        linenr info                 ", "c0123456 12       nan      /a/b/c.c:7 "),
    ],
)
def test_columns_beside_the_samples(header: str, numbers: str) -> None:
    names = "image name               app name                 symbol name\n"
    text = CPU + MISSES + header + names + numbers + "libc-2.7.so              bash                     memcpy\n"
    assert counts(text) == {("LLC_MISSES", "libc-2.7.so", "memcpy"): 12}


def test_addresses_below_a_symbol_are_in_its_sum() -> None:
    text = (
        CPU
        + MISSES
        + (
            "vma      samples  %        app name                 symbol name\n"
            "c0123456 12       100.000  vmlinux                  memcpy\n"
            "  c0123456 5        41.6667\n"
            "  c0123459 7        58.3333\n"
        )
    )
    assert counts(text) == {("LLC_MISSES", "vmlinux", "memcpy"): 12}


def test_a_row_with_a_name_behind_its_place_in_the_source_is_a_symbols() -> None:
    """Also if the name looks like such a place."""
    columns = opreport._Columns(["vma", "samples", "%", "linenr info", "symbol name"], re.compile(""), symbols=True)
    rows = [opreport._Row(number, "", (), (), name) for number, name in enumerate(["a.c:1 f", "a.c:2", "a.c:3 g:4"])]
    assert opreport._without_details(rows, columns) == [rows[0], rows[2]]


def test_a_row_is_set_in_by_its_first_number() -> None:
    narrow, wide, set_in = (
        opreport._Row(1, line, (), (), "") for line in (" 12 9.0000 x", " 12 10.0000 x", "  12 9.0000 x")
    )
    assert set_in.ends_right_of(narrow)
    assert not wide.ends_right_of(narrow)


def test_an_application_is_the_sum_of_its_images() -> None:
    text = (
        CPU
        + MISSES
        + REFERENCES
        + (
            "LLC_MISSES:6000|  LLC_REFS:10000|\n  samples|      %|  samples|      %|\n"
            "------------------------------------\n"
            "       100 66.6667       900 90.0000 bash\n"
            "\tLLC_MISSES:6000|  LLC_REFS:10000|\n\t  samples|      %|  samples|      %|\n"
            "\t------------------------------------\n"
            "\t       60 60.0000       300 33.3333 libc-2.7.so\n"
            "\t       40 40.0000       600 66.6667 bash\n"
            "        50 33.3333       100 10.0000 a program\n"
        )
    )
    assert counts(text) == {
        ("LLC_MISSES", "libc-2.7.so", NO_SYMBOL): 60,
        ("LLC_REFS", "libc-2.7.so", NO_SYMBOL): 300,
        ("LLC_MISSES", "bash", NO_SYMBOL): 40,
        ("LLC_REFS", "bash", NO_SYMBOL): 600,
        ("LLC_MISSES", "a program", NO_SYMBOL): 50,
        ("LLC_REFS", "a program", NO_SYMBOL): 100,
    }


NESTED = (
    "LLC_MISSES:6000|  LLC_REFS:10000|\n  samples|      %|  samples|      %|\n"
    "------------------------------------\n"
    "      1000 66.6667       900 90.0000 cc1\n"
    "\tLLC_MISSES:6000|  LLC_REFS:10000|\n\t  samples|      %|  samples|      %|\n"
    "\t------------------------------------\n"
    "\t      600 60.0000       300 33.3333 libc-2.7.so\n"
    "\t      400 40.0000       600 66.6667 cc1\n"
    "       50 33.3333       100 10.0000 vmlinux\n"
)
APART = {"libc-2.7.so": 600, "cc1": 400, "vmlinux": 50}


@pytest.mark.parametrize("tab", ["\t", "        ", "    ", "  ", "\u00a0   \u00a0"])
@pytest.mark.parametrize("before", ["", "    ", "> "])
def test_an_applications_images_count_once_whatever_became_of_the_tab(tab: str, before: str) -> None:
    """Web pages and mails put blanks in its place; counted twice, cc1 alone would have more than there is."""
    text = "".join(before + line for line in (CPU + MISSES + REFERENCES + NESTED).splitlines(keepends=True))
    found = reports.parse("opreport", [text.replace("\t", tab)])
    assert {place.image: hits.samples for place, hits in found.items() if place.event == "LLC_MISSES"} == APART


def test_an_applications_images_count_once_with_no_blanks_before_any_line() -> None:
    text = "\n".join(line.strip() for line in (CPU + MISSES + REFERENCES + NESTED).splitlines())
    found = counts(text)
    assert {image: samples for (event, image, _), samples in found.items() if event == "LLC_MISSES"} == APART


def test_an_applications_images_below_no_titles() -> None:
    text = (
        "  506605 54.0125 cc1plus\n       450385 88.9026 cc1plus\n        56220 11.0974 vmlinux\n   60213 6.4198 lyx\n"
    )
    found = opreport.parse(text, [Counted("CYCLES", None)])
    assert {(place.image, hits.samples) for place, hits in found.items()} == {
        ("cc1plus", 450385),
        ("vmlinux", 56220),
        ("lyx", 60213),
    }


def test_what_was_cut_off_below_an_application_is_in_its_count() -> None:
    text = (
        "  506605 54.0125 cc1plus\n        450385 88.9026 cc1plus\n          ...\n   163209 17.4008 lyx\n"
        "         60213 36.8932 lyx\n         ...\n...\n"
    )
    profile = opreport.parse(text, [Counted("CYCLES", 100)])
    assert {place.image: hits.samples for place, hits in profile.items()} == {
        "cc1plus": 450385,
        "lyx": 60213,
        OTHER: 506605 - 450385 + 163209 - 60213,
    }


def test_a_list_whose_first_line_lost_its_blanks_is_no_application_with_images() -> None:
    text = "506605 54.0125 cc1plus\n   163209 17.4008 lyx\n    60213  6.4197 bash\n"
    profile = opreport.parse(text, [Counted("CYCLES", None)])
    assert sum(hits.samples for hits in profile.values()) == 506605 + 163209 + 60213


def test_rows_wrapped_between_their_numbers() -> None:
    text = (
        CPU
        + MISSES
        + REFERENCES
        + NESTED.replace(" 90.0000 cc1", "\n90.0000 cc1").replace(" 33.3333 lib", "\n33.3333 lib")
    )
    assert counts(text) == counts(CPU + MISSES + REFERENCES + NESTED)


@pytest.mark.parametrize(
    ("preamble", "event", "period"),
    [
        ("Counted A events (x) with a unit mask of 0x00 (No unit mask) count 10\n0000\n", "A", 100000),
        ("Counted A events (x) with a unit mask of 0x00 (No unit mask) count\n100000\n", "A", 100000),
        ("Counted A events (x) with a unit mask of 0x\n00 (No unit mask) count 5000\n", "A", 5000),
        (
            "Counted CPU_CLK_UNHAL\nTED events (count 7 of\n3) with a unit mask of 0x00 (y) count 500\n",
            "CPU_CLK_UNHALTED",
            500,
        ),
        ("Counted cpu_clk_unhalted events () with a unit mask of 0x00 (Core\ncycles) count 9\n", "cpu_clk_unhalted", 9),
    ],
)
def test_a_wrapped_preamble(preamble: str, event: str, period: int) -> None:
    profile = opreport.parse(CPU + preamble + "samples  %        symbol name\n8        100.000  memcpy\n")
    assert {place.event: hits for place, hits in profile.items()} == {event: (8, 8 * period)}


def test_a_line_of_dots_is_no_part_of_a_name() -> None:
    text = HEADER + "7        70.0000  memcpy\n.        .        .\n2        20.0000  memset\n  ...\n"
    assert counts(text) == {("LLC_MISSES", "", "memcpy"): 7, ("LLC_MISSES", "", "memset"): 2}


@pytest.mark.parametrize(
    ("names", "image", "symbol"),
    [
        ("no-vmlinux               no-vmlinux               /no-vmlinux", "no-vmlinux", NO_SYMBOL),
        ("(deleted) /home/me/a.out (deleted) /home/me/a.out main", "a.out", "main"),
        ("(deleted) /home/me/a.out  a.out  (deleted) /home/me/a.out", "a.out", NO_SYMBOL),
        ("/home/me/a.out           /home/me/a.out           /home/me/a.out", "a.out", NO_SYMBOL),
        ("[heap] (tgid:1 range:0x1-0x2) java [heap] (tgid:1 range:0x1-0x2)", "[heap]", NO_SYMBOL),
        ("7635.jo                  java                     void test.f(int, int)", "[JIT]", "void test.f(int, int)"),
    ],
)
def test_no_folder_process_or_address_becomes_a_name(names: str, image: str, symbol: str) -> None:
    text = (
        CPU
        + MISSES
        + "samples  %        image name               app name                 symbol name\n"
        + f"7        1.0000   {names}\n"
    )
    assert counts(text) == {("LLC_MISSES", image, symbol): 7}


def test_long_names_of_files_are_those_without_their_folders() -> None:
    text = (
        CPU
        + MISSES
        + (
            "samples  %        image name               app name                 symbol name\n"
            "7        1.0000   /usr/lib/debug/lib/libc-2.7.so /usr/lib/apache2/mpm-prefork/apache2 memcpy\n"
        )
    )
    assert counts(text) == {("LLC_MISSES", "libc-2.7.so", "memcpy"): 7}


def test_a_report_in_a_mail_is_indented_and_has_carriage_returns() -> None:
    text = "".join(
        f"    {line}\r\n"
        for line in [CPU.strip(), MISSES.strip(), "samples  %        symbol name", "7        1.0000   memcpy"]
    )
    assert counts(text) == {("LLC_MISSES", "", "memcpy"): 7}


HEADER = CPU + MISSES + "samples  %        symbol name\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows"),
        ("hello\nworld\n", "no rows"),
        (HEADER, "no rows"),
        ("7        1.0000   memcpy\n", "name them in the columns' order"),
        (CPU + MISSES + REFERENCES + "samples  %  symbol name\n7  1.0  memcpy\n", "rows have 1 counts"),
        (
            HEADER + "7        1.0000   memcpy\n" + "no row\n" * 100_000,
            "line 5 of opreport is no row, and belongs to none: 'no row'",
        ),
        (CPU + MISSES + "samples  %  samples  %  symbol name\n7  1.0  7  1.0  memcpy\n8  1.0  memset\n", "too few"),
        (HEADER + "7        1.0000   memcpy\n" + "-" * 79 + "\n  7   1.0000   memcpy [self]\n", "call graph"),
        (
            HEADER + "7        1.0000   a\n" + CPU + MISSES + "samples  %  symbol name\n5  1.0  b\n",
            "line 5 .* second report",
        ),
        (HEADER + "7        1.0000   a\n\n" + "samples  %        symbol name\n5  1.0  b\n", "line 6 .* second report"),
        (HEADER + "7        1.0000   memcpy\n\nBest regards\n", "line 6 of opreport is no row, .*'Best regards'"),
        (HEADER + "7        1.0000   memcpy\n\x07bell\n", r"\\x07bell"),
        (HEADER + "7 samples  1,0000   memcpy\n", "line 4 of opreport is no row"),
        ("  100 50.0000 a\n         30 30.0000 b\n   100 50.0000 c\n", "names 0 events"),
        (CPU + MISSES + "samples  symbol name\n8  1  2\n", "line 3 .* names columns that opreport has not"),
        (CPU + MISSES + "samples|  %|\nx|\nsamples|  %|\n7  1.0  a\n", "line 5 .* names columns again"),
        ("<?xml version='1.0'?>\n<profile></profile>", "XML"),
        (CPU + MISSES + "samples  %        diff %    symbol name\n7        1.0000   +50.0000  memcpy\n", "difference"),
    ],
)
def test_what_is_no_such_report_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceMalformed, match=words):
        opreport.parse(text)


needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the recordings of real hosts are not beside this checkout, in ../shared/samples"
)


@needs_samples
def test_a_real_xenoprof_by_hand() -> None:
    """Worked by hand: of domain 2's 23436 references to the cache 954 missed it."""
    text = (SAMPLES / "xenoprof-passive-domains-llc-2events-image-only.txt").read_text()
    profile = opreport.parse(text, [Counted("misses", None), Counted("references", None)])

    def of_domain_2(event: str) -> int:
        return sum(hits.samples for place, hits in profile.items() if (place.event, place.domain) == (event, "2"))

    assert (of_domain_2("misses"), of_domain_2("references")) == (954, 23436)


@needs_samples
@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.txt")), ids=lambda file: file.stem)
def test_real_reports_are_read_to_the_last_row(file: Path) -> None:
    rows = [line for line in file.read_text().splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    columns = 2 if "xenoprof" in file.name else 1
    events = [] if "Counted" in file.read_text() else [Counted(f"event{number}", None) for number in range(columns)]
    total = sum(hits.samples for hits in opreport.parse(file.read_text(), events).values())
    every = sum(int(word) for row in rows for word in row.split()[:6:2] if word.isdigit())
    assert total == every


def test_unnamed_columns_are_not_taken_for_one_event() -> None:
    """Two events that were added up would be a number of nothing."""
    with pytest.raises(SourceMalformed, match="rows have 2 counts"):
        opreport.parse("538 12.7973     11947 10.1256 domain2-apps\n", [Counted("LLC_MISSES", 6000)])


def test_images_that_are_not_their_applications_sum_are_refused() -> None:
    text = "  100 50.0000 cc1\n         30 10.0000 libc\n         20 5.0000 cc1\n  100 50.0000 sh\n"
    with pytest.raises(SourceMalformed, match="line 1 of opreport is neither the sum of the rows below it"):
        opreport.parse(text, [Counted("CYCLES", None)])


def test_more_samples_than_there_are_by_their_percentages_are_refused() -> None:
    """As where no blank tells an application's images from other applications."""
    text = "1000 80.0000 cc1\n600 60.0000 libc\n400 40.0000 cc1\n250 20.0000 sh\n"
    with pytest.raises(SourceMalformed, match=r"2250 samples together, of which .* 1250 at most"):
        opreport.parse(text, [Counted("CYCLES", None)])
