"""Queries as Prometheus gets them."""

from dataclasses import replace
from typing import Any

import pytest

from advise.reading import Reading
from deploy.api import Api

QUERY = 'avg_over_time(host:cpu_usage:rate{$hosts,platform="xen"}[$present])'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def data(_self: Api, _path: str, query: str, **_times: str) -> Any:
        found.append(query)
        return {"result": []}

    monkeypatch.setattr(Api, "data", data)
    return found


def test_placeholders_are_durations_and_a_matcher_of_hosts(asked: list[str]) -> None:
    reading = Reading(Api("http://127.0.0.1:1"), at=1e9, present=90, past=86400)
    reading.now(QUERY)
    replace(reading, hosts=frozenset({"xen1.example.org", 'o"dd'})).now(QUERY)
    reading.series("avg_over_time(a{$hosts}[$step])")
    assert asked == [
        'avg_over_time(host:cpu_usage:rate{host!="",platform="xen"}[90000ms])',
        'avg_over_time(host:cpu_usage:rate{host=~"o\\"dd|xen1\\\\.example\\\\.org",platform="xen"}[90000ms])',
        'avg_over_time(a{host!=""}[300000ms])',
    ]
