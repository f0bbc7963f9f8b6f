"""What the demo says when it can't be prepared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from demo.study import CHECKOUT


def test_a_failing_promtool_is_reported_with_its_own_output(tmp_path: Path) -> None:
    promtool = tmp_path / "promtool"
    promtool.write_text("#!/bin/sh\necho 'write samples: no space left on device' >&2\nexit 1\n")
    promtool.chmod(0o755)
    folder = tmp_path / "demo"
    folder.mkdir()
    ports = '--ports={"prometheus": 1, "xentop": 2, "kvm": 3, "vestat": 4, "sensors": 5}'
    done = subprocess.run(
        [
            *(sys.executable, "-m", "demo", "prepare", f"--folder={folder}"),
            *(f"--promtool={promtool}", "--prometheus=none", ports),
        ],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "exporters")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "promtool failed: write samples: no space left on device\n")
