"""Alertmanager's routes: alerts/alertmanager.yml as shipped, and with its examples and those of docs/alerting.md."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import merge
from tests.rules.test_rules import ROOT, run

SHIPPED = ROOT / "alerts" / "alertmanager.yml"
RELEASES = ["amtool", "amtool034"]  # Debian's release, and that of compose.yaml
PAGE = ROOT / "docs" / "alerting.md"
EXAMPLES = re.findall(r"(?<=^```yaml\n)- .*?(?=^```$)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
RECEIVERS = [example for example in EXAMPLES if example.startswith("- name:")]
ROUTES = re.findall(r"(?<=^```yaml\n)route:.*?(?=^```$)", PAGE.read_text(), re.MULTILINE | re.DOTALL)

# The first run builds the newer Alertmanager.
pytestmark = pytest.mark.timeout(1200)


def changed(folder: Path, **changes: Any) -> Path:
    """The shipped configuration with some keys replaced, next to its templates."""
    configuration = yaml.safe_load(SHIPPED.read_text()) | changes
    configuration["templates"] = [str(SHIPPED.parent / pattern) for pattern in configuration["templates"]]
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(configuration))
    return file


def assert_routed(receiver: str, configuration: Path, **labels: str) -> None:
    """Assert that an alert with these labels is routed to this receiver."""
    checked = [f"--config.file={configuration}", f"--verify.receivers={receiver}"]
    run("amtool", "config", "routes", "test", *checked, *(f"{name}={value}" for name, value in labels.items()))


def example_receivers() -> list[dict[str, Any]]:
    """The receivers in the comment at the top of alertmanager.yml, and the one that local/ doesn't change."""
    lines = SHIPPED.read_text().splitlines()
    start = lines.index("#   receivers:")
    block = lines[start : lines.index("#", start)]
    receivers: list[dict[str, Any]] = yaml.safe_load("\n".join(line.removeprefix("#") for line in block))["receivers"]
    return [*receivers, {"name": "nobody"}]


@pytest.mark.parametrize("amtool", RELEASES)
def test_the_configuration_its_example_and_documented_receivers_are_valid(tmp_path: Path, amtool: str) -> None:
    assert "2 templates" in run(amtool, "check-config", SHIPPED)
    receivers = example_receivers()
    run(amtool, "check-config", changed(tmp_path, receivers=receivers))
    shipped = yaml.safe_load(SHIPPED.read_text())["receivers"]
    assert shipped == [{"name": receiver["name"]} for receiver in receivers], "as shipped, nothing is sent"
    for example in RECEIVERS:
        (documented,) = yaml.safe_load(example)
        others = [other for other in receivers if other["name"] != documented["name"]]
        run(amtool, "check-config", changed(tmp_path, receivers=[documented, *others]))


def test_alerts_are_routed_by_severity_and_those_that_only_inhibit_others_to_nobody() -> None:
    for severity, receiver in {"critical": "page", "warning": "ticket", "none": "watchdog", "odd": "ticket"}.items():
        assert_routed(receiver, SHIPPED, severity=severity, host="xen1")
    assert_routed("nobody", SHIPPED, alertname="ObjectiveCause", severity="none", host="xen1", cause="self")


def test_a_documented_route_sends_only_its_hosts_to_another_receiver(tmp_path: Path) -> None:
    (example,) = ROUTES
    (tmp_path / "local.yml").write_text(example)
    configuration = changed(tmp_path, **merge.of_files(SHIPPED, tmp_path / "local.yml"))
    for host, severity, receiver in (
        *(("db7", "critical", "databases"), ("db7", "warning", "databases"), ("web1", "critical", "page")),
    ):
        assert_routed(receiver, configuration, severity=severity, host=host)
    assert_routed("nobody", configuration, alertname="ObjectiveCause", severity="none", host="db7")
