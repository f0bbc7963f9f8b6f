"""Reports as opreport prints them, by its own source: columns of classes, names with blanks, frames, wrapped lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtscope.perf.profile import opreport
from virtscope.perf.profile.opreport import Counted
from virtscope.perf.profile.samples import NO_SYMBOL
from virtscope.shell.sources import SourceRubbish

SAMPLES = Path(__file__).resolve().parents[5] / "shared/samples/oprofile"

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
def test_whose_an_image_is_as_far_as_its_name_tells(image: str, space: str) -> None:
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
    ("header", "figures"),
    [
        ("vma      samples  %        ", "c0123456 12       1.0000   "),
        ("vma      samples  %        ", "ffffffff80123456 12       1.0000   "),
        ("samples  cum. samples  %        cum. %     ", "12       112           1.0000   51.0000    "),
        ("samples  %        linenr info                 ", "12       1.0e-04  memcpy.c:12                 "),
        ("samples  %        linenr info                 ", "12       1.0000   (no location information)   "),
        ("vma      samples  %        linenr info                 ", "c0123456 12       nan      /a/b/c.c:7 "),
    ],
)
def test_columns_beside_the_samples(header: str, figures: str) -> None:
    names = "image name               app name                 symbol name\n"
    text = CPU + MISSES + header + names + figures + "libc-2.7.so              bash                     memcpy\n"
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
        ("<?xml version='1.0'?>\n<profile></profile>", "XML"),
        (CPU + MISSES + "samples  %        diff %    symbol name\n7        1.0000   +50.0000  memcpy\n", "difference"),
    ],
)
def test_what_is_no_such_report_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceRubbish, match=words):
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


def test_columns_that_nobody_named_are_not_taken_for_one_event() -> None:
    """Two events that were added up would be a number of nothing."""
    with pytest.raises(SourceRubbish, match="rows have 2 counts"):
        opreport.parse("538 12.7973     11947 10.1256 domain2-apps\n", [Counted("LLC_MISSES", 6000)])
