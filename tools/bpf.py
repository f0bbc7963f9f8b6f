"""Compiles sched-exporter's BPF programs: `make bpf`, with the packages in tests/packages.txt.

The objects are committed, so the exporter needs no compiler. The compiler must be Debian 12's, as others generate
different bytes.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from deploy.programs import CHECKOUT

CLANG, STRIP = "clang-14", "llvm-strip-14"
SOURCES = sorted(CHECKOUT.glob("exporters/virtscope/sched/*.bpf.c"))


def build(source: Path, target: Path) -> None:
    """Compile a source; raises CalledProcessError if that fails.

    BTF needs -g; its DWARF, which has paths, is stripped. So the object has no traces of the machine.
    """
    headers = f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"  # <asm/types.h>
    flags = ["-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=.", "-target", "bpf", f"-I{headers}"]
    subprocess.run([CLANG, *flags, "-c", source.name, "-o", target], cwd=source.parent, check=True)
    subprocess.run([STRIP, "-g", target], check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: python -m tools.bpf")
    for each in SOURCES:
        build(each, each.with_suffix(".o"))
