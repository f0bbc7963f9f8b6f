"""A disk for the data that is full, or too small: it is said, with what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stack.conftest import Checkout, eventually

MEGABYTE = 2**20


@contextmanager
def disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """The folder as a disk of its own, empty."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk: run this as root")
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "virtscope-test", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def resize(folder: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


@pytest.mark.long
def test_a_disk_that_gets_full_is_seen_by_status(fresh: Checkout) -> None:
    with disk(fresh.folder / ".stack" / "data" / "prometheus", 600) as data:
        up = fresh.make("up")
        assert up.returncode == 0, up.stdout
        assert eventually(lambda: fresh.make("status").returncode == 0), fresh.make("status").stdout
        used = shutil.disk_usage(data).used
        resize(data, used)
        assert eventually(lambda: fresh.make("status").returncode != 0, 120)
        status = fresh.make("status").stdout
        assert "Prometheus has stored no sample of the past" in status
        assert "the disk of .stack/data/prometheus is full (0 MB free)" in status
        assert re.search(r"^prometheus +running ", status, re.MULTILINE)  # and all of it seems to be well
        again = fresh.make("up")
        assert "But Prometheus has stored no sample" in again.stdout

        resize(data, 600 * MEGABYTE)
        assert eventually(lambda: fresh.make("status").returncode == 0, 60), fresh.make("status").stdout
        assert fresh.make("down").returncode == 0


@pytest.mark.parametrize("linked", [False, True], ids=["mounted", "linked"])
def test_the_data_s_own_disk_is_looked_at_before_a_start(fresh: Checkout, tmp_path: Path, linked: bool) -> None:
    data = fresh.folder / ".stack" / "data" / "prometheus"
    with disk(tmp_path / "disk" if linked else data, 10) as folder:
        if linked:
            data.parent.mkdir(parents=True)
            data.symlink_to(folder)
        up = fresh.make("up")
        assert up.returncode != 0
        [error] = [line for line in up.stdout.splitlines() if line.startswith("error: ")]
        assert "only 10 MB are free where .stack/data/prometheus" in error
        assert not linked or str(folder) in error
        assert fresh.processes() == {}
