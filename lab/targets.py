"""The lab's targets files for the stack's Prometheus: `JOB-lab-PID.yml` for each of its jobs."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deploy import targets
from lab import guard

JOBS = ("telegraf", "cadvisor", "lab")
_OURS = re.compile(rf"({'|'.join(JOBS)})-lab(-\d+)?\.(yml|new)", re.ASCII)


@contextlib.contextmanager
def written(ports: Mapping[str, Iterable[int]], folder: Path = targets.FOLDER) -> Iterator[None]:
    """Targets files for these loopback ports, by job, which is one of `JOBS`, while the block lasts.

    A killed lab's guards remove them, as of targets that are gone alerts would fire. Its pid is in their names, so that
    these guards leave the next run's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in [file for file in folder.iterdir() if _OURS.fullmatch(file.name)]:  # after a crash of the machine
        left_over.unlink(missing_ok=True)
    host = json.dumps(targets.this_machine().host, ensure_ascii=False)
    with contextlib.ExitStack() as ending:
        for job, of_job in ports.items():
            file = folder / f"{job}-lab-{os.getpid()}.yml"
            ending.enter_context(guard.watching(file))
            ending.callback(file.unlink, missing_ok=True)
            addresses = json.dumps([f"127.0.0.1:{port}" for port in of_job])
            new = file.with_suffix(".new")
            new.write_text(
                "# Written by the lab, and removed at its end.\n"
                f"- targets: {addresses}\n  labels: {{host: {host}, platform: cgroup}}\n"
            )
            new.replace(file)
        yield
