"""Queries of a Prometheus with virtscope's records, at a time and over the past before it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from advise import AdviceError
from advise.queueing import Numbers
from deploy.api import Api, Unanswered

SAMPLES = 288  # of the past: with a day, one every five minutes
SHORTEST_STEP = 30.0  # seconds
SETTLED = 150.0  # seconds after which rates over two minutes are those of a new state
ANSWERED = ',status!~"1xx|5xx"'  # as for app:response_seconds:mean


class Place(NamedTuple):
    """A host as one platform sees it."""

    host: str
    platform: str


Key = tuple[str, Place]  # an application or a guest on a host


@dataclass(frozen=True)
class Reading:
    """A Prometheus at a time, over a present and a past before it, in seconds; only of these hosts, if any are given.

    Placeholders in queries: $present, $past and $step are durations, $hosts is a matcher.
    """

    api: Api
    at: float
    present: float
    past: float
    hosts: frozenset[str] | None = None

    @property
    def step(self) -> float:
        return max(SHORTEST_STEP, self.past / SAMPLES)

    @property
    def times(self) -> Numbers:
        """Of the values in `series`."""
        count = round(self.past / self.step) + 1
        return np.linspace(self.at - (count - 1) * self.step, self.at, count)

    def now(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """An instant query; raises `AdviceError`."""
        return [(series["metric"], float(series["value"][1])) for series in self._result("query", expr, time=self.at)]

    def series(self, expr: str) -> list[tuple[dict[str, str], Numbers]]:
        """Values of the past, NaN where there is none; raises `AdviceError`."""
        times = self.times
        result = []
        for series in self._result("query_range", expr, start=times[0], end=times[-1], step=self.step):
            values = np.full(len(times), np.nan)
            for time, value in series["values"]:
                values[round((float(time) - times[0]) / self.step)] = float(value)
            result.append((series["metric"], values))
        return result

    def _result(self, kind: str, expr: str, **times: float) -> list[Any]:
        names = None if self.hosts is None else json.dumps("|".join(map(re.escape, sorted(self.hosts))))
        query = expr.replace("$hosts", 'host!=""' if names is None else f"host=~{names}")
        for name, seconds in (("$present", self.present), ("$past", self.past), ("$step", self.step)):
            query = query.replace(name, duration(seconds))
        try:
            asked = {name: f"{value:.3f}" for name, value in times.items()}
            return list(self.api.data(f"/api/v1/{kind}", query=query, **asked)["result"])
        except Unanswered as error:
            remedy = "" if error.status else " (`make up` starts a Prometheus, --prometheus names another)"
            raise AdviceError(f"{error}{remedy}") from None


def duration(seconds: float) -> str:
    """In PromQL, whose durations have no fractions."""
    return f"{round(seconds * 1000)}ms"


def place_of(labels: Mapping[str, str]) -> Place:
    return Place(labels["host"], labels["platform"])


def requests_query(what: str, time: str, status: str = "") -> str:
    """A query of the requests to web tiers: `what` is count or sum (of seconds), each per second."""
    return f"sum by (host, platform, app) (avg_over_time({_requests(what, status)}[{time}]))"


def present_requests_query(what: str, status: str = "") -> str:
    """The same of the present, only of web tiers that still report some."""
    of = _requests(what, status)
    return f"sum by (host, platform, app) (avg_over_time({of}[$present]) and {of})"


def _requests(what: str, status: str) -> str:
    return f'requests:duration_seconds_{what}:rate1m{{$hosts,tier="web"{status}}}'


def answers(reading: Reading) -> dict[Key, tuple[float, float]]:
    """Requests per second that each web tier answered, and their mean seconds; raises `AdviceError`."""

    def by_app(what: str) -> dict[Key, float]:
        found = reading.now(present_requests_query(what, ANSWERED))
        return {(labels["app"], place_of(labels)): value for labels, value in found}

    count, seconds = by_app("count"), by_app("sum")
    return {key: (rate, seconds[key] / rate) for key, rate in count.items() if rate > 0 and seconds.get(key, 0.0) > 0}
