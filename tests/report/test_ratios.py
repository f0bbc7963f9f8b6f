"""Ratios of a step divide total usage by total work, over the whole step and all virtual servers."""

from pathlib import Path

from lab.measuring import Span, queries
from tests.dashboards.promtool import assert_answers

STEP = Span("lab", "cgroup", start=0, end=1920)
LAB = 'host="lab",platform="cgroup"'


def test_a_quiet_half_of_a_step_weighs_by_its_requests(tmp_path: Path) -> None:
    history = {
        f'app:cpu_per_request:seconds{{{LAB},app="auction-1"}}': "0.01x16 0.1x15",
        f'app:requests:rate{{{LAB},app="auction-1",tier="web"}}': "90x16 0.9x15",
    }
    query = queries(STEP, ["auction-1"])["cpu_per_request_with_host"]
    wanted = {'{app="auction-1"}': 0.0109}  # (0.9 + 0.09) / (90 + 0.9)
    assert_answers(tmp_path, f"round({query}, 0.0001)", 32, wanted, history)


def test_overhead_is_of_what_ended_virtual_servers_used_too(tmp_path: Path) -> None:
    history = {
        f"host:overhead_cpu:rate{{{LAB}}}": "0.1x32",
        f"host:cpu_usage:rate{{{LAB}}}": "1x32",
        f'vserver:cpu_usage:rate{{{LAB},vserver="lab",role="host"}}': "0.1x32",
        f'vserver:cpu_usage:rate{{{LAB},vserver="virtscope/auction-1-web",role="guest"}}': "0.4x32",
    }
    assert_answers(tmp_path, queries(STEP, ["auction-1"])["overhead_ratio"], 32, {"{}": 0.1}, history)
