"""`python3 -m advise serve`: a page with advice for every host, and the calibration as metrics for Prometheus."""

import http.server
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from advise import AdviceError, answer
from advise.answer import Answer
from advise.checked import Calibration

_HTML = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
)


@dataclass(frozen=True)
class Found:
    """What was found at a time: advice for hosts from which guests had better leave, by their names."""

    at: float  # Unix time
    calibration: Calibration
    advice: Sequence[tuple[str, Sequence[Answer]]]


class Shown:
    """The latest findings, as the page and as metrics."""

    def __init__(self) -> None:
        self._found: Found | None = None
        self._error = ""
        self._registry = CollectorRegistry()
        self._up = self._gauge("advise_up", "Whether Prometheus answered the latest time.")
        self._at = self._gauge("advise_calibration_timestamp_seconds", "When the calibration was made, as Unix time.")
        what = "Checked predictions of response times, by whether the response was within the 90 % interval."
        self._predictions = self._gauge("advise_predictions", what, "inside")
        self._error_ratio = self._gauge(
            "advise_prediction_error_ratio", "Median error of the checked predictions, relative to the response."
        )
        self._widened = self._gauge(
            "advise_interval_ratio", "Width of intervals / width by the model alone, in logarithms."
        )
        self._withheld = self._gauge("advise_withheld", "Whether advice is withheld because predictions were wrong.")

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self._registry)

    def update(self, find: Callable[[], Found]) -> None:
        """Look again; without an answer the page keeps what was found before, and says so."""
        try:
            found = find()
        except AdviceError as error:
            self._error = str(error)
            self._up.set(0)
            return
        calibration = found.calibration
        self._up.set(1)
        self._at.set(found.at)
        inside = sum(each.inside for each in calibration.checks)
        self._predictions.labels("true").set(inside)
        self._predictions.labels("false").set(len(calibration.checks) - inside)
        self._error_ratio.set(calibration.error if np.isfinite(calibration.error) else np.nan)
        self._widened.set(calibration.widened)
        self._withheld.set(calibration.reason_to_withhold is not None)
        self._found, self._error = found, ""

    def metrics(self) -> bytes:
        return generate_latest(self._registry)

    def page(self) -> bytes:
        found = self._found
        shown: dict[str, Any] = {
            "error": self._error,
            "at": None,
            "calibration": None,
            "checks": [],
            "advice": [],
            "withheld": None,
        }
        if found:
            shown |= {
                "at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.at)),
                "calibration": found.calibration,
                "checks": [*answer.checks(found.calibration)],
                "advice": [
                    (host, [(each.about, [*each.rows()], [*each.lines()]) for each in of]) for host, of in found.advice
                ],
                "withheld": found.calibration.reason_to_withhold,
            }
        return _HTML.get_template("page.html.j2").render(shown).encode()


def serve(address: tuple[str, int], shown: Shown, find: Callable[[], Found], every: float) -> None:
    """Until SIGINT or SIGTERM; raises `AdviceError` if the address is taken."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 30  # seconds for a request

        def do_GET(self) -> None:
            pages = {"/": ("text/html; charset=utf-8", shown.page), "/metrics": (CONTENT_TYPE_LATEST, shown.metrics)}
            kind, content = pages.get(self.path, ("", None))
            if content is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = content()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests aren't logged."""

    try:
        server = http.server.ThreadingHTTPServer(address, Handler)
    except OSError as error:
        raise AdviceError(f"{address[0]}:{address[1]}: {error.strerror}") from None
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://{address[0]}:{server.server_port}/", flush=True)
        while not stopped.is_set():
            shown.update(find)
            stopped.wait(every)
        server.shutdown()
