"""Queries Prometheus: instant queries over its HTTP API, and their results as values."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab import LabError

TIMEOUT_SECONDS = 60
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # ignores proxies in the environment


class PrometheusError(LabError):
    """Prometheus is unreachable, or rejects a query: the message has its address and its error."""


@dataclass(frozen=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Recorded:
    """One series of a range selector: its recorded samples, as (Unix time in seconds, value)."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def vector(self, query: str) -> list[Sample]:
        """The series of a query that returns an instant vector; raises `PrometheusError`."""
        return [Sample(series["metric"], float(series["value"][1])) for series in self._result(query)]

    def recorded(self, selector: str) -> list[Recorded]:
        """The samples that a range selector (`up[1h]`) covers, with their scrape times.

        Raises `PrometheusError`.
        """
        return [
            Recorded(series["metric"], tuple((time, float(value)) for time, value in series["values"]))
            for series in self._result(selector)
        ]

    def _result(self, query: str) -> list[Any]:
        body = urllib.parse.urlencode({"query": query}).encode()
        try:
            request = urllib.request.Request(f"{self.url}/api/v1/query", data=body)
            with DIRECT.open(request, timeout=TIMEOUT_SECONDS) as response:
                return list(json.load(response)["data"]["result"])
        except urllib.error.HTTPError as error:
            complaint = error.read().decode(errors="replace")
            raise PrometheusError(f"{self.url} rejects a query: {complaint or error}\n{query}") from error
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            hint = "`make up` starts the stack's; for another, give its address with --prometheus, such as http://host:9090"
            raise PrometheusError(f"no Prometheus answers at {self.url}: {error!r}; {hint}") from error
