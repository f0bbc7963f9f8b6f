"""A real Xen 4.17's minute, from libxenstat and from xentop, played round and round: nothing falls, nobody lives on.

While it was recorded, a guest called "short lived" came and went, web01 was paused, and db01 was given weight 512 and a
cap of 30 % for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from virtscope.shell.exporter import Source
from virtscope.shell.replay import Playback
from virtscope.shell.sources import SourceError
from virtscope.xentop.wiring import replayed

RECORDINGS = Path(__file__).resolve().parents[2] / "xen/recordings"
PASSES = 3
STEP = 3.0  # seconds, as they were recorded

Series = tuple[str, tuple[tuple[str, str], ...]]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pages(source: str) -> Iterator[dict[Series, Sample]]:
    """Give what each scrape shows, over several passes; a scrape that the source failed is left out."""
    clock = Clock()
    playback = Playback(RECORDINGS / f"{source}-xen-4.17.jsonl.gz", "xentop", 1, False, clock)
    sources: list[Source] = replayed(playback)
    for _ in range(PASSES * 30):
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


def of_guest(page: dict[Series, Sample], name: str, guest: str) -> list[Sample]:
    return [sample for sample in page.values() if sample.name == name and sample.labels["domain"] == guest]


@pytest.fixture(scope="module", params=["libxenstat", "xentop"])
def played(request: pytest.FixtureRequest) -> list[dict[Series, Sample]]:
    return list(pages(request.param))


def test_no_counter_falls_also_where_a_pass_begins_anew(played: list[dict[Series, Sample]]) -> None:
    last: dict[Series, float] = {}
    risen = 0
    for page in played:
        for series, sample in page.items():
            if sample.name.endswith("_total"):
                assert sample.value >= last.get(series, 0), series
                risen += sample.value > last.get(series, 0)
                last[series] = sample.value
    assert risen > 100


def test_a_guest_that_is_gone_has_no_series_and_one_that_comes_has_all(played: list[dict[Series, Sample]]) -> None:
    lives = [bool(of_guest(page, "xen_domain_cpu_seconds_total", "short lived")) for page in played]
    assert 1 < lives.count(True) < len(lives)
    for page, alive in zip(played, lives, strict=True):
        shown = {series[0] for series, sample in page.items() if sample.labels.get("domain") == "short lived"}
        assert ("xen_domain_memory_bytes" in shown) == alive
        assert bool(shown) == alive


def test_what_was_done_to_the_guests_is_seen(played: list[dict[Series, Sample]]) -> None:
    paused = [
        sample.value
        for page in played
        for sample in of_guest(page, "xen_domain_state", "web01")
        if sample.labels["state"] == "paused"
    ]
    assert set(paused) == {0, 1}
    weights = {sample.value for page in played for sample in of_guest(page, "xen_domain_scheduler_weight", "db01")}
    assert weights == {256, 512}
    limits = [sample.value for page in played for sample in of_guest(page, "xen_domain_cpu_limit_cpus", "db01")]
    assert set(limits) == {0.3}


def test_every_series_is_marked(played: list[dict[Series, Sample]]) -> None:
    assert {sample.labels["replayed"] for page in played for sample in page.values()} in (
        {"libxenstat-xen-4.17"},
        {"xentop-xen-4.17"},
    )
