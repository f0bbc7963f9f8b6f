"""Hosts with 1,000 large guests and 300,000 series each: exporter pages and scrape limits.

Runs a real Prometheus with the shipped configuration and 600,000 series, so not on every change.
"""

from pathlib import Path

import pytest

from tests.proofs.bench import dense
from tests.proofs.bench.fleet import DENSE, Fleet
from tests.support import Prometheus

SECONDS = 240  # on a busy machine, for two scrapes and the rules after them


@pytest.mark.long
def test_none_of_it_is_refused_and_each_guest_is_recorded(tmp_path: Path) -> None:
    with (
        Fleet(with_dense_hosts=True) as fleet,
        Prometheus(tmp_path, fleet.targets(0), interval="15s", program="prometheus3") as prometheus,
    ):
        for platform in DENSE:
            of_host = f'{{host="dense-{platform}"}}'
            prometheus.wait_for(f"scrape_samples_post_metric_relabeling{of_host} >= 300000", SECONDS)
            assert prometheus.value(f"up{of_host}") == 1
            assert prometheus.value(f"scrape_samples_scraped{of_host}") >= 300_000
            guests = f'{{host="dense-{platform}", role="guest"}}'
            for record in ("vserver:cpu_usage:rate", "vserver:cpu_wait:rate", "vserver:disk_bytes:rate"):
                prometheus.wait_for(f"count(count by (vserver) ({record}{guests})) == {dense.GUESTS}", SECONDS)
