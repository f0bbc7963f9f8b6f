"""Alerts about the stack read metrics that every release of Prometheus and Alertmanager really exposes.

If a release dropped such a metric, its alert would never fire again.
"""

import re
from pathlib import Path
from typing import Literal

import pytest
import requests
import yaml

from tests.support import Alertmanager, Prometheus
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]

NEWER = [pytest.mark.system, pytest.mark.timeout(1800)]  # the first run builds it


def read(program: str) -> set[str]:
    """The program's own metrics that alerts in stack.yml read."""
    groups = yaml.safe_load((ROOT / "alerts" / "rules" / "stack.yml").read_text())["groups"]
    exprs = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    return set(re.findall(rf"\b{program}_\w+(?={{)", exprs))


def shown(url: str) -> set[str]:
    page = requests.get(f"{url}/metrics", timeout=10).text
    return set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))


@pytest.mark.parametrize("release", ["prometheus", pytest.param("prometheus3", marks=NEWER)])
def test_prometheus_shows_what_alerts_read(tmp_path: Path, release: Literal["prometheus", "prometheus3"]) -> None:
    assert len(read("prometheus")) > 9
    receiver = Prometheus(tmp_path / "store", {}, rules=[], flags=["--web.enable-remote-write-receiver"])
    with (
        receiver as store,
        Prometheus(
            tmp_path,
            {},
            alertmanager="127.0.0.1:9",
            program=release,
            store=(f"{store.url}/api/v1/write", {"replica": "a"}),
        ) as prometheus,
    ):
        # Metrics per Alertmanager or store only exist after discovery.
        wait_for(lambda: read("prometheus") - shown(prometheus.url), until=lambda missing: missing == set())


@pytest.mark.parametrize("release", ["alertmanager", pytest.param("alertmanager034", marks=NEWER)])
def test_alertmanager_shows_what_alerts_read(tmp_path: Path, release: str) -> None:
    assert len(read("alertmanager")) > 1
    with Alertmanager(tmp_path, "http://127.0.0.1:9/", program=release) as alertmanager:
        assert read("alertmanager") - shown(alertmanager.url) == set()
