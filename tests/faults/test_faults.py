"""Each bar of docs/faults.md holds: all the faults, as `make faults` tries them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.stack.conftest import ROOT


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_no_fault_misses_a_bar() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk and cut a network: run this as root")
    tried = subprocess.run(
        [sys.executable, "-m", "faults"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=2300
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
