"""Each kind of change that graphs mark is found in series that have it, and nothing is marked in those that stay."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards import marks
from tests.live.program import program_path

HOST = 'platform="xen",host="h1"'
STEP = "1m"
CHANGED_AT = "3m"
AFTER = "5m"  # with nothing new since


def of(vserver: str) -> str:
    return f'{HOST},vserver="{vserver}",role="guest"'


# A sample a minute, the change in the fourth.
SERIES = {
    f"host:cpu_capacity:cpus{{{HOST}}}": "4x9",
    f"host:vcpu_overcommit:ratio{{{HOST}}}": "2x2 3x6",
    **{f"vserver:cpu_usage:rate{{{of(name)}}}": "1x9" for name in ("changed", "given", "taken", "heavier", "again")},
    f"vserver:cpu_limit:cpus{{{of('changed')}}}": "1x2 2x6",
    f"vserver:cpu_limit:cpus{{{of('given')}}}": "_x3 1x6",
    f"vserver:cpu_limit:cpus{{{of('taken')}}}": "1x2 stale _x6",
    f"vserver:cpu_weight:shares{{{of('heavier')}}}": "256x2 512x6",
    f"vserver:cpu_usage:rate{{{of('new')}}}": "_x3 1x6",
    f"vserver:cpu_usage:rate{{{of('gone')}}}": "1x2 stale _x6",
    f"vserver:starts:count1h{{{of('again')}}}": "0x2 1x6",
}
ON_THE_HOST = "vCPUs came or went"
MARKED = {
    "reallocations": {
        "Cap of changed changed": "changed",
        "Cap of given given": "given",
        "Cap of taken taken away": "taken",
        "Weight of heavier changed": "heavier",
        ON_THE_HOST: "",
    },
    "starts_and_ends": {"new came": "new", "gone went": "gone", "again was started again": "again"},
}


@pytest.mark.parametrize(("kind", "marked"), MARKED.items(), ids=MARKED)
def test_every_change_is_marked_once_and_by_name(kind: str, marked: dict[str, str], tmp_path: Path) -> None:
    annotation = getattr(marks, kind)().to_json()
    assert annotation["titleFormat"] == "{{what}}"
    expr = str(annotation["expr"]).replace("$host_platform", "xen").replace("$host", "h1").replace("$__interval", STEP)
    told = [f'{{{of(vserver) if vserver else HOST},what="{what}"}}' for what, vserver in marked.items()]
    names = f"group by (platform, host, vserver, role, what) ({expr})"
    tests = [
        {"expr": names, "eval_time": CHANGED_AT, "exp_samples": [{"labels": labels, "value": 1} for labels in told]},
        {"expr": names, "eval_time": AFTER, "exp_samples": []},
    ]
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    file = tmp_path / "marks.yml"
    file.write_text(yaml.safe_dump({"tests": [{"interval": STEP, "input_series": series, "promql_expr_test": tests}]}))
    run = subprocess.run(
        [program_path("promtool"), "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
