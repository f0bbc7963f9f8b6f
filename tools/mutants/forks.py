"""Runs pytest repeatedly in this folder, each time in a fork with its packages already loaded.

    python -m tools.mutants.forks < requests

A request is a line of JSON: `tests`, their limits `seconds` and `cpu_seconds`, and whether to `keep` the byte code of
imported modules. The answer is a line with pytest's exit status (negative after a limit) and its CPU seconds. Loading
takes longer than most tests.
"""

import importlib
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress

import pytest

PACKAGES = ["_hypothesis_pytestplugin", "bcrypt", "cryptography.x509", "hypothesis.internal.conjecture.engine"]
PACKAGES += ["hypothesis.strategies", "prometheus_client.parser", "pytest_timeout", "requests", "trustme", "yaml"]
OPTIONS = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:locust", "-W", "ignore"]
OPTIONS += ["-m", "not system and not long", "--hypothesis-seed=0"]
MEMORY = 4 << 30  # bytes of address space: an endless loop may fill a list


def main() -> None:
    for package in PACKAGES:
        importlib.import_module(package)
    for line in sys.stdin:
        print(*_run(**json.loads(line)), flush=True)


def _run(tests: list[str], seconds: float, cpu_seconds: int, *, keep: bool) -> tuple[int, float]:
    child = os.fork()
    if child == 0:
        _be_child(tests, cpu_seconds, keep=keep)
    ended = os.pidfd_open(child)
    select.select([ended], [], [], seconds)
    os.close(ended)
    with suppress(ProcessLookupError):  # it may not have its own process group yet
        os.killpg(child, signal.SIGKILL)  # including programs left by a test
    os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def _be_child(tests: list[str], cpu_seconds: int, *, keep: bool) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    sys.dont_write_bytecode = not keep
    status = 1
    try:
        status = int(pytest.main([*OPTIONS, *tests]))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
