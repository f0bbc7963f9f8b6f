"""An application with a Prometheus client, without a sensor: from its own histogram to its objectives."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Histogram, Metric, start_http_server

from alerts.generator import build
from tests.support import Prometheus
from tests.support.program import require_sloth

HISTOGRAMS = """\
histograms:
  - metric: http_request_duration_seconds
    app: {label: service}
    tier: {is: web}
    method: {label: method}
    status: {label: code}
    edges: [0.05, 0.1, 1]
"""
SHOP = """\
app: shop
about: The web shop.
objectives:
  latency: {share: 0.99, seconds: 1}
  availability: {share: 0.999}
low_traffic: 0.2
"""


class Consistent(CollectorRegistry):
    """A registry that shows no request whose time is in its histogram and that isn't counted yet, with `lock`."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        with self.lock:
            return list(super().collect())


@pytest.fixture
def shop() -> Iterator[str]:
    """Address of an application that answers nine of ten requests in 0.03 s each, and fails the tenth after 5 s."""
    registry, labels = Consistent(), ["service", "method", "code"]
    name, about = "http_request_duration_seconds", "Time to answer a request, in seconds."
    durations = Histogram(name, about, labels, buckets=[0.05, 0.1, 1], registry=registry)
    answered, failed = durations.labels("shop", "GET", "200"), durations.labels("shop", "GET", "503")
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            with registry.lock:
                for _ in range(9):
                    answered.observe(0.03)
                failed.observe(5)

    worker = threading.Thread(target=work)
    server, serving = start_http_server(0, "127.0.0.1", registry)
    worker.start()
    yield f"127.0.0.1:{server.server_port}"
    over.set()
    worker.join()
    server.shutdown()
    server.server_close()
    serving.join()


@pytest.mark.system
@pytest.mark.timeout(1800)  # CI may have to build Sloth
def test_its_own_histogram_is_judged_as_a_sensors_is(tmp_path: Path, shop: str) -> None:
    require_sloth()
    target = {"targets": [shop], "labels": {"host": "web1", "platform": "base"}}
    prometheus = Prometheus(tmp_path, {"app": [target]})
    make_rules(prometheus.folder)
    with prometheus:
        prometheus.wait_for('ALERTS{alertname="ObjectiveBurnsFast",alertstate="firing"}', 60)
        (alert,) = [alert for alert in prometheus.alerts() if "objective" in alert["labels"]]
        assert [alert["labels"][label] for label in ("app", "host", "objective")] == ["shop", "web1", "availability"]
        of_shop = '{host="web1",platform="base",app="shop",tier="web"}'
        assert prometheus.value(f"app:response_seconds:mean{of_shop}") == pytest.approx(0.03)
        assert prometheus.value(f"app:errors:ratio{of_shop}") == pytest.approx(0.1, rel=0.05)
        # The client calls this edge 1.0, and the objective 1.
        assert prometheus.value('app:slo_error:ratio_rate5m{app="shop",objective="latency"}') == pytest.approx(0)


def make_rules(checkout: Path) -> None:
    """Give a checkout this application alone, and the rules that `make rules` writes for it."""
    (checkout / "prometheus/histograms.yml").write_text(HISTOGRAMS)
    for shipped in checkout.glob("alerts/objectives/*.yml"):
        shipped.unlink()
    (checkout / "alerts/objectives/shop.yml").write_text(SHOP)
    (checkout / "telegraf").mkdir()
    shutil.copy(build.CHECKOUT / "telegraf/access_log.pl", checkout / "telegraf")
    build.write(build.read(checkout), checkout)
