"""The real Prometheus and Alertmanager with the project's own configuration, for the duration of a test.

    with Exposition(TEXT) as exporter, Prometheus(tmp_path, {"xentop": [exporter.group(host="xen1")]}) as prometheus:
        prometheus.wait_for('host:overhead:ratio{host="xen1"} > 0.5', seconds=30)

They run as shipped: `prometheus/` and `alerts/` are copied into a temporary folder, where only targets, addresses and
delays are changed. Everything listens on free loopback ports.
"""

from tests.support.alertmanager import Alertmanager
from tests.support.endpoints import Exposition, Mailbox, Webhook
from tests.support.prometheus import Prometheus

__all__ = ["Alertmanager", "Exposition", "Mailbox", "Prometheus", "Webhook"]
