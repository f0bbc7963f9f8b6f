"""A server process for the duration of a test."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
import requests

from deploy import go_programs, programs
from tests.support.layers import require_built_here
from tests.support.needs import missing
from tests.support.ports import free_port
from tests.support.waiting import wait_for

START_SECONDS = 60  # for a program to become ready on a busy machine
STOP_SECONDS = 15


class Program:
    """A server of the stack on a free port with a readiness page at /-/ready; `name` as for program_path."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.environment = dict(os.environ)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        """Start it and wait until it is ready; AssertionError with the end of its log if it doesn't become ready."""
        self._launch([str(program_path(self.name)), *flags])
        try:
            self._wait_until_ready(START_SECONDS)
        except BaseException:  # including a test's timeout: nothing may outlive its test
            self.stop()
            raise

    def stop(self, *, kill: bool = False) -> None:
        """Stop it, and kill it if it doesn't stop on request or if asked to; does nothing if it has ended."""
        if self._process is None:
            return
        if not kill:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._process = None

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def is_ready(self) -> bool:
        """Whether it is ready; overridden for programs other than the stack's servers."""
        return requests.get(self.url + "/-/ready", timeout=5).ok

    def _launch(self, command: list[str]) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def _wait_until_ready(self, seconds: float) -> None:
        process = self._process
        assert process is not None
        wait_for(
            lambda: process.poll() is not None or self.is_ready(),
            seconds,
            explain=lambda: f"{self.name} did not become ready:\n{self.log_tail()}",
        )
        assert process.poll() is None, f"{self.name} ended with status {process.returncode}:\n{self.log_tail()}"


def program_path(name: str) -> Path:
    """The path of a program of deploy/programs.py or go_programs.py; skips if it isn't available, except in CI."""
    try:
        if name not in go_programs.PROGRAMS:
            return programs.path(name)
        require_built_here(name)
        return go_programs.path(name)
    except (programs.ProgramsError, go_programs.GoProgramsError) as error:
        missing(f"no {name}: {error}")


def require_sloth() -> None:
    """Skip unless Sloth has been built, which takes minutes; CI builds it if it isn't cached."""
    if os.environ.get("CI") != "true" and not go_programs.is_built("sloth"):
        pytest.skip("Sloth is not built yet: `make rules` builds it in about two minutes")
    go_programs.path("sloth")


def shell_program(folder: Path, name: str, script: str) -> None:
    """A shell script as a program in a folder, which is made if it isn't there."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
