"""What the demo says when it can't be prepared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from demo import past
from demo.study import CHECKOUT


def alert_with(folder: Path, duration: str) -> past.Alert:
    rule = {"alert": "Slow", "expr": "up == 0", "for": duration}
    file = folder / "alerts" / "rules" / "all.yml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": [rule]}]}))
    _, (alert,) = past.read_rules(folder)
    return alert


@pytest.mark.parametrize(
    ("duration", "seconds"), [("500ms", 0.5), ("0s", 0), ("1m30s", 90), ("1h", 3600), ("1d", 86400), ("1w", 604800)]
)
def test_an_alert_waits_as_long_as_its_rule_says(tmp_path: Path, duration: str, seconds: float) -> None:
    assert alert_with(tmp_path, duration).seconds == seconds


@pytest.mark.parametrize("duration", ["1M", "5", "1h30", "10x5m", "soon", "-5m"])
def test_a_duration_that_is_none_is_an_error(tmp_path: Path, duration: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        alert_with(tmp_path, duration)


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
