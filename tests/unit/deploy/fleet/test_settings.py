"""fleet.yml: accepted settings, and refusals with the offending text."""

import re
from pathlib import Path

import yaml

from deploy.documents import FileError
from deploy.fleet import settings
from tests.support.refusals import assert_refused

SHIPPED = yaml.safe_load(settings.FILE.read_text())
REFUSED: list[tuple[dict[str, object], str]] = [
    ({"shards": 0}, "shards: should be greater than or equal to 1, not '0'"),
    ({"shards": 101}, "shards: should be less than or equal to 100, not '101'"),
    ({"shards": True}, "shards: should be a valid integer, "),
    ({"shards": "two"}, "shards: should be a valid integer, "),
    ({"receivers": 2}, "receivers: should be greater than or equal to 3, not '2'"),
    ({"store": "influxdb"}, "store: should be 'thanos', not 'influxdb'"),
    ({"scrape_interval": "15"}, "scrape_interval: '15' is not a duration"),
    ({"scrape_interval": "500ms"}, "scrape_interval: '500ms' is less than 1s"),
    ({"scrape_interval": "1m30s"}, "scrape_interval: '1m30s' is more than 20s"),
    ({"evaluation_interval": "2m"}, "evaluation_interval: '2m' is more than 60s"),
    ({"evaluation_interval": 60}, "evaluation_interval: '60' is not a duration"),
    ({"retention": "a while"}, "retention: 'a while' is not"),
    ({"machines": {"prometheus": "127.0.0.1"}}, "machines: prometheus is not prometheus, receive"),
    ({"machines": {**SHIPPED["machines"], "query": "q-{shard}"}}, "machines.query: 'q-{shard}' has {shard}"),
    ({"machines": {**SHIPPED["machines"], "query": "q 1"}}, "machines.query: 'q 1' is not a host name"),
    ({"machines": "here"}, "machines: should be a valid dictionary, not 'here'"),
    ({"listen": "all of them"}, "listen: should match pattern '^[0-9a-zA-Z.:-]+$', not 'all of them'"),
    ({"first_port": 65500}, "first_port: should be less than or equal to 65135, not '65500'"),
    ({"first_port": 80}, "first_port: should be greater than or equal to 1024, not '80'"),
    ({"raw": ["xen_("]}, "raw[1]: should be a valid regular expression, not 'xen_('"),
    ({"shard": 3}, "shard: no such key; did you mean shards?"),
]


def test_the_shipped_file_is_a_small_fleet_on_this_machine() -> None:
    shipped = settings.read()
    assert (shipped.shards, shipped.receivers, shipped.alertmanagers) == (2, 3, 2)
    assert set(shipped.machines.values()) == {"127.0.0.1"}
    assert shipped.targets.is_dir()


def test_a_setting_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yml"
    for changed, said in REFUSED:
        file.write_text(yaml.safe_dump({**SHIPPED, **changed}))
        assert_refused(FileError, rf"^{re.escape(str(file))}:\d+: {re.escape(said)}", settings.read, file)
