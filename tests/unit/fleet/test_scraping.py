"""How long the Prometheus of a fleet may wait for a scrape."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fleet import settings
from fleet.parts import prometheus
from fleet.scraping import configuration


def test_a_scrape_times_out_before_the_next_one_begins(tmp_path: Path) -> None:
    """Prometheus refuses a configuration whose timeout is above the interval."""
    for interval, timeout in [("1s", "1s"), ("5s", "3s"), ("15s", "10s"), ("20s", "13s")]:
        chosen = dataclasses.replace(settings.read(), scrape_interval=interval)
        found = configuration(chosen, prometheus(chosen, 0, "a"), tmp_path)["global"]
        assert (found["scrape_interval"], found["scrape_timeout"]) == (interval, timeout)
