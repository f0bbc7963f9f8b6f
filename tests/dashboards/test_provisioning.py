"""The provisioning files serve any place: what differs between Docker and the native stack is in the environment."""

from __future__ import annotations

import re
from pathlib import Path

PROVISIONING = Path(__file__).resolve().parents[2] / "dashboards" / "provisioning"


def test_places_come_from_the_environment_and_nothing_else_does() -> None:
    """Grafana is started with both by compose.yaml and deploy/."""
    text = "".join(file.read_text() for file in PROVISIONING.rglob("*.yml"))
    assert set(re.findall(r"\$\{?(\w+)", text)) == {"PROMETHEUS_URL", "VIRTSCOPE_DASHBOARDS"}
    assert len(re.findall(r"url: \$PROMETHEUS_URL$|path: \$VIRTSCOPE_DASHBOARDS$", text, re.MULTILINE)) == 2
