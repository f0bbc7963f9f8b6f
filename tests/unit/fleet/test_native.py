"""What `python -m fleet status` knows of a part, and in which order `down` stops them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet import native, settings
from fleet.native import lacks_targets
from fleet.parts import Part, parts
from tests.support.endpoints import QuietHandler, http_server


def prometheus(address: str) -> Part:
    return Part("prometheus-0-a", "prometheus", "prometheus", (), address, shard=0, replica="a")


def test_a_prometheus_that_cannot_watch_its_targets_is_not_well() -> None:
    for page, lacks in (
        ("prometheus_sd_file_watcher_errors_total 2\n", True),
        ("prometheus_sd_file_watcher_errors_total 0\n", False),
        ("other 2\n", False),
    ):

        class Handler(QuietHandler):
            metrics = page.encode()

            def do_GET(self) -> None:  # noqa: N802
                counted = json.dumps({"data": {"result": [{"value": [0, "3"]}]}}).encode()
                self.reply(200, self.metrics if self.path == "/metrics" else counted, "text/plain")

        server = http_server(Handler)
        try:
            healthy, about = native._about(prometheus(server.address))
            assert lacks_targets(prometheus(server.address)) is lacks
        finally:
            server.close()
        said = "hosts: 3, targets down: 3"
        inotify = f"{said}, not all: fs.inotify.max_user_instances is too low"
        assert (healthy, about) == ((False, inotify) if lacks else (True, said))
    assert lacks_targets(prometheus("127.0.0.1:1")) is False, "one that does not answer"


def test_parts_are_stopped_before_those_that_they_need(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Prometheus has samples to write: its receivers end last, and supervisord after all."""
    stopped: list[str] = []

    class Running:
        run = tmp_path
        processes = staticmethod(lambda: {part.name: None for part in parts(settings.read())})
        is_running = staticmethod(lambda: True)
        stop_program = staticmethod(stopped.append)
        stop = staticmethod(lambda: stopped.append("supervisord-0"))

    monkeypatch.setattr(native, "supervisor", lambda _folder: Running)
    native.down(tmp_path)
    kinds = [name.partition("-")[0] for name in stopped]
    assert len(stopped) == len(parts(settings.read())) + 1
    assert list(dict.fromkeys(kinds)) == ["prometheus", "rule", "query", "alertmanager", "receive", "supervisord"]
    assert kinds == sorted(kinds, key=list(dict.fromkeys(kinds)).index), "no kind before the last one has ended"
