"""What the exporter says of guests, against what Xen's own tools say."""

from __future__ import annotations

from tests.live import Prometheus
from tests.xen.conftest import GUESTS


def test_every_guest_is_there_under_its_own_name(prometheus: Prometheus) -> None:
    prometheus.wait_for('up{job="xentop"} == 1', seconds=30)
    domains = prometheus.wait_for('xen_domain_vcpus{domid!="0"}', seconds=30)
    vcpus = {series["metric"]["domain"]: float(series["value"][1]) for series in domains}
    assert vcpus == {guest.name: guest.vcpus for guest in GUESTS}
