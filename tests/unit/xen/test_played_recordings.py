"""A minute of a real Xen 4.17, played through the exporter's own code, against values worked out by hand.

tests/xen/recordings/README.md says what happened in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.replay import Playback
from virtscope.xen.exporter import replayed

RECORDINGS = Path(__file__).resolve().parents[2] / "xen/recordings"


class Played:
    """A recording that stands still at one moment until it is put forward."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._now = 0.0
        playback = Playback(RECORDINGS / name, "xentop", speed=1, once=False, clock=lambda: self._now)
        self._sources = {source.name: source for source in replayed(playback)}
        self._host = "libxenstat" if "libxenstat" in self._sources else "xentop"
        self.samples = self._read(self._host)  # the first read begins the play

    def at(self, seconds: float) -> None:
        """Goes to this second, reading on the way as scrapes would."""
        while self._now < seconds:
            self._now = min(self._now + 1, seconds)
            self._read("xl")
            self.samples = self._read(self._host)

    def _read(self, source: str) -> list[Sample]:
        try:
            families = self._sources[source].read()
        except SourceError:  # neither xl nor xentop had said anything yet when the recording began
            return []
        return [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        [sample] = [each for each in self.samples if each.name == name and labels.items() <= each.labels.items()]
        return sample.value

    def names(self) -> set[str]:
        return {sample.labels["domain"] for sample in self.samples if sample.name == "xen_domain_vcpus"}

    def states(self, domain: str) -> set[str]:
        of_domain = [
            each for each in self.samples if each.name == "xen_domain_state" and each.labels["domain"] == domain
        ]
        return {sample.labels["state"] for sample in of_domain if sample.value}


@pytest.fixture(params=["libxenstat", "xentop"])
def played(request: pytest.FixtureRequest) -> Played:
    return Played(f"lifecycle-{request.param}.jsonl.gz")


def test_a_guest_comes_and_goes(played: Played) -> None:
    seen = {}
    for second in (4.5, 12.5, 25, 39, 43):
        played.at(second)
        seen[second] = "guest to go" in played.names()
    assert seen == {4.5: False, 12.5: True, 25: True, 39: True, 43: False}


def test_a_paused_guests_values_stand_still(played: Played) -> None:
    for second in (31, 35):
        played.at(second)
        assert played.states("busy") == {"paused"}
        # 31.350994530 s; Dom0's interface received what the guest sent.
        assert int(played.value("xen_domain_cpu_seconds_total", domain="busy")) == 31
        assert played.value("xen_domain_network_transmit_bytes_total", domain="busy") == 174388
    played.at(45)
    assert "paused" not in played.states("busy")


def test_memory_limits_of_guests_and_weights_and_caps_that_change(played: Played) -> None:
    played.at(21)
    assert played.value("xen_domain_scheduler_weight", domain="busy") == 256
    assert not [each for each in played.samples if each.name == "xen_domain_cpu_limit_cpus"]
    played.at(31)
    limits = [each for each in played.samples if each.name == "xen_domain_memory_limit_bytes"]
    assert {sample.labels["domain"]: sample.value for sample in limits} == {
        "busy": 97 << 20,
        "pvh": 97 << 20,
        "guest to go": 81 << 20,
    }
    played.at(36.5)
    assert played.value("xen_domain_scheduler_weight", domain="busy") == 512
    assert played.value("xen_domain_cpu_limit_cpus", domain="busy") == 0.5
    assert played.value("xen_domain_scheduler_changes_total", domain="busy", what="cap") == 1
    assert played.value("xen_domain_scheduler_weight", domain="pvh") == 256


def test_nanoseconds_of_the_library_and_whole_seconds_of_text() -> None:
    library, text = (Played(f"lifecycle-{source}.jsonl.gz") for source in ("libxenstat", "xentop"))
    library.at(28.5)
    text.at(30.5)
    assert library.value("xen_domain_cpu_seconds_total", domain="guest to go") == 7.283228499
    assert text.value("xen_domain_cpu_seconds_total", domain="guest to go") == 7
    assert library.value("xen_domain_cpu_seconds_total", domid="3") == 7.283228499
    assert text.value("xen_domain_cpu_seconds_total", domid="0") == 42


def test_the_second_round_goes_on_where_the_first_one_ended() -> None:
    library = Played("lifecycle-libxenstat.jsonl.gz")
    library.at(59)
    assert library.value("xen_domain_cpu_seconds_total", domain="busy") == 38.835383277
    library.at(60.5)
    assert library.value("xen_domain_cpu_seconds_total", domain="busy") == 38.835383277
    library.at(63)  # 18.187775295 - 16.333388122 later
    assert library.value("xen_domain_cpu_seconds_total", domain="busy") == pytest.approx(40.68977045)


# --- Round and round --------------------------------------------------------------------------------------------------


Series = tuple[str, tuple[tuple[str, str], ...]]


def test_in_each_round_counters_go_on_and_a_guest_that_is_started_begins_from_its_own_start(played: Played) -> None:
    before: dict[Series, float] = {}
    risen = 0
    first_values: dict[Series, list[float]] = {}
    shown: list[set[str]] = []  # metrics of the guest that comes and goes
    for second in range(0, 210, 2):  # three passes and a half
        played.at(second)
        page = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in played.samples}
        for series, value in page.items():
            if series[0].endswith("_total") and series in before:
                assert value >= before[series], series
                risen += value > before[series]
            if series[0] == "xen_domain_cpu_seconds_total" and series not in before:
                first_values.setdefault(series, []).append(value)
        shown.append({each.name for each in played.samples if each.labels.get("domain") == "guest to go"})
        assert {each.labels["replayed"] for each in played.samples} <= {played.name.removesuffix(".jsonl.gz")}
        before = page or before
    assert risen > 100
    (started,) = [values for (_, labels), values in first_values.items() if ("domain", "guest to go") in labels]
    assert started == [0] * 4
    assert [len(values) for (_, labels), values in first_values.items() if ("domain", "Domain-0") in labels] == [1]
    alive = [names for names in shown if names]
    assert 3 <= len(alive) < len(shown)
    assert all("xen_domain_memory_bytes" in names for names in alive), "one that is there has all its series"
