"""Whatever a report looks like, an import of it has just the report's own totals."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from profile_import import __main__ as command

LIBRARIES = st.sampled_from(["libc-2.7.so", "cc1", "vmlinux", "a program", "anon (tgid:7 range:0x1-0x2)", "[vdso]"])
SYMBOLS = st.sampled_from(
    [
        "main",
        "memcpy",
        "add",
        "f(int, char)",
        "(anonymous namespace)::g()",
        "[unknown]",
        "0xffffffff81234567",
        "a::b<c>",
    ]
)
COMMANDS = st.sampled_from(["dd", "ab", "bc", "my prog", "kworker/0:1-ev", "a b: c", "12 34", ":99"])
IMAGES = st.sampled_from(
    ["/bin/dd", "[kernel.kallsyms]", "/a b/c (1).so", "/usr/bin/old (deleted)", "[ext4]", "[unknown]"]
)
SEVERAL = st.integers(1, 3)


def imported(kind: str, text: str, *arguments: str) -> tuple[Counter[str], dict[str, float]]:
    """Return what an import adds up to of each event: its samples, and the events that these stand for."""
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "report", Path(folder) / "output"
        report.write_text(text, encoding="utf-8")
        span = ["--begin", "0", "--end", "60"]
        command.main([kind, str(report), "--output", str(output), *span, *arguments])
        exposition = output.read_text(encoding="utf-8")
    samples: Counter[str] = Counter()
    events: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.timestamp is None or float(sample.timestamp) != 60:
                continue
            assert not any(mark in value for value in sample.labels.values() for mark in ("0x", "/", "(deleted)"))
            if sample.name == "perf_profile_samples_total":
                samples[sample.labels["event"]] += round(sample.value)
            else:
                events[sample.labels["event"]] = events.get(sample.labels["event"], 0.0) + sample.value
    return +samples, events


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the rest of the places folded into one."""
    monkeypatch.setattr(command, "_MOST_PLACES", 3)


class Application(NamedTuple):
    """An application and its images, with their counts of each event."""

    name: str
    images: dict[str, list[int]]

    def counts(self) -> list[int]:
        return [sum(column) for column in zip(*self.images.values(), strict=True)]


@st.composite
def applications(draw: st.DrawFn) -> list[Application]:
    width = draw(SEVERAL)
    count = st.integers(0, 10 ** draw(st.sampled_from([1, 4, 9, 11])))
    counts = st.lists(count, min_size=width, max_size=width).filter(any)
    images = st.dictionaries(LIBRARIES, counts, min_size=1, max_size=5)
    names = st.integers(0, 99).map("app{}".format)
    found = draw(st.dictionaries(names, images, min_size=1, max_size=6))
    by_first = sorted(found.items(), key=lambda each: -sum(counts[0] for counts in each[1].values()))
    return [Application(*each) for each in by_first]


def percentage(count: int, total: int) -> str:
    """Return it as format_percent() of libutil++ does."""
    value = 100 * count / total if total else 0.0
    if not value:
        return "      0"
    return (f"{value:7.4f}" if value > 0.001 else f"{value:7.1e}")[:7]


def opreport(found: list[Application], tab: str, headings: bool) -> str:
    """Return what output_summaries() of pp/opreport.cpp prints."""
    width = len(found[0].counts())
    totals = [sum(column) for column in zip(*(each.counts() for each in found), strict=True)]

    def columns(counts: list[int], of: list[int]) -> str:
        return "".join(f"{count:9d} {percentage(count, whole)} " for count, whole in zip(counts, of, strict=True))

    def titles(before: str) -> list[str]:
        return [before + line for line in ("E:1|" * width, "  samples|      %|" * width, "-" * 18 * width)] * headings

    lines = [f"Counted E{n} events (desc) with a unit mask of 0x00 (None) count {n + 2}" for n in range(width)]
    lines += [*titles(""), *([] if headings else ["  samples|      %|" * width])]
    for each in found:
        lines.append(columns(each.counts(), totals) + each.name)
        if len(each.images) > 1:
            lines += titles(tab)
            lines += [tab + columns(counts, each.counts()) + image for image, counts in each.images.items()]
    return "CPU: Core 2, speed 2400 MHz (estimated)\n" + "\n".join(lines) + "\n"


