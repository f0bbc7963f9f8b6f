"""A small or noexec disk for the duration of a test."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import need_root


@contextlib.contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """The folder as a separate empty disk; `options` are those of mount, such as "size=10m". Skips unless root."""
    need_root("can mount a disk")
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "virtscope-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a disk can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
