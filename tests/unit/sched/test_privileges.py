"""Capabilities are dropped permanently, in a process that has them: as root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtscope.sched import privileges

EXPORTERS = Path(__file__).resolve().parents[3] / "exporters"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up: run this as root")


def said(code: str) -> str:
    """The output of a process with virtscope.sched.privileges that prints its final capabilities."""
    shown = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNew'))))"
    program = f"from virtscope.sched import privileges\n{code}\n{shown}"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=EXPORTERS, capture_output=True, text=True, check=False, timeout=30
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


NONE = f"{0:016x}"


@as_root
def test_what_is_kept_is_kept_and_nothing_is_left_in_any_other_set() -> None:
    assert said("privileges.keep_only(0)") == f"{NONE} {NONE} {NONE} {NONE} {NONE} 1"
    inheritable, permitted, effective, bounding, ambient, _ = said("privileges.keep_only(1 << 39)").split()
    assert permitted == effective == bounding == f"{1 << 39:016x}"
    assert inheritable == ambient == NONE
    code = "before = privileges.effective()\nwith privileges.none_in_use():\n    inside = privileges.effective()\n"
    assert said(f"{code}print(before > 0, inside, privileges.effective() == before)").startswith("True 0 True\n")


@as_root
def test_a_thread_that_still_has_them_is_said() -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    code += "try:\n    privileges.keep_only(0)\nexcept privileges.PrivilegesError as error:\n    print(error)\n"
    assert said(code).startswith("a thread still has capabilities that were given up: {")


@as_root
def test_as_much_memory_may_be_locked_as_its_rights_allow() -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]))
privileges.raise_memory_lock()
print("limits", *resource.getrlimit(resource.RLIMIT_MEMLOCK))
"""
    _, soft, hard = said(code).splitlines()[0].split()
    assert soft == hard
    assert int(hard) == -1 or not privileges.effective() >> 24 & 1  # CAP_SYS_RESOURCE may raise it
