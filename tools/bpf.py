"""Compiles sched-exporter's program for the kernel: `make bpf`, with what tests/packages.txt lists.

The object is committed, so that nobody needs a compiler to run the exporter. The compiler is Debian 12's by name:
others make other bytes of the same source.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from deploy.programs import CHECKOUT

CLANG, STRIP = "clang-14", "llvm-strip-14"
SOURCE = CHECKOUT / "exporters/virtscope/sched/waits.bpf.c"
OBJECT = SOURCE.with_suffix(".o")


def build(target: Path) -> None:
    """Compile the source; raises CalledProcessError where it doesn't compile.

    BTF needs -g; the DWARF that comes with it, and the paths in that, are stripped. Nothing of the machine is in the
    object.
    """
    headers = f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"  # <asm/types.h>
    flags = ["-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=.", "-target", "bpf", f"-I{headers}"]
    subprocess.run([CLANG, *flags, "-c", SOURCE.name, "-o", target], cwd=SOURCE.parent, check=True)
    subprocess.run([STRIP, "-g", target], check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: python -m tools.bpf")
    build(OBJECT)
