"""Who is told what: alerts/alertmanager.yml as shipped, and with what its comment and docs/alerting.md say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rules.test_rules import ROOT, run

SHIPPED = ROOT / "alerts" / "alertmanager.yml"
RELEASES = ["amtool", "amtool031"]  # Debian's, and that of compose.yaml
PAGE = ROOT / "docs" / "alerting.md"
EXAMPLES = re.findall(r"(?<=^```yaml\n)- .*?(?=^```$)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
RECEIVERS = [example for example in EXAMPLES if example.startswith("- name:")]
ROUTES = [example for example in EXAMPLES if example.startswith("- matchers:")]

# The first run builds the newer Alertmanager.
pytestmark = pytest.mark.timeout(1200)


def changed(folder: Path, **changes: Any) -> Path:
    """The shipped configuration with other values for some of its keys, beside its templates."""
    configuration = yaml.safe_load(SHIPPED.read_text()) | changes
    configuration["templates"] = [str(SHIPPED.parent / pattern) for pattern in configuration["templates"]]
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(configuration))
    return file


def assert_told(told: str, configuration: Path, **labels: str) -> None:
    """That an alert with these labels goes to this receiver."""
    checked = [f"--config.file={configuration}", f"--verify.receivers={told}"]
    run("amtool", "config", "routes", "test", *checked, *(f"{name}={value}" for name, value in labels.items()))


def example_receivers() -> list[dict[str, Any]]:
    """The receivers that the comment at the head of alertmanager.yml shows."""
    lines = SHIPPED.read_text().splitlines()
    start = lines.index("#   receivers:")
    block = lines[start : lines.index("#", start)]
    receivers: list[dict[str, Any]] = yaml.safe_load("\n".join(line.removeprefix("#") for line in block))["receivers"]
    return receivers


@pytest.mark.parametrize("amtool", RELEASES)
def test_the_configuration_is_valid(amtool: str) -> None:
    assert "1 templates" in run(amtool, "check-config", SHIPPED)


@pytest.mark.parametrize("amtool", RELEASES)
def test_the_example_is_valid_and_complete(tmp_path: Path, amtool: str) -> None:
    receivers = example_receivers()
    run(amtool, "check-config", changed(tmp_path, receivers=receivers))
    shipped = yaml.safe_load(SHIPPED.read_text())["receivers"]
    assert [receiver["name"] for receiver in receivers] == [receiver["name"] for receiver in shipped]


@pytest.mark.parametrize("amtool", RELEASES)
@pytest.mark.parametrize("example", RECEIVERS, ids=lambda example: example.split()[3].rstrip(":"))
def test_the_documented_receivers_are_valid(tmp_path: Path, amtool: str, example: str) -> None:
    (documented,) = yaml.safe_load(example)
    others = [other for other in example_receivers() if other["name"] != documented["name"]]
    run(amtool, "check-config", changed(tmp_path, receivers=[documented, *others]))


@pytest.mark.parametrize(
    ("severity", "told"), [("critical", "page"), ("warning", "ticket"), ("none", "watchdog"), ("odd", "ticket")]
)
def test_alerts_are_routed_by_severity(severity: str, told: str) -> None:
    assert_told(told, SHIPPED, severity=severity, host="xen1")


def test_what_only_holds_others_back_is_told_nobody() -> None:
    assert_told("nobody", SHIPPED, alertname="ObjectiveCause", severity="none", host="xen1", cause="self")


def test_a_documented_route_sends_its_hosts_alone_to_others(tmp_path: Path) -> None:
    (example,) = ROUTES
    (route,) = yaml.safe_load(example)
    shipped = yaml.safe_load(SHIPPED.read_text())
    shipped["route"]["routes"].insert(1, route)  # after nobody's
    receivers = [*shipped["receivers"], {"name": route["receiver"]}]
    configuration = changed(tmp_path, route=shipped["route"], receivers=receivers)
    assert_told("databases", configuration, severity="critical", host="db7")
    assert_told("databases", configuration, severity="warning", host="db7")
    assert_told("page", configuration, severity="critical", host="web1")
    assert_told("nobody", configuration, alertname="ObjectiveCause", severity="none", host="db7")


def test_nobody_is_told_before_an_address_is_given() -> None:
    for shipped in yaml.safe_load(SHIPPED.read_text())["receivers"]:
        assert set(shipped) == {"name"}
