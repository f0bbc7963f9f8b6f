"""local/ over the shipped configuration: merging, appending, replacing and refusals."""

from pathlib import Path

import pytest
import yaml

from deploy import merge
from deploy.programs import CHECKOUT
from tests.support.refusals import assert_refused

PROMETHEUS, ALERTMANAGER = CHECKOUT / "prometheus/prometheus.yml", CHECKOUT / "alerts/alertmanager.yml"
LOCAL_PROMETHEUS = """\
global: {evaluation_interval: 1m}
rule_files: [mine.yml]
remote_write: [{url: "http://store/"}]
scrape_configs:
  - {job_name: xentop, sample_limit: 1, file_sd_configs: [{files: [more.yml]}]}
  - {job_name: mine}
"""
LOCAL_ALERTMANAGER = """\
route: {group_by: [app], routes: [{matchers: [host = db], receiver: mine}]}
receivers: [{name: mine}, {name: page, webhook_configs: [{url: "http://pager/"}]}]
inhibit_rules: [{source_matchers: [alertname = A], target_matchers: [alertname = B]}]
"""


def test_prometheus(tmp_path: Path) -> None:
    shipped = yaml.safe_load(PROMETHEUS.read_text())
    (tmp_path / "prometheus.yml").write_text(LOCAL_PROMETHEUS)
    merged = merge.of_files(PROMETHEUS, tmp_path / "prometheus.yml")
    assert merged["global"] == {**shipped["global"], "evaluation_interval": "1m"}
    assert merged["rule_files"] == [*shipped["rule_files"], "mine.yml"]
    assert merged["remote_write"] == [{"url": "http://store/"}]
    xentop, *others = shipped["scrape_configs"]
    discovery = [*xentop["file_sd_configs"], {"files": ["more.yml"]}]
    changed = {**xentop, "sample_limit": 1, "file_sd_configs": discovery}
    assert merged["scrape_configs"] == [changed, *others, {"job_name": "mine"}]


def test_alertmanager(tmp_path: Path) -> None:
    shipped = yaml.safe_load(ALERTMANAGER.read_text())
    (tmp_path / "alertmanager.yml").write_text(LOCAL_ALERTMANAGER)
    merged = merge.of_files(ALERTMANAGER, tmp_path / "alertmanager.yml")
    assert [route["receiver"] for route in merged["route"]["routes"]] == ["nobody", "mine", "page", "watchdog"]
    assert merged["route"]["group_by"] == ["app"]
    assert merged["receivers"][0] == {"name": "page", "webhook_configs": [{"url": "http://pager/"}]}
    assert [each["name"] for each in merged["receivers"]] == [*(r["name"] for r in shipped["receivers"]), "mine"]
    assert merged["inhibit_rules"][:-1] == shipped["inhibit_rules"]


def test_nothing_of_your_own_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yml").touch()
    for file in ("absent.yml", "empty.yml"):
        assert merge.of_files(PROMETHEUS, tmp_path / file) == yaml.safe_load(PROMETHEUS.read_text())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", r"^local/prometheus\.yml: \[\] is not a mapping"),
        ("global: 5s", r"^local/prometheus\.yml: global: '5s' is not a mapping"),
        ("scrape_configs: {job_name: a}", r"scrape_configs: .* is not a list"),
        ("a: [", r"^local/prometheus\.yml is not YAML: .* line 1"),
    ],
)
def test_refusals(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    assert_refused(merge.MergeError, said, merge.of_files, PROMETHEUS, file)
