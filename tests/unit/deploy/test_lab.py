"""`make lab` before its packages are installed."""

import subprocess
import sys

from deploy.places import CHECKOUT


def test_a_scenario_that_does_not_exist_is_refused_before_anything_is_installed() -> None:
    # -S: no installed package can be imported.
    command = [sys.executable, "-S", "-m", "deploy.lab", "run", "smok"]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: no scenario 'smok'; there are allocation, ")
