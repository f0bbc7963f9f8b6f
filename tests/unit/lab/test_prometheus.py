"""Queries report their errors; during a run a Prometheus that restarts is waited for."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from lab import consolidation, measuring, scrapes
from lab.prometheus import Prometheus, PrometheusError, Recorded
from lab.scenario import Consolidation, Scale
from tests.support.endpoints import QuietHandler, http_server
from tests.support.refusals import assert_refused


class Restarting:
    """A Prometheus that doesn't answer the queries with these numbers."""

    def __init__(self, *fails: int) -> None:
        self.fails, self.asked = fails, 0

    def recorded(self, _: str) -> list[Recorded]:
        self.asked += 1
        if self.asked in self.fails:
            raise PrometheusError("no Prometheus answers")
        return [Recorded({"host": "vm"}, ((5.0, 1.0), (10.0, 1.0), (15.0, 1.0)))]


def measure(prometheus: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A step of consolidation, with the values that only this Prometheus gives."""
    monkeypatch.setattr(scrapes, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "measured", lambda *_: prometheus.recorded(""))
    anything = SimpleNamespace(
        check=lambda: None, set_up=lambda *_, **__: 1, visit=lambda *_, **__: None, cpu_seconds=lambda: 1.0,
        clients=SimpleNamespace(answers=lambda: 1.0), measuring=lambda *_: contextlib.nullcontext(),
        doing=lambda _: None, pass_time=lambda *_: None, run="a", scale=Scale(),
    )  # fmt: skip
    asked = scrapes.Scrapes(9)
    asked.prometheus = prometheus
    what = Consolidation.parse("about: x\ninstances: 1\nclients: 1\nduration: 15s\n", "mine.yml")
    run: Any = SimpleNamespace(course=anything, metrics=anything, state=anything, scrapes=asked)
    stage: Any = anything
    return consolidation._measure(what, what.steps[0], run, stage)


def test_a_step_whose_prometheus_restarts_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for fails in ((), (1,), (2, 3), (3, 4)):
        assert measure(Restarting(*fails), monkeypatch).measurements
    monkeypatch.setattr(scrapes, "SCRAPE_SECONDS", 0.0)
    for fails in ((1, 2), (2, 3), (3, 4)):
        assert_refused(PrometheusError, "no Prometheus answers", measure, Restarting(*fails), monkeypatch)


def test_what_is_no_address_or_no_prometheus_is_named() -> None:
    class Handler(QuietHandler):
        said = b""

        def do_POST(self) -> None:  # noqa: N802 (http.server calls it)
            self.reply(200, self.said, "text/plain")

    for url in ("prometheus:9090", "prometheus", "http://[::1", "http://127.0.0.1:9/a b", ""):
        words = r"^no Prometheus answers at .*such as http://host:9090$"
        assert_refused(PrometheusError, words, Prometheus(url).vector, "up")
    server = http_server(Handler)
    try:
        for said in (b"<html>", b"", b"[]", b'"up"', b'{"status": "success"}', b'{"data": {}}'):
            Handler.said = said
            assert_refused(PrometheusError, server.address, Prometheus(f"http://{server.address}").vector, "up")
    finally:
        server.close()
