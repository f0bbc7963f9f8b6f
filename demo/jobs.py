"""The guests beside the study's, which come and go in each hour of its story: jobs in guests of their own, a reboot,
one that migrates. They are the same on every host that has guests (study.yml, jobs)."""

from __future__ import annotations

from dataclasses import dataclass

from demo import study


@dataclass(frozen=True)
class Job:
    """A guest that is there from `begin` until `end`, in seconds of the hour; `begin` is the greater one if it stays
    over the full hour. Those of one name follow each other. One that `migrates` is on another host meanwhile.
    """

    name: str
    begin: int
    end: int
    cpus: float
    migrates: bool = False


JOBS = [Job(**row) for row in study.CHOSEN["jobs"]]
NAMES = sorted({job.name for job in JOBS})


def jobs_at(phase: float) -> list[Job]:
    """Those that are there at this second of the hour."""
    return [
        job
        for job in JOBS
        if job.begin <= phase < job.end or (job.begin > job.end and not job.end <= phase < job.begin)
    ]
