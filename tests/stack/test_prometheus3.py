"""compose.yaml's Prometheus accepts and runs the same configuration and rules as Debian's 2.42."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy import go_programs
from tests.rules.test_rules import ROOT, RULE_FILES, TEST_FILES, run
from tests.support import Exposition, Prometheus
from tests.support.waiting import wait_for

# The first run builds Prometheus.
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

# The minute in which the load changes has four samples in Prometheus 2 and three here, from which rate() extrapolates
# the fourth: node_exporter's own total is 2.8 CPUs, but 3.05 were used.
ABOUT_2 = ROOT / "prometheus" / "tests" / "churn_ended_guests.yml"
XEN_GUEST = """\
# TYPE xen_domain_cpu_seconds_total counter
xen_domain_cpu_seconds_total{domid="1",domain="web"} 12.5
# TYPE xen_domain_memory_bytes gauge
xen_domain_memory_bytes{domid="1",domain="web"} 1073741824
"""


def test_it_is_the_release_that_is_pinned_and_takes_configuration_and_rules() -> None:
    assert f"version {go_programs.PROGRAMS['prometheus3'].version} " in run("promtool3", "--version")
    checked = run("promtool3", "check", "config", "prometheus/prometheus.yml")
    assert f"{len(RULE_FILES)} rule files found" in checked


def test_the_rules_unit_tests_pass() -> None:
    """On all CPUs: promtool itself uses one."""
    files = [file for file in TEST_FILES if file != ABOUT_2]
    with ThreadPoolExecutor(os.cpu_count()) as testing:
        list(testing.map(lambda file: run("promtool3", "test", "rules", file), files))


def test_it_runs_the_rules_on_what_it_scrapes(tmp_path: Path) -> None:
    with (
        Exposition(XEN_GUEST) as exporter,
        Prometheus(
            # Rules of history.yml are evaluated every four minutes.
            tmp_path, {"xentop": [exporter.group("xen1")]}, group_interval="5s", program="prometheus3"
        ) as prometheus,
    ):  # fmt: skip
        (memory,) = prometheus.wait_for('vserver:memory:bytes{vserver="web"}', seconds=30)
        assert (memory["metric"]["host"], memory["value"][1]) == ("xen1", "1073741824")

        def health() -> dict[str, str]:
            """The result of each rule's last evaluation, "ok" or its error."""
            rules = [rule for group in prometheus.get("rules", {})["groups"] for rule in group["rules"]]
            return {rule["name"]: rule.get("lastError") or rule["health"] for rule in rules}

        found = wait_for(health, 60, until=lambda health: "unknown" not in health.values())
    assert len(found) > len(RULE_FILES)
    assert set(found.values()) == {"ok"}
