"""Part states in `python -m deploy.fleet status`, and the order in which `down` stops parts."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.fleet import native, settings
from deploy.fleet.parts import Part, parts
from tests.support.endpoints import QuietHandler, http_server


def test_a_prometheus_that_cannot_watch_its_targets_is_not_well() -> None:
    said = "hosts: 3, targets down: 3"
    for page, about in (
        ("prometheus_sd_file_watcher_errors_total 2\n",
         (False, f"{said}, not all: fs.inotify.max_user_instances is too low")),
        ("prometheus_sd_file_watcher_errors_total 0\n", (True, said)),
        ("other 2\n", (True, said)),
    ):  # fmt: skip

        class Handler(QuietHandler):
            metrics = page.encode()

            def do_GET(self) -> None:  # noqa: N802
                counted = json.dumps(
                    {"status": "success", "data": {"result": [{"metric": {}, "value": [0, "3"]}]}}
                ).encode()
                self.reply(200, self.metrics if self.path == "/metrics" else counted, "text/plain")

        server = http_server(Handler)
        try:
            assert native._about(Part("p", "prometheus", (), server.address)) == about
        finally:
            server.close()
    assert not native.lacks_targets(Part("p", "prometheus", (), "127.0.0.1:1")), "one that is silent"


def test_parts_are_stopped_before_those_that_they_need(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Prometheus has samples to write, so its receivers end last, followed only by supervisord."""
    stopped: list[str] = []
    running = SimpleNamespace(
        run=tmp_path,
        is_running=lambda: True,
        processes=lambda: {part.name: None for part in parts(settings.read())},
        stop_program=stopped.append,
        stop=lambda: stopped.append("supervisord-0"),
    )
    monkeypatch.setattr(native, "supervisor", lambda _folder: running)
    native.down(tmp_path)
    kinds = [name.partition("-")[0] for name in stopped]
    in_order = ["prometheus", "rule", "query", "alertmanager", "receive", "supervisord"]
    assert len(stopped) == len(parts(settings.read())) + 1
    assert kinds == sorted(kinds, key=in_order.index), "no kind before the last one has ended"
