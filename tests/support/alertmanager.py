"""Alertmanager for the duration of a test."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from tests.support.program import Program

ROOT = Path(__file__).resolve().parents[2]


class Alertmanager:
    """The project's Alertmanager, with its templates, routes and inhibitions.

    receivers: the URL of a webhook for every receiver except `nobody`, or a replacement for `receivers`.
    group_wait, group_interval: replace those of every route, which are too long for tests.
    program: as in deploy/programs.py or deploy/go_programs.py.
    """

    def __init__(
        self,
        folder: Path,
        receivers: str | Sequence[Mapping[str, Any]],
        *,
        group_wait: str = "1s",
        group_interval: str = "1s",
        program: str = "alertmanager",
    ) -> None:
        self.folder = folder / "alertmanager-under-test"
        shutil.copytree(ROOT / "alerts" / "templates", self.folder / "templates")
        configuration = notifying(receivers, group_wait=group_wait, group_interval=group_interval)
        (self.folder / "alertmanager.yml").write_text(yaml.safe_dump(configuration))
        self._program = Program(program, self.folder)
        self.url = self._program.url
        self.address = f"127.0.0.1:{self._program.port}"

    def __enter__(self) -> Self:
        self._program.start(
            "--config.file=alertmanager.yml",
            "--log.level=warn",
            "--storage.path=data",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",  # no cluster
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop()

    def tell(self, *alerts: Mapping[str, Any]) -> None:
        """Send alerts like Prometheus: `{"labels": {...}, "annotations": {...}, "startsAt": "2026-..."}`."""
        requests.post(f"{self.url}/api/v2/alerts", json=alerts, timeout=10).raise_for_status()

    def alerts(self) -> list[dict[str, Any]]:
        """Its alerts, muted or not: `[{"labels": {...}, "status": {"state": "active", "inhibitedBy": []}}]`."""
        alerts: list[dict[str, Any]] = requests.get(f"{self.url}/api/v2/alerts", timeout=10).json()
        return alerts


def notifying(
    receivers: str | Sequence[Mapping[str, Any]], *, group_wait: str = "1s", group_interval: str = "1s"
) -> dict[str, Any]:
    """The project's alertmanager.yml with these receivers and delays, as for `Alertmanager`."""
    configuration: dict[str, Any] = yaml.safe_load((ROOT / "alerts" / "alertmanager.yml").read_text())
    if isinstance(receivers, str):
        for receiver in (each for each in configuration["receivers"] if each["name"] != "nobody"):
            receiver["webhook_configs"] = [{"url": receivers, "send_resolved": True}]
    else:
        configuration["receivers"] = list(receivers)
    delays = {"group_wait": group_wait, "group_interval": group_interval}
    routes = [configuration["route"]]
    for route in routes:  # child routes are appended while iterating
        routes += route.get("routes", [])
        route |= {key: delay for key, delay in delays.items() if key in route}
    return configuration
