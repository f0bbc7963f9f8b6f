"""Answers of a Prometheus."""

from collections.abc import Callable
from typing import Any

import requests

from tests.support.waiting import wait_for

SECONDS = 60  # for an answer, on a busy machine


class PrometheusClient:
    """The HTTP API of Prometheus, or of a compatible server, at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str, at: float | None = None, **parameters: str) -> list[dict[str, Any]]:
        """The instant vector as the API gives it, now or at this Unix time.

        `[{"metric": {label: value}, "value": [time, "number"]}]`; ValueError if the query is refused.
        """
        times = {} if at is None else {"time": str(at)}
        result: list[dict[str, Any]] = self.get("query", {"query": expr, **times, **parameters})["result"]
        return result

    def value(self, expr: str, at: float | None = None) -> float:
        """The value of the only series in the result."""
        (series,) = self.query(expr, at)
        return float(series["value"][1])

    def values(self, expr: str, moments: range) -> dict[int, float]:
        """The values of the only series in the result at these Unix times, if it has any."""
        times = {"start": str(moments[0]), "end": str(moments[-1]), "step": str(moments.step)}
        (series,) = self.get("query_range", {"query": expr, **times})["result"]
        return {int(at): float(value) for at, value in series["values"]}

    def alerts(self) -> list[dict[str, Any]]:
        """The pending and firing alerts: `[{"labels": {...}, "annotations": {...}, "state": "firing", ...}]`."""
        alerts: list[dict[str, Any]] = self.get("alerts", {})["alerts"]
        return alerts

    def wait_for(self, expr: str, seconds: float, explain: Callable[[], str] = str) -> list[dict[str, Any]]:
        """The first non-empty result; AssertionError with the targets' states if there is none in time."""
        return wait_for(
            lambda: self.query(expr), seconds, every=0.2, explain=lambda: f"{expr}\n{self.health()}\n{explain()}"
        )

    def health(self) -> str:
        """A line for each target: its address, its health and its last error."""
        targets = self.get("targets", {"state": "active"})["activeTargets"]
        return "\n".join(f"{target['scrapeUrl']} is {target['health']} {target['lastError']}" for target in targets)

    def get(self, what: str, parameters: dict[str, str]) -> Any:  # JSON, as in the API
        """The data of /api/v1/`what`; ValueError if it answers with an error."""
        answer = requests.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=SECONDS).json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        return answer["data"]
