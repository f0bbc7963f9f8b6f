"""Scrapes, and an exporter's metrics about itself and its process."""

import gzip
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from tests.golden_pages import assert_golden
from tests.support.waiting import wait_for
from virtscope.toolkit import collect, scrape
from virtscope.toolkit.bounded import Commands
from virtscope.toolkit.collect import Background, SourceError, SourceMalformed, SourceUnavailable
from virtscope.toolkit.scrape import Exporter, Source

GOLDEN = Path(__file__).resolve().parents[2] / "golden/every-exporter.prom"


def values(exporter: Exporter) -> dict[str, float]:
    """Scrape; return the value of each series by name and label values: "demo_source_up good"."""
    text = exporter.scrape(30).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {" ".join([sample.name, *sorted(sample.labels.values())]): sample.value for sample in samples}


def giving() -> list[Metric]:
    return [GaugeMetricFamily("value", "A value.", 1)]


def raising(*errors: Exception) -> Callable[[], list[Metric]]:
    """A read that raises these errors in turn, and the last one forever."""
    left = list(errors)

    def read() -> list[Metric]:
        raise left.pop(0) if len(left) > 1 else left[0]

    return read


GOOD = Source("good", giving, lambda: "here")


class Counted:
    """An exporter with a source that counts its reads and another that always works; each read waits for `let`."""

    def __init__(self) -> None:
        self.reads = 0
        self.let = threading.Event()
        self.let.set()
        self.exporter = Exporter("demo", [Source("counted", self._read, lambda: "here"), GOOD])

    def _read(self) -> list[Metric]:
        self.reads += 1
        self.let.wait(60)
        return [GaugeMetricFamily("reads", "Reads.", self.reads)]

    def scrape(self, seconds: float = 60, *, shared: bool = True) -> str:
        return self.exporter.scrape(seconds, shared=shared).decode()


def test_scrapes_that_come_together_share_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """One scrape is being read, the others wait for the read after it: two reads and two pages in memory.

    A read only begins when the previous pages are written.
    """
    monkeypatch.setattr(scrape, "MAX_HELD_BACK_SECONDS", 30.0)
    counted = Counted()
    exporter = counted.exporter
    writing, let = threading.Event(), threading.Event()
    encode = exporter._encode

    def write(*arguments: object, **named: object) -> bytes:
        writing.set()
        assert let.wait(30)
        return encode(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(exporter, "_encode", write)
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(exporter.scrape, 30)
        assert writing.wait(30)
        others = [pool.submit(exporter.scrape, 30) for _ in range(19)]
        wait_for(lambda: exporter._newest and exporter._newest.waiting == 19)
        assert counted.reads == 1
        let.set()
        pages = {id(scrape.result(60)): scrape.result() for scrape in (first, *others)}
    assert len(pages) == counted.reads == 2


def test_what_comes_in_the_same_moment_has_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that don't share, such as repeated curl calls, get their own values."""
    monkeypatch.setattr(scrape, "MOMENT_SECONDS", 3600.0)
    counted = Counted()
    first = counted.scrape()
    assert counted.scrape() == first
    assert "\nreads 1.0\n" in gzip.decompress(counted.exporter.scrape(60, gzipped=True, shared=True)).decode()
    for turn in ("2", "3"):
        assert f"\nreads {turn}.0\n" in counted.scrape(shared=False)
    monkeypatch.setattr(scrape, "MOMENT_SECONDS", 0.0)
    assert "\nreads 4.0\n" in counted.scrape()


def test_a_short_timeout_decides_only_its_own_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "MOMENT_SECONDS", 3600.0)
    counted = Counted()
    counted.let.clear()
    pages = [counted.exporter.scrape(0.2, shared=True) for _ in range(2)]
    assert pages[0] is pages[1], "those who miss the same sources share a page"
    impatient = [page.decode() for page in pages]
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(counted.scrape)
        wait_for(lambda: counted.exporter._under_way)
        impatient += [counted.scrape(seconds=0.2, shared=shared) for shared in (True, False)]
        assert not patient.done()
        assert counted.reads == 1
        counted.let.set()
        assert "\nreads 1.0\n" in patient.result(60)
    for page in impatient:
        assert "\nreads " not in page
        assert "\nvalue 1.0\n" in page
        assert '\ndemo_source_up{source="counted"} 0.0\n' in page
    assert '\ndemo_source_up{source="counted"} 1.0\n' in patient.result()


