"""Capabilities are dropped permanently, in a process that has them: as root."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXPORTERS = Path(__file__).resolve().parents[3] / "exporters"

KEPT = 1 << 39


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up: run this as root")
def test_what_is_kept_is_kept_and_nothing_is_left_in_any_other_set() -> None:
    """Inheritable, permitted, effective, bounding, ambient ones; then no_new_privs."""
    none, kept = f"{0:016x}", f"{KEPT:016x}"
    in_use = "before = privileges.effective()\nwith privileges.none_in_use():\n    inside = privileges.effective()\n"
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    locked = "import resource\nlimit = resource.RLIMIT_MEMLOCK\n"
    locked += "resource.setrlimit(limit, (4096, resource.getrlimit(limit)[1]))\nprivileges.raise_memory_lock()\n"
    for code, said in (
        ("privileges.keep_only(0)", f"{none} {none} {none} {none} {none} 1"),
        (f"privileges.keep_only({KEPT})", f"{none} {kept} {kept} {kept} {none} 1"),
        (f"{in_use}print(before > 0, inside, privileges.effective() == before)", "True 0 True\n.*"),
        (
            f"{thread}try:\n    privileges.keep_only(0)\nexcept privileges.PrivilegesError as error:\n    print(error)",
            "a thread still has capabilities that were given up: {.*",
        ),
        # Only CAP_SYS_RESOURCE may raise the hard limit; the soft one follows it.
        (f"{locked}print(*resource.getrlimit(limit), privileges.effective() >> 24 & 1)", r"(-1 -1 .|(\d+) \2 0)\n.*"),
    ):
        assert re.fullmatch(said, output(code), re.DOTALL), code


def output(code: str) -> str:
    """The output of a process with virtscope.sched.privileges that prints its final capabilities."""
    shown = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNew'))))"
    program = f"from virtscope.sched import privileges\n{code}\n{shown}"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=EXPORTERS, capture_output=True, text=True, check=False, timeout=30
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
