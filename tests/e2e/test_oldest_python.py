"""The exporters on the oldest Python of a watched host, as far as this machine has one.

ruff and vermin look for newer syntax and names; only the interpreter itself refuses, say, a generic NamedTuple.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import prometheus_client
import pytest

from deploy.exporters import FOLDERS
from tests.e2e.running_exporter import EXPORTERS

# The exporters' only dependency without flags, pure Python: what pip installed here will do for any other version.
PACKAGES = Path(prometheus_client.__file__).parents[1]


def _interpreter(version: str) -> str:
    by_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    for python in [shutil.which(f"python{version}"), *map(str, by_pyenv)]:
        # pyenv's shims are on PATH even for versions that they then refuse to run.
        if python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"no Python {version} on PATH or in ~/.pyenv: uv python install {version}")


@pytest.mark.system
@pytest.mark.parametrize("version", ["3.9", "3.10"])
def test_every_exporter_starts(version: str) -> None:
    python = _interpreter(version)
    environment = {**os.environ, "PYTHONPATH": f"{EXPORTERS}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}
    for folder in (*FOLDERS.values(), "ssh"):
        command = [python, "-m", f"virtscope.{folder}", "--version"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        assert (f"(Python {version}." in done.stdout, done.stderr) == (True, ""), folder