@settings(max_examples=20, deadline=None)
@given(applications(), st.sampled_from(["\t", "        ", "    "]), st.booleans(), st.sampled_from(["", "  ", "> "]))
def test_opreport(found: list[Application], tab: str, headings: bool, before: str) -> None:
    text = "".join(before + line for line in opreport(found, tab, headings).splitlines(keepends=True))
    width = len(found[0].counts())
    due = Counter({f"E{n}": sum(each.counts()[n] for each in found) for n in range(width)})
    samples, events = imported("opreport", text)
    assert samples == +due
    assert {event: count for event, count in events.items() if count} == {
        event: pytest.approx(count * (int(event[1:]) + 2)) for event, count in due.items() if count
    }


class Fallen(NamedTuple):
    """Samples that fell on a symbol."""

    command: str
    image: str
    symbol: str
    periods: list[int]


def fallen() -> st.SearchStrategy[list[Fallen]]:
    periods = st.lists(st.integers(1, 10**9), min_size=1, max_size=4)
    return st.lists(st.builds(Fallen, COMMANDS, IMAGES, SYMBOLS, periods), min_size=1, max_size=12)


CHAINS = st.sampled_from(
    [
        "",
        "            |\n            ---main\n               a\n\n",
        "12.50% a;b\n",
        "           12.50%\n                a\n\n",
        "17 a;b\n",
    ]
)


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["cycles:u", "cycles:k", "faults"]), fallen(), min_size=1),
    st.booleans(),
    st.sampled_from(["", "\t", ";"]),
    CHAINS,
    st.sampled_from([".", ","]),
    st.booleans(),
)
def test_perf_report(  # noqa: PLR0917
    found: dict[str, list[Fallen]], counted: bool, separator: str, chain: str, comma: str, colours: bool
) -> None:
    text = ""
    for event, places in found.items():
        total = sum(sum(each.periods) for each in places)
        text += f"# Samples: {sum(len(each.periods) for each in places)} of event '{event}'\n"
        text += f"# Event count (approx.): {total}\n#\n"
        columns = ["Overhead", *(["Samples", "Period"] * counted), "Command", "Shared Object", "Symbol"]
        rows = []
        for each in places:
            share = f"{100 * sum(each.periods) / total:.2f}%".replace(".", comma)
            share = f"\x1b[31m{share}\x1b[m" if colours else share
            space = "k" if each.image.startswith("[") else "."
            counts = [str(len(each.periods)), str(sum(each.periods))] * counted
            rows.append([share, *counts, each.command, each.image, f"[{space}] {each.symbol}"])
        between = separator or "  "
        text += f"# {between.join(columns)}\n" + "".join(f"    {between.join(row)}\n{chain}" for row in rows) + "\n\n"
    samples, events = imported("perf-report", text)
    alone = len({"cycles:u", "cycles:k"} & set(found)) == 1
    for event, places in found.items():
        name = event.partition(":")[0] if alone else event
        total, rows_ = sum(sum(each.periods) for each in places), len(places)
        slack = 0 if counted else total * 0.00006 * rows_ + rows_
        assert events.get(name, 0) == pytest.approx(total, abs=slack)
        assert samples[name] == len([p for each in places for p in each.periods]) if counted else True


FIELDS = st.sampled_from(
    ["", "     7f354586d408", "     7f354586d408 x+0x1 (/lib/l.so)", " 88000182 |OP LOAD|LVL L1|LCK No 57"]
)


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["cycles:u", "cycles:kp", "faults"]), fallen(), min_size=1),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.sampled_from(["", "\n"]),
    FIELDS,
)
def test_perf_script(
    found: dict[str, list[Fallen]], order: random.Random, chains: bool, between: str, beside: str
) -> None:
    lines = []
    for event, places in found.items():
        for each in places:
            address = "ffffffff81234567" if each.image.startswith("[") else "    55e313912146"
            symbol = "[unknown]" if each.symbol.startswith("0x") else each.symbol + "+0x4"
            frame = f"{address} {symbol} ({each.image})\n"
            frames = (
                f"\n\t{address} inner+0x1 (inlined)\n\t{frame}\t{address} main+0x1 (/bin/x)\n{between}"
                if chains
                else f" {frame}"
            )
            lines += [
                f"{each.command:>16} 4711 [001] 12.500000: {period:10d} {event}: {beside}{frames}"
                for period in each.periods
            ]
    order.shuffle(lines)
    samples, events = imported("perf-script", "".join(lines))
    alone = len({"cycles:u", "cycles:kp"} & set(found)) == 1
    for event, places in found.items():
        name = event.partition(":")[0] if alone else event.rstrip("p")
        assert samples[name] == sum(len(each.periods) for each in places)
        assert events[name] == pytest.approx(sum(sum(each.periods) for each in places))
