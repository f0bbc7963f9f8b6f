"""The demo, which runs instead of the stack: its data, its parts' configuration, and its history.

Everything is in .stack/demo, created each time, separate from the stack's data.
"""

import json
import os
import subprocess
from collections.abc import Mapping

from deploy import StackError, privileges, programs, python_packages
from deploy.parts import DEMO_PARTS
from deploy.programs import CHECKOUT

FOLDER = CHECKOUT / ".stack" / "demo"
SETTING = "VIRTSCOPE_DEMO"  # a running stack with this setting is the demo
_HERE = FOLDER.relative_to(CHECKOUT)
# After a restart of Prometheus, alerts with `for` over a minute keep their state. The default is ten minutes: others
# would wait again, and Alertmanager resolves alerts that it hasn't received for four minutes.
_LIVE = (
    "--config.file=prometheus/running.yml --storage.tsdb.path=.stack/data/prometheus --rules.alert.for-grace-period=1m"
)


def sources(demo: bool) -> dict[str, str]:
    """The settings of supervisord.conf for the source of the parts' data: this machine, or the demo."""
    played = {
        # Back-filled series have no stale markers: a sample is valid until the next one is due. Alerts keep their state
        # from the history; by default only alerts with `for` over ten minutes do.
        "PROMETHEUS_SOURCE": f"--config.file={_HERE}/prometheus/prometheus.yml --storage.tsdb.path={_HERE}/data"
        " --query.lookback-delta=75s --rules.alert.for-grace-period=0s",
        "XENTOP_SOURCE": f"--source=replay:{_HERE}/demo-xen.jsonl.gz",
        "KVM_SOURCE": f"--source=replay:{_HERE}/demo-kvm.jsonl.gz",
        "VESTAT_SOURCE": f"--source=replay:{_HERE}/demo-openvz.jsonl.gz",
        "DEMO_SOURCE": f"--folder {_HERE}",
    }
    if demo:
        return {**played, SETTING: "1"}
    return {**dict.fromkeys(played, ""), "PROMETHEUS_SOURCE": _LIVE}


def prepare(ports: Mapping[str, int]) -> None:
    """Make recordings and a day of history that ends now; raises `StackError`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [python_packages.STACK.python, "-m", "demo", "prepare", "--folder", FOLDER]
    command += ["--promtool", programs.path("promtool"), "--prometheus", programs.path("prometheus")]
    of_demo = {part.name.removeprefix("demo-").removesuffix("-exporter"): ports[part.name] for part in DEMO_PARTS}
    command += ["--ports", json.dumps(of_demo)]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'exporters'}"}
    made = subprocess.run(
        list(map(str, command)), cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise StackError(f"can't make the demo's history: {made.stderr.strip()}")
    privileges.hand_over(FOLDER / "data")
