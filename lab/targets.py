"""The lab's targets files for the stack's Prometheus: `JOB-lab.yml` for each of its jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools import targets

JOBS = ("telegraf", "cadvisor", "lab")


def write(ports: Mapping[str, Iterable[int]], folder: Path = targets.FOLDER) -> None:
    """Write targets files for these loopback ports, by job, which is one of `JOBS`."""
    folder.mkdir(parents=True, exist_ok=True)
    host = json.dumps(targets.this_machine().host, ensure_ascii=False)
    for job, of_job in ports.items():
        addresses = json.dumps([f"127.0.0.1:{port}" for port in of_job])
        new = folder / f"{job}-lab.new"
        new.write_text(
            "# Written by the lab, and removed at its end.\n"
            f"- targets: {addresses}\n  labels: {{host: {host}, platform: cgroup}}\n"
        )
        new.replace(new.with_suffix(".yml"))


def remove(folder: Path = targets.FOLDER) -> None:
    """Remove them; does nothing if they are gone."""
    for job in JOBS:
        for suffix in ("yml", "new"):
            (folder / f"{job}-lab.{suffix}").unlink(missing_ok=True)
