"""No metric is collected for nothing, and simulated hosts expose what exporters do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.exporters import FOLDERS
from tests.dashboards import history
from tests.dashboards.families import exposed_labels, families, read_by
from tests.dashboards.queries import FOLDER, panels
from tests.rules import test_conformance
from tests.support.hosts import churn

ROOT = Path(__file__).resolve().parents[2]
RULES = ("prometheus/rules/**/*.yml", "alerts/rules/*.yml", "alerts/generated/*.yml")
UNREAD = {
    "ssh_hosts": "for users; the table Hosts over ssh has those that were asked for",
    "process_virtual_memory_bytes": "every Prometheus client has it, and the resident memory says more",
    **{f"{exporter}_up": "for users; the sources' own say the same, and which one" for exporter in FOLDERS},
}


def test_every_metric_is_read_by_a_rule_an_alert_or_a_panel() -> None:
    read = {name for query in queries() for name in read_by(query)}
    unread = families() - read
    assert unread == UNREAD.keys(), "give it a place on a page, a rule, or a flag by which it is exposed"


def queries() -> Iterator[str]:
    for file in (file for pattern in RULES for file in ROOT.glob(pattern)):
        yield from (rule["expr"] for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"])
    for file in FOLDER.glob("*.json"):
        page = json.loads(file.read_text())
        yield from (target["expr"] for panel in panels(page) for target in panel.get("targets", []))
        yield from (variable.get("query", "") for variable in page["templating"]["list"])


def test_simulated_hosts_expose_metrics_with_the_labels_that_exporters_give_them() -> None:
    """Otherwise a rule or panel would be right about simulated hosts alone."""
    known = exposed_labels()
    ours = re.compile(rf"({'|'.join({name.partition('_')[0] for name in known})})_")
    of_churn = [target for host in churn.HOSTS for target in churn.targets(churn.host(host, seed=1, seconds=600))]
    for target in [*history.TARGETS, *test_conformance.TARGETS, *of_churn]:
        for line in target.lines:
            series = line.rpartition(" ")[0] if isinstance(line, str) else line[0]
            metric = series.partition("{")[0]
            if ours.match(metric) and target.job not in {"prometheus", "alertmanager", "stack"}:
                labels = frozenset(re.findall(r'(\w+)="', series))
                assert labels in known.get(metric, ()), f"{target.job} has no {series}"
