"""What `python -m fleet status` knows of a part."""

from __future__ import annotations

import pytest

from fleet.native import lacks_targets
from fleet.parts import Part
from tests.live.endpoints import Exposition


@pytest.mark.parametrize(
    ("page", "lacks"),
    [
        ("prometheus_sd_file_watcher_errors_total 2\n", True),
        ("prometheus_sd_file_watcher_errors_total 0\n", False),
        ("other 2\n", False),
        (None, False),
    ],
)
def test_a_prometheus_that_cannot_watch_its_targets_is_noticed(page: str | None, lacks: bool) -> None:
    with Exposition(page) as metrics:
        part = Part("prometheus-0-a", "prometheus", "prometheus", (), metrics.address, shard=0, replica="a")
        assert lacks_targets(part) is lacks
