"""fleet.yml: what it may say, and what is refused, with the offending text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from deploy.fleet import FleetError, settings
from tests.support.refusals import assert_refused

SHIPPED = yaml.safe_load(settings.FILE.read_text())
LACKING = yaml.safe_dump({name: value for name, value in SHIPPED.items() if name != "raw"})


def test_the_shipped_file_is_a_small_fleet_on_this_machine() -> None:
    shipped = settings.read()
    assert (shipped.shards, shipped.receivers, shipped.alertmanagers) == (2, 3, 2)
    assert set(shipped.machines.values()) == {"127.0.0.1"}
    assert shipped.targets.is_dir()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shards": 0}, "shards: 0 is not a number from 1 to 100"),
        ({"shards": True}, "shards: True is not"),
        ({"shards": "two"}, "shards: 'two' is not"),
        ({"receivers": 2}, "receivers: 2 is not a number from 3"),
        ({"store": "influxdb"}, "store: 'influxdb' is not"),
        ({"scrape_interval": "15"}, "scrape_interval: '15' is not a duration"),
        ({"scrape_interval": "500ms"}, "scrape_interval: '500ms' is less than 1s"),
        ({"scrape_interval": "1m30s"}, "scrape_interval: '1m30s' is more than 20s"),
        ({"evaluation_interval": "2m"}, "evaluation_interval: '2m' is more than 60s"),
        ({"evaluation_interval": 60}, "evaluation_interval: 60 is not a duration"),
        ({"retention": "a while"}, "retention: 'a while' is not"),
        ({"machines": {"prometheus": "127.0.0.1"}}, "machines: prometheus is not prometheus, receive"),
        ({"machines": {**SHIPPED["machines"], "query": "q-{shard}"}}, "machines: query: 'q-{shard}' has {shard}"),
        ({"machines": {**SHIPPED["machines"], "query": "q 1"}}, "machines: query: 'q 1' is not a host name"),
        ({"machines": "here"}, "machines: 'here' is not a dict"),
        ({"listen": "all of them"}, "listen: 'all of them' is not an address"),
        ({"first_port": 65500}, "first_port: 65500 is not a number"),
        ({"raw": ["xen_("]}, "raw: 'xen_(' is not a regular expression"),
        ({"shard": 3}, "unknown setting: shard"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    file = tmp_path / "fleet.yml"
    file.write_text(yaml.safe_dump({**SHIPPED, **changed}))
    assert_refused(FleetError, f"^{re.escape(f'{file}: {said}')}", settings.read, file)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yml"
    assert_refused(FleetError, "No such file", settings.read, file)
    for text, said in (("a: [", "not YAML"), ("- a", "not a mapping"), (LACKING, "missing setting: raw")):
        file.write_text(text)
        assert_refused(FleetError, said, settings.read, file)


def test_durations_are_those_of_prometheus(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yml"
    for interval in ("15s", "0m15s", "14s1000ms"):
        changed = {"scrape_interval": interval, "evaluation_interval": "1m", "retention": "1w2d"}
        file.write_text(yaml.safe_dump({**SHIPPED, **changed}))
        assert settings.read(file).scrape_interval == interval
