"""The real Prometheus and Alertmanager, with the project's own configuration, for the time of one test.

    with Exposition(TEXT) as exporter, Prometheus(tmp_path, {"xentop": [exporter.group(host="xen1")]}) as prometheus:
        prometheus.wait_for('host:overhead:ratio{host="xen1"} > 0.5', seconds=30)

What runs is what ships: `prometheus/` and `alerts/` are copied into a temporary folder, and there only that is changed
which a test can't do without: whom to scrape, and how long to wait. Everything listens on loopback, on free ports.
"""

from tests.live.alertmanager import Alertmanager
from tests.live.endpoints import Exposition, Mailbox, Webhook
from tests.live.prometheus import Prometheus

__all__ = ["Alertmanager", "Exposition", "Mailbox", "Prometheus", "Webhook"]
