"""A minute of a real Xen 4.17 (tests/xen/recordings), played round and round.

No counter of a guest that is there all along falls; one started in a pass is started in each, and none lives on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Source
from virtscope.xen.exporter import replayed

RECORDINGS = Path(__file__).resolve().parents[2] / "xen/recordings"
PASSES = 3
LONGEST = 35  # readings of a pass
STEP = 2.0  # seconds, as they were recorded

Series = tuple[str, tuple[tuple[str, str], ...]]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pages(source: str) -> Iterator[dict[Series, Sample]]:
    """Give what each scrape shows, over several passes; a scrape that the source failed is left out."""
    clock = Clock()
    playback = Playback(RECORDINGS / f"lifecycle-{source}.jsonl.gz", "xentop", 1, False, clock)
    sources: list[Source] = replayed(playback)
    for _ in range(PASSES * LONGEST):
        page: dict[Series, Sample] = {}
        for each in sources:
            try:
                families = each.read()
            except SourceError:
                continue
            page.update({(s.name, tuple(sorted(s.labels.items()))): s for family in families for s in family.samples})
        if any(name == "xen_host_domains" for name, _ in page):
            yield page
        clock.now += STEP


@pytest.fixture(scope="module", params=["libxenstat", "xentop"])
def played(request: pytest.FixtureRequest) -> list[dict[Series, Sample]]:
    return list(pages(request.param))


def test_no_counter_falls_while_its_domain_is_there_also_where_a_pass_starts_over(
    played: list[dict[Series, Sample]],
) -> None:
    before: dict[Series, Sample] = {}
    risen = 0
    for page in played:
        for series, sample in page.items():
            if sample.name.endswith("_total") and series in before:
                assert sample.value >= before[series].value, series
                risen += sample.value > before[series].value
        before = page
    assert risen > 100


def test_a_guest_that_is_started_in_each_pass_begins_from_its_own_start_in_each(
    played: list[dict[Series, Sample]],
) -> None:
    first_values: dict[Series, list[float]] = {}
    before: dict[Series, Sample] = {}
    for page in played:
        for series, sample in page.items():
            if sample.name == "xen_domain_cpu_seconds_total" and series not in before:
                first_values.setdefault(series, []).append(sample.value)
        before = page
    (started,) = [values for (_, labels), values in first_values.items() if ("domain", "guest to go") in labels]
    assert len(started) >= PASSES
    assert set(started) == {0}
    there = [values for (_, labels), values in first_values.items() if ("domain", "Domain-0") in labels]
    assert [len(values) for values in there] == [1]


def test_a_guest_that_is_gone_has_no_series_and_one_that_is_there_has_all(played: list[dict[Series, Sample]]) -> None:
    shown = [
        {sample.name for sample in page.values() if sample.labels.get("domain") == "guest to go"} for page in played
    ]
    alive = [names for names in shown if names]
    assert PASSES <= len(alive) < len(shown)
    assert all("xen_domain_memory_bytes" in names for names in alive)


def test_every_series_is_marked(played: list[dict[Series, Sample]]) -> None:
    marks = {sample.labels["replayed"] for page in played for sample in page.values()}
    assert marks in ({"lifecycle-libxenstat"}, {"lifecycle-xentop"})
