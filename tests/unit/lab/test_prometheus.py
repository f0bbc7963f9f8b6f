"""A report queries the given address, whatever server answers there, and reports its errors."""

from lab.prometheus import Prometheus, PrometheusError
from tests.support.endpoints import QuietHandler, http_server
from tests.support.refusals import assert_refused


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