def test_a_scrape_waits_for_others_a_quarter_of_its_time_and_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = Exporter("demo", [GOOD])
    held_back: list[float] = []
    monkeypatch.setattr(exporter._rounds, "wait_for", lambda _, timeout: held_back.append(timeout))
    for seconds in (2.0, 0.4, 30.0):
        exporter.scrape(seconds)
    assert held_back == [0.5, 0.1, 1.0]


def test_a_source_that_fails_or_is_required_and_missing_is_down_and_any_other_absent_one_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    absent = SourceUnavailable("this Xen has none")
    exporter = Exporter("demo", [GOOD, Source("extra", raising(absent), str, required=False)])
    for _ in range(3):
        series = values(exporter)
    names = ["up", "source_up good", "source_info absent: this Xen has none extra"]
    names.append("source_errors_total extra unavailable")
    assert [series[f"demo_{name}"] for name in names] == [1, 1, 1, 0]
    assert "demo_source_up extra" not in series
    assert [record.levelname for record in caplog.records if "absent" in record.message] == ["INFO"]
    for error, required, reason in ((absent, True, "main unavailable"), (SourceError("status 1"), False, "error main")):
        series = values(Exporter("demo", [GOOD, Source("main", raising(error), str, required=required)]))
        assert (series["demo_up"], series["demo_source_up main"]) == (0, 0), reason
        assert series[f"demo_source_errors_total {reason}"] == 1


def test_a_failure_is_logged_when_its_reason_changes(caplog: pytest.LogCaptureFixture) -> None:
    read = raising(SourceError("status 1"), SourceError("status 2"), SourceMalformed("what?"))
    exporter = Exporter("demo", [Source("main", read, str)])
    for said in (["status 1"], [], ["what?"], []):
        caplog.clear()
        exporter.scrape(30)
        assert [record.__dict__["fields"]["err"] for record in caplog.records] == said


def test_what_scrapes_cost_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each clock access takes a second here: a read uses both clocks, and writing uses the CPU clock."""
    for module in (collect, scrape):
        clocks = SimpleNamespace(monotonic=count(1000.0).__next__, thread_time=count(100.0).__next__)
        monkeypatch.setattr(module, "time", clocks)
    exporter = Exporter("demo", [GOOD], target="xen1")  # read in the scrape's own thread
    for before in range(3):
        series = values(exporter)
        assert series["demo_encode_seconds_total"] == before
        for metric in ("reads", "seconds", "cpu_seconds"):
            assert series[f"demo_source_{metric}_total good"] == before + 1


def test_a_source_in_the_background_has_its_age_and_failures_and_costs_what_it_does_there_and_in_scrapes() -> None:
    """The golden page has the names, labels and help of these metrics; here are the values."""
    programs = Commands(60)

    def read() -> None:
        programs.cpu_seconds = 7.0

    background = Background("slow", read, 600, programs)
    background.start()
    background.wait_for_first(60)
    slow = Source("slow", list, lambda: "a program", background=background)
    exporter = Exporter("demo", [GOOD, slow])
    values(exporter)
    series = values(exporter)
    assert 0 <= series["demo_source_age_seconds slow"] < 60
    assert series["demo_source_reads_total slow"] == 1
    assert 7 <= series["demo_source_cpu_seconds_total slow"] < 60
    assert series["demo_source_background_errors_total slow timeout"] == 0

    exporter = Exporter("every", [slow])
    exporter.certificate_not_after = lambda: 1798416000.0
    page = exporter.scrape(30).decode()
    background.close()
    page = re.sub(r'python="[^"]*"', 'python="VARIES"', re.sub(r"(?m)^([^#].* ).*$", r"\1VARIES", page))
    assert_golden(GOLDEN, page)
