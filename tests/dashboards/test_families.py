"""Simulated hosts expose the exporters' metrics."""

import re

from tests.dashboards import history
from tests.dashboards.families import exposed_labels
from tests.rules import test_conformance
from tests.support.hosts import churn


def test_simulated_hosts_expose_metrics_with_the_labels_that_exporters_give_them() -> None:
    """Otherwise rules and panels would be tested against metrics that don't exist."""
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
