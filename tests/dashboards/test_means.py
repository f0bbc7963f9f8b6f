"""A mean of ratios, over applications and time, is a sum divided by a sum."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.signals import consolidation
from tests.dashboards.promtool import assert_answers

# Two applications for half an hour. In the first half blog is asked nine times as often as shop, and answers in 0.1 s
# where shop takes 1.1 s; in the second half there are hardly any requests, all take 2 s, and they cost ten times as
# much. Misses are many where hardly anything is done.
XEN = 'host="xen1",platform="xen"'
ANSWERS = 'tier="web",method="GET",status="2xx"'
HISTORY = {
    f"host:consolidation:apps{{{XEN}}}": "2x30",
    f'requests:duration_seconds_count:rate1m{{{XEN},app="blog",{ANSWERS}}}': "90x14 0.9x15",
    f'requests:duration_seconds_sum:rate1m{{{XEN},app="blog",{ANSWERS}}}': "9x14 1.8x15",
    f'requests:duration_seconds_count:rate1m{{{XEN},app="shop",{ANSWERS}}}': "10x14 0.1x15",
    f'requests:duration_seconds_sum:rate1m{{{XEN},app="shop",{ANSWERS}}}': "11x14 0.2x15",
    # A fifth of what they use is overhead beside: 0.9 and 0.6 CPUs, 10 and 60 ms for each request.
    f'app:cpu_usage:rate{{{XEN},app="blog"}}': "0.75x14 0.075x15",
    f'app:cpu_usage:rate{{{XEN},app="shop"}}': "0.5x14 0.05x15",
    f"host:guests_cpu_usage:rate{{{XEN}}}": "1.25x14 0.125x15",
    f"host:overhead_cpu:rate{{{XEN}}}": "0.25x14 0.025x15",
    f'app:cpu_per_request:seconds{{{XEN},app="blog"}}': "0.01x14 0.1x15",
    f'app:cpu_per_request:seconds{{{XEN},app="shop"}}': "0.06x14 0.6x15",
    f"host:instructions:rate{{{XEN}}}": "1000000x14 10000x15",
    f"host:llc_misses_per_instruction:ratio{{{XEN}}}": "0.001x14 0.5x15",
}
# 15 samples of the one half and 15 of the other, each in its units.
WANTED = {
    "Mean response": (20 + 2) / (100 + 1),
    "CPU per request": (1.5 + 0.15) / (100 + 1),
    "LLC MPKI": (1e6 + 5e6) / (1e6 + 1e4),
}


@pytest.mark.parametrize("name", WANTED)
def test_for_each_number_of_applications_it_weighs_each_request_alike(tmp_path: Path, name: str) -> None:
    (signal,) = (signal for signal in consolidation.AGAINST_APPS if signal.name == f"{name} by apps")
    assert_answers(
        tmp_path,
        f"round({signal.expr}, 0.0001)",
        29,
        {'{apps="2",placement="as found"}': round(WANTED[name], 4)},
        HISTORY,
    )
