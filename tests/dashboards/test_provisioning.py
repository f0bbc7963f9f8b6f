"""The provisioning files serve any place: what differs between Docker and the native stack is in the environment."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

PROVISIONING = Path(__file__).resolve().parents[2] / "dashboards" / "provisioning"


def test_places_come_from_the_environment() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "virtscope.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "virtscope.yml").read_text())["providers"]
    assert source["url"] == "$PROMETHEUS_URL"
    assert provider["options"]["path"] == "$VIRTSCOPE_DASHBOARDS"


def test_no_other_variable_is_needed() -> None:
    used = {name for file in PROVISIONING.rglob("*.yml") for name in re.findall(r"\$\{?(\w+)", file.read_text())}
    assert used == {"PROMETHEUS_URL", "VIRTSCOPE_DASHBOARDS"}, (
        "set it where Grafana is started: compose.yaml and tools/"
    )
