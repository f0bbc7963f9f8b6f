"""A minute of a real Xen 4.17, played by the exporter's own code and compared with manually calculated values.

tests/xen/recordings/README.md describes the events in it.
"""

from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.replay import Playback
from virtscope.xen.exporter import replayed

RECORDINGS = Path(__file__).resolve().parents[2] / "xen/recordings"
CPU = "xen_domain_cpu_seconds_total"


class Played:
    """A recording paused at one moment until it is advanced."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._now = 0.0
        self.name = f"lifecycle-{source}"
        playback = Playback(
            RECORDINGS / f"{self.name}.jsonl.gz", "xentop", speed=1, once=False, clock=lambda: self._now
        )
        self._sources = {each.name: each for each in replayed(playback)}
        self.samples = self._read(source)  # the first read starts playback

    def at(self, seconds: float) -> None:
        """Advance to this second, with reads on the way like scrapes."""
        while self._now < seconds:
            self._now = min(self._now + 1, seconds)
            self._read("xl")
            self.samples = self._read(self.source)

    def _read(self, source: str) -> list[Sample]:
        try:
            families = self._sources[source].read()
        except SourceError:  # neither xl nor xentop had answered when the recording started
            return []
        return [sample for family in families for sample in family.samples]

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """The values of a metric's samples with these labels, by another label."""
        found = [each for each in self.samples if each.name == name and labels.items() <= each.labels.items()]
        return {each.labels[label]: each.value for each in found}


@pytest.fixture(params=["libxenstat", "xentop"])
def played(request: pytest.FixtureRequest) -> Played:
    return Played(request.param)


def test_a_guest_comes_and_goes_and_another_one_is_paused_and_capped(played: Played) -> None:
    seen = {}
    for second in (4.5, 12.5, 25, 39, 43):
        played.at(second)
        seen[second] = "guest to go" in played.by("domain", "xen_domain_vcpus")
        if second == 25:
            assert played.by("domain", "xen_domain_scheduler_weight") == dict.fromkeys(
                ("Domain-0", "busy", "pvh", "guest to go"), 256
            )
            assert played.by("domain", "xen_domain_cpu_limit_cpus") == {}
            limits = {"busy": 97 << 20, "pvh": 97 << 20, "guest to go": 81 << 20}
            assert played.by("domain", "xen_domain_memory_limit_bytes") == limits
        if second == 39:
            assert played.by("domain", "xen_domain_cpu_limit_cpus") == {"busy": 0.5}
            assert played.by("domain", "xen_domain_scheduler_changes_total", what="cap")["busy"] == 1
            weights = played.by("domain", "xen_domain_scheduler_weight")
            assert (weights["busy"], weights["pvh"]) == (512, 256)
    assert seen == {4.5: False, 12.5: True, 25: True, 39: True, 43: False}


def test_a_paused_guests_values_stand_still(played: Played) -> None:
    for second in (31, 35, 45):
        played.at(second)
        states = played.by("state", "xen_domain_state", domain="busy")
        assert states["paused"] == (second < 45)
        if second < 45:  # 31.350994530 s; Dom0's interface received the guest's packets
            assert int(played.by("domain", CPU)["busy"]) == 31
            assert played.by("domain", "xen_domain_network_transmit_bytes_total")["busy"] == 174388


def test_nanoseconds_of_the_library_and_whole_seconds_of_text() -> None:
    library, text = Played("libxenstat"), Played("xentop")
    library.at(28.5)
    text.at(30.5)
    assert library.by("domain", CPU, domid="3") == {"guest to go": 7.283228499}
    assert (text.by("domain", CPU)["guest to go"], text.by("domid", CPU)["0"]) == (7, 42)
