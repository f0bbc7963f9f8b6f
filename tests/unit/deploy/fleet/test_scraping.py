"""Prometheus's scrapes in a fleet: timeouts, and the number of hosts per shard."""

from pathlib import Path

import pytest

from deploy import merge
from deploy.fleet import settings
from deploy.fleet.parts import prometheus
from deploy.fleet.scraping import configuration
from deploy.places import CHECKOUT


def test_a_scrape_times_out_before_the_next_one_begins(tmp_path: Path) -> None:
    """Prometheus refuses a configuration whose timeout exceeds the interval."""
    for interval, timeout in [("1s", "1s"), ("5s", "3s"), ("15s", "10s"), ("20s", "13s")]:
        chosen = settings.read().model_copy(update={"scrape_interval": interval})
        found = configuration(chosen, prometheus(chosen, 0, "a"), tmp_path)["global"]
        assert (found["scrape_interval"], found["scrape_timeout"]) == (interval, timeout)


def test_passwords_are_found_from_the_fleet_s_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = merge.prometheus()
    shipped["scrape_configs"][0]["basic_auth"] = {"username": "prometheus", "password_file": "secrets/password"}
    monkeypatch.setattr(merge, "prometheus", lambda: shipped)
    chosen = settings.read()
    found = configuration(chosen, prometheus(chosen, 0, "a"), CHECKOUT / ".stack/fleet")
    password = found["scrape_configs"][0]["basic_auth"]["password_file"]
    assert password == "../../../prometheus/secrets/password"
