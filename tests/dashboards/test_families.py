"""No metric is collected for nothing: each is read by a rule, an alert or a panel."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.dashboards.families import families, read_by
from tests.dashboards.queries import FOLDER, panels
from tools.exporters import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
RULES = ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
UNREAD = {
    "ssh_hosts": "for users; the table Hosts over ssh has those that were asked for",
    "process_virtual_memory_bytes": "every Prometheus client has it, and the resident memory says more",
    **{f"{exporter}_up": "for users; the sources' own say the same, and which one" for exporter in FOLDERS},
}


@functools.cache
def read() -> frozenset[str]:
    return frozenset(name for query in _queries() for name in read_by(query))


def _queries() -> Iterator[str]:
    for pattern in RULES:
        for file in ROOT.glob(pattern):
            yield from (rule["expr"] for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"])
    for file in FOLDER.glob("*.json"):
        for panel in panels(json.loads(file.read_text())):
            yield from (target["expr"] for target in panel.get("targets", []))


@pytest.mark.parametrize("family", sorted(families() - UNREAD.keys()))
def test_every_metric_is_read_by_a_rule_an_alert_or_a_panel(family: str) -> None:
    assert family in read(), "give it a place on a page, a rule, or a flag by which it is exposed"


def test_what_is_said_to_be_read_by_nothing_is_read_by_nothing() -> None:
    assert UNREAD.keys() & read() == set()
    assert UNREAD.keys() <= families()
