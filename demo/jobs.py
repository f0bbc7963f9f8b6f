"""Additional guests that come and go in each hour of the story: jobs in their own guests, a reboot, a migration.

They are the same on every host that has guests (study.yml, jobs).
"""

from __future__ import annotations

from dataclasses import dataclass

from demo import study


@dataclass(frozen=True)
class Job:
    """A guest that runs from `begin` until `end`, in seconds of the hour; `begin` is greater if it runs past the hour.

    Those with the same name follow each other. One that `migrates` is on another host in between.
    """

    name: str
    begin: int
    end: int
    cpus: float
    migrates: bool = False


JOBS = [Job(**row) for row in study.CHOSEN["jobs"]]
NAMES = sorted({job.name for job in JOBS})


def jobs_at(phase: float) -> list[Job]:
    """The jobs that run at this second of the hour."""
    return [
        job
        for job in JOBS
        if job.begin <= phase < job.end or (job.begin > job.end and not job.end <= phase < job.begin)
    ]
