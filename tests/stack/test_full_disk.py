"""A disk for the data that is full, or too small: it is said, with what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.stack.conftest import Checkout, assert_refused
from tests.support.mounts import tmpfs
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system

MEGABYTE = 2**20


def resize(folder: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


def test_a_disk_that_gets_full_is_seen_by_status(fresh: Checkout) -> None:
    with tmpfs(fresh.folder / ".stack" / "data" / "prometheus", "size=600m") as data:
        fresh.must("up")
        fresh.status()
        resize(data, shutil.disk_usage(data).used)
        status = wait_for(lambda: fresh.make("status"), until=lambda made: made.returncode != 0).stdout
        assert "Prometheus has stored no sample of the past" in status
        assert "the disk of .stack/data/prometheus is full (0 MB free)" in status
        assert re.search(r"^prometheus +running ", status, re.MULTILINE)  # and all of it seems to be well
        assert "But Prometheus has stored no sample" in fresh.make("up").stdout

        resize(data, 600 * MEGABYTE)
        fresh.status()
        fresh.must("down")


def test_the_data_s_own_disk_is_looked_at_before_a_start(fresh: Checkout, tmp_path: Path) -> None:
    data = fresh.folder / ".stack" / "data" / "prometheus"
    small = "only 10 MB are free where .stack/data/prometheus"
    with tmpfs(data, "size=10m"):
        assert_refused(fresh.make("up"), fresh, small)
    data.rmdir()
    with tmpfs(tmp_path / "disk", "size=10m") as disk:
        data.symlink_to(disk)
        assert_refused(fresh.make("up"), fresh, small, str(disk))
