"""A fleet answers like one large Prometheus while its parts die: the short form of tests/proofs/fleet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nothing_is_lost_when_one_of_each_kind_dies_or_a_shard_is_cut_off_or_added() -> None:
    command = [sys.executable, "-m", "tests.proofs.fleet", "--short"]
    root = Path(__file__).resolve().parents[2]
    proof = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert proof.returncode == 0, proof.stdout + proof.stderr
    assert proof.stdout.splitlines()[-1] == "PASSED"
