"""CPU cap utilisation compares a minute's use with the cap of that minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.signals import vserver
from tests.dashboards.promtool import assert_answers

BATCH = 'host="xen1",platform="xen",vserver="batch",role="guest"'
# From minute 3 on the cap is 1 CPU. In the minute before that it used 2.8 CPUs, which was allowed.
HISTORY = {
    f"vserver:cpu_usage:rate{{{BATCH}}}": "2.8 2.8 2.8 2.8 0.9 0.9 0.9",
    f"vserver:cpu_limit:cpus{{{BATCH}}}": "3.5 3.5 3.5 1 1 1 1",
}


@pytest.mark.parametrize(("minute", "used"), [(2, 2.8 / 3.5), (3, 2.8 / 3.5), (4, 0.9), (6, 0.9)])
def test_a_cap_that_was_just_lowered_is_not_exceeded(tmp_path: Path, minute: int, used: float) -> None:
    expr = vserver.LIMIT_USED.expr.replace("$vserver", "batch")
    assert_answers(tmp_path, expr, minute, {f"{{{BATCH}}}": used}, HISTORY)
