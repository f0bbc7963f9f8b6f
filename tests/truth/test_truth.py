"""The neighbour that is named is the one who did it: four injected episodes through the real chain (`make truth`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.stack.conftest import ROOT
from truth.__main__ import UNTRIED


@pytest.mark.timeout(600)  # cAdvisor is built first if it isn't in the cache
def test_who_is_named_did_it() -> None:
    tried = subprocess.run(
        [sys.executable, "-m", "truth", "--short"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=590,
    )
    if tried.returncode == UNTRIED and os.environ.get("CI") != "true":
        pytest.skip(tried.stdout.strip())
    assert tried.returncode == 0, tried.stdout
