"""Starts: with the oldest Python of watched hosts, and interrupted by signals such as an early Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import prometheus_client
import pytest

from deploy.exporters import FOLDERS
from tests.e2e.running_exporter import EXPORTERS
from tests.support.waiting import wait_for

# Runs a package, and sends the process a signal when it is about to import a given module.
INTERRUPTED = """
import os, runpy, sys

package, module, number = sys.argv[1:]

class Interrupt:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Interrupt())
runpy.run_module(package, run_name="__main__")
"""


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_signal_while_it_is_imported_ends_it_without_a_word(folder: str) -> None:
    for module, number in product(["prometheus_client", "virtscope.toolkit.server"], [signal.SIGINT, signal.SIGTERM]):
        command = [sys.executable, "-c", INTERRUPTED, f"virtscope.{folder}", module, str(int(number))]
        done = subprocess.run(command, cwd=EXPORTERS, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (-number, "", ""), (module, number.name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_before_it_listens_ends_it_and_what_it_has_started(tmp_path: Path, number: signal.Signals) -> None:
    started, xentop = tmp_path / "started", tmp_path / "xentop"
    noted = f"echo $$ > {started}.new\nmv {started}.new {started}"
    xentop.write_text(f"#!/bin/sh\n{noted}\nwhile sleep 1; do echo an iteration; done\n")
    xentop.chmod(0o755)
    os.mkfifo(tmp_path / "web.yml")  # nothing writes, so startup blocks here
    command = [sys.executable, "-m", "virtscope.xen", "--source=xentop", f"--web.config.file={tmp_path / 'web.yml'}"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(command, cwd=EXPORTERS, env=environment, stderr=subprocess.DEVNULL) as exporter:
        try:
            wait_for(started.exists, 60)
            exporter.send_signal(number)
            assert exporter.wait(30) == -number
        finally:
            exporter.kill()
    child = Path("/proc", started.read_text().strip())
    wait_for(lambda: not child.exists(), 60)  # until its next line, which nothing reads


# The exporters' only dependency, pure Python: the installed copy works for any other version.
PACKAGES = Path(prometheus_client.__file__).parents[1]


def _interpreter(version: str) -> str:
    by_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    for python in [shutil.which(f"python{version}"), *map(str, by_pyenv)]:
        # pyenv puts shims on PATH even for versions that they then refuse to run.
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
