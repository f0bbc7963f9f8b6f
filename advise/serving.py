"""`python3 -m advise serve`: a page with advice for every host, and the calibration as metrics for Prometheus."""

import http.server
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jinja2
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from advise import AdviceError, answer
from advise.answer import Answer
from advise.checked import Calibration
from advise.questions import ABOUT

_HTML = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
)


@dataclass(frozen=True)
class Found:
    """What was found at a time: advice for hosts from which guests had better leave, by their names.

    `ask` answers a question of the page's form, of that time; it raises `AdviceError`.
    """

    at: float  # Unix time
    calibration: Calibration
    advice: Sequence[tuple[str, Sequence[Answer]]]
    ask: Callable[[Mapping[str, str]], Sequence[Answer]]


class Shown(Collector):
    """The latest findings, as the page and as metrics."""

    def __init__(self) -> None:
        self._found: Found | None = None
        self._error = ""

    @property
    def empty(self) -> bool:
        """Whether nobody has looked yet."""
        return self._found is None and not self._error

    def update(self, find: Callable[[], Found]) -> None:
        """Look again; without an answer the page keeps what was found before, and says so."""
        try:
            self._found, self._error = find(), ""
        except AdviceError as error:
            self._error = str(error)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics; absent until they are known."""
        if self._found or self._error:
            yield GaugeMetricFamily("advise_up", "Whether Prometheus answered the latest time.", not self._error)
        if self._found is None:
            return
        calibration = self._found.calibration
        inside = sum(each.inside for each in calibration.checks)
        what = "Checked predictions of response times, by whether the response was within the 90 % interval."
        predictions = GaugeMetricFamily("advise_predictions", what, labels=["inside"])
        predictions.add_metric(["true"], inside)
        predictions.add_metric(["false"], len(calibration.checks) - inside)
        yield predictions
        for name, text, value in (
            ("calibration_timestamp_seconds", "When the calibration was made, as Unix time.", self._found.at),
            ("interval_ratio", "Width of intervals / width by the model alone, in logarithms.", calibration.widened),
            (
                "withheld",
                "Whether predictions were so wrong that advice is withheld.",
                bool(calibration.reason_to_withhold),
            ),
        ):
            yield GaugeMetricFamily(f"advise_{name}", text, float(value))
        if calibration.checks:
            what = "Median error of the checked predictions, relative to the response."
            yield GaugeMetricFamily("advise_prediction_error_ratio", what, calibration.error)

    def metrics(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def page(self, asked: Mapping[str, str]) -> bytes:
        """With an answer to what was asked by its form, if anything."""
        found = self._found
        shown: dict[str, Any] = {
            "error": self._error,
            "questions": ABOUT,
            "asked": {name: asked.get(name, "") for name in ("question", "of", "number", "on")},
            "answers": [],
            "at": None,
            "calibration": None,
            "unchecked": answer.UNCHECKED,
            "checks": [],
            "advice": [],
            "withheld": None,
        }
        if found:
            shown |= {
                "at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.at)),
                "calibration": (
                    f"{answer.percent(found.calibration.inside)} of {len(found.calibration.checks)} observed responses "
                    f"were in their 90 % interval; the median error was {answer.percent(found.calibration.error)}."
                ),
                "checks": [*answer.checks(found.calibration)],
                "advice": [(host, _texts(of, found.calibration)) for host, of in found.advice],
                "withheld": found.calibration.reason_to_withhold,
            }
            if asked:
                none = answer.no_moves(found.calibration)
                try:
                    shown["answers"] = _texts(found.ask(asked), found.calibration) or [(none, [], [])]
                except AdviceError as error:
                    shown["answers"] = [(f"error: {error}", [], [])]
        return _HTML.get_template("page.html.j2").render(shown).encode()


def _texts(answers: Sequence[Answer], calibration: Calibration) -> list[tuple[str, list[tuple[str, ...]], list[str]]]:
    """Of each what it is about, the rows of a table, and what is advised."""
    return [(each.about, [*each.rows()], [*each.lines(calibration)]) for each in answers]


def serve(address: tuple[str, int], shown: Shown, find: Callable[[], Found], every: float) -> None:
    """Until SIGINT or SIGTERM; raises `AdviceError` if the address is taken."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 30  # seconds for a request

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path == "/":
                kind, body = "text/html; charset=utf-8", shown.page(dict(parse_qsl(url.query)))
            elif url.path == "/metrics":
                kind, body = CONTENT_TYPE_LATEST, shown.metrics()
            else:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
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

    failures: list[Exception] = []

    def look() -> None:
        try:
            while not stopped.wait(0 if shown.empty else every):
                shown.update(find)
        except Exception as failure:
            failures.append(failure)
            stopped.set()

    with server:
        for target in (server.serve_forever, look):  # a look may take minutes, and the end doesn't wait for it
            threading.Thread(target=target, daemon=True).start()
        print(f"http://{address[0]}:{server.server_port}/", flush=True)
        stopped.wait()
        server.shutdown()
    if failures:
        raise failures[0]
