"""Reports as they were saved or pasted: with what terminals, mail programs and web pages put into them."""

from __future__ import annotations

import io

import pytest

from profile_import import reports
from virtscope.toolkit.collect import SourceMalformed

OPREPORT = """CPU: Core 2, speed 2400 MHz (estimated)
Counted LLC_MISSES events (L2 cache misses) with a unit mask of 0x41 (No unit mask) count 6000
samples  %        app name                 symbol name
150      75.0000  vmlinux                  copy_page
50       25.0000  libc-2.7.so              memcpy
"""
PERF_REPORT = """# Samples: 200  of event 'LLC_MISSES:u'
# Event count (approx.): 1200000
#
# Overhead  Samples  Command  Shared Object      Symbol
# ........  .......  .......  .................  ......
#
    75.00%      150  web      [kernel.kallsyms]  [k] copy_page
             |
             |--50.36%-- main
    25.00%       50  web      libc.so.6          [.] memcpy
"""
PERF_SCRIPT = "".join(
    f"web 7 [000] {second}.5:   6000  LLC_MISSES:u:  {frame}\n"
    for second in range(200)
    for frame in [
        "ffffffff81234567 copy_page+0x1 ([kernel.kallsyms])" if second < 150 else "7f47259ad7ad memcpy (/lib/libc.so.6)"
    ]
)
KINDS = [("opreport", OPREPORT), ("perf-report", PERF_REPORT), ("perf-script", PERF_SCRIPT)]


def samples(kind: str, text: str) -> dict[tuple[str, str], int]:
    """Return the samples by event and symbol."""
    profile = reports.parse(kind, io.StringIO(text, newline="\n"))
    return {(place.event, place.symbol): hits.samples for place, hits in profile.items()}


EXPECTED = {("LLC_MISSES", "copy_page"): 150, ("LLC_MISSES", "memcpy"): 50}


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_events_are_named_as_a_live_hosts_are(kind: str, text: str) -> None:
    assert samples(kind, text) == EXPECTED


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_colours_of_a_terminal(kind: str, text: str) -> None:
    assert samples(kind, text.replace("copy_page", "\x1b[31;1mcopy_page\x1b[m\x0f")) == EXPECTED


@pytest.mark.parametrize("blank", ["\u00a0", "\u2007", "\u202f"])
@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_blanks_of_a_web_page(kind: str, text: str, blank: str) -> None:
    assert samples(kind, "\ufeff" + text.replace("  ", f" {blank}").replace("copy_page", "copy_page\u200b")) == EXPECTED


@pytest.mark.parametrize("mark", ["> ", ">", "> > ", ">> "])
@pytest.mark.parametrize(("kind", "text"), KINDS[:2])
def test_lines_that_a_mail_program_quoted(kind: str, text: str, mark: str) -> None:
    quoted = "".join(mark + line for line in text.splitlines(keepends=True))
    assert samples(kind, quoted) == EXPECTED


@pytest.mark.parametrize(("kind", "text"), KINDS[:2])
def test_only_the_marks_before_a_quoted_line_are_taken_off(kind: str, text: str) -> None:
    quoted = "".join("> " + line for line in text.replace("copy_page", "a<b> > c").splitlines(keepends=True))
    assert samples(kind, quoted) == {("LLC_MISSES", "a<b> > c"): 150, ("LLC_MISSES", "memcpy"): 50}


def test_a_few_lines_that_begin_as_quotations_do_are_none() -> None:
    *before, first, second = OPREPORT.splitlines()
    with pytest.raises(SourceMalformed):
        samples("opreport", "\n".join([*before, f"> {first}", f"> {second}", ""]))


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_ends_of_lines_of_windows(kind: str, text: str) -> None:
    assert samples(kind, text.replace("\n", "\r\n")) == EXPECTED


def test_one_event_under_two_modifiers_keeps_them() -> None:
    text = PERF_SCRIPT + PERF_SCRIPT.replace("MISSES:u", "MISSES:k")
    assert {event for event, _ in samples("perf-script", text)} == {"LLC_MISSES:u", "LLC_MISSES:k"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [("opreport", OPREPORT.replace("150 ", "0   ").replace("50 ", "0  ")), ("perf-report", PERF_REPORT[:120])],
)
def test_an_empty_report_is_refused(kind: str, text: str) -> None:
    with pytest.raises(SourceMalformed, match=f"no samples in this {kind}"):
        samples(kind, text)
