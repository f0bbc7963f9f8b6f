"""What the clients count can be compared with what sensors count."""

from __future__ import annotations

from alerts.generator.histograms import sensors_histogram
from lab.clients.metrics import DURATION_EDGES, LATE_SECONDS, LATENESS_EDGES
from tools.programs import CHECKOUT


def test_clients_and_sensors_have_the_same_buckets() -> None:
    script = CHECKOUT / "telegraf" / "access_log.pl"
    assert sensors_histogram(script.read_text(), script.name).edges == DURATION_EDGES


def test_late_starts_can_be_counted() -> None:
    assert LATE_SECONDS in LATENESS_EDGES
