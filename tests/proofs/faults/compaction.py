"""Prometheus killed during compaction: it gets half a day of blocks, which it compacts within a minute."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from deploy.parts import PROMETHEUS
from deploy.privileges import NOBODY
from tests.proofs.faults.stack import HurtStack
from tests.support.waiting import wait_for

HOURS = 12
SERIES = 1000
STEP = 60
SAMPLES = SERIES * HOURS * 3600 // STEP
LONGEST_WAIT = 120.0  # Prometheus looks for blocks each minute


@contextlib.contextmanager
def killed_amid(stack: HurtStack) -> Iterator[None]:
    """Kill Prometheus as soon as it writes a compacted block."""
    for block in _blocks(stack):
        block.rename(stack.data / block.name)  # atomically, because Prometheus may look for blocks at any moment
    wait_for(lambda: any(stack.data.glob("*.tmp-for-creation")), LONGEST_WAIT, every=0.002)
    os.kill(stack.pid(PROMETHEUS), signal.SIGKILL)
    yield


def complaint(stack: HurtStack) -> str:
    """A problem unless all samples of the blocks are there."""
    found = stack.api("query", query=f"sum(count_over_time(faults_old[{3 * HOURS}h]))")["result"]
    count = int(found[0]["value"][1]) if found else 0
    return f"{SAMPLES - count} of {SAMPLES} samples of the blocks are lost" if count != SAMPLES else ""


def _blocks(stack: HurtStack) -> list[Path]:
    """Two-hour blocks that end half a day ago, owned by nobody, on the data disk."""
    end = int(time.time()) // 7200 * 7200 - HOURS * 3600
    text, blocks = stack.folder / "old.om", stack.data / "old"
    with text.open("w") as file:
        file.write("# TYPE faults_old gauge\n")
        for series in range(SERIES):
            file.writelines(f'faults_old{{n="{series}"}} 1 {at}\n' for at in range(end - HOURS * 3600, end, STEP))
        file.write("# EOF\n")
    promtool = stack.checkout.folder / ".stack/bin/promtool"
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", text, blocks], check=True, capture_output=True
    )
    for path in (blocks, *blocks.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return [path for path in blocks.iterdir() if path.is_dir()]
