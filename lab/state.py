"""A run's state on disk, so that it can be resumed after a crash."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, ValidationError

from deploy.programs import CHECKOUT
from lab import LabError
from lab.keys import Scenario
from lab.scenario import Scale

RUNS = CHECKOUT / ".stack" / "lab" / "runs"


class State(BaseModel):
    digest: str  # of the scenario's file
    scale: Scale | None = None  # None: not calibrated yet
    finished: list[str] = []  # steps, by name
    over: bool = False
    folder: Path = Field(RUNS, exclude=True)

    @property
    def run(self) -> str:
        """Sorts by time, such as "20261121T090512-scale"."""
        return self.folder.name

    @classmethod
    def begin(cls, scenario: Scenario, now: datetime, runs: Path = RUNS) -> Self:
        folder = runs / f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{scenario.name}"
        state = cls(digest=scenario.digest, folder=folder)
        state.folder.mkdir(parents=True)
        state.save()
        return state

    @classmethod
    def unfinished(cls, scenario: Scenario, runs: Path = RUNS) -> Self | None:
        """The latest run of exactly this scenario, if it isn't complete; raises `LabError` if it can't be read."""
        for file in sorted(runs.glob(f"*-{scenario.name}/state.json"), reverse=True):
            try:
                state = cls.model_validate_json(file.read_bytes())
            except ValidationError:
                raise LabError(f"{file} is damaged, so its run can't continue; start over with NEW=1") from None
            state.folder = file.parent
            if state.digest == scenario.digest:
                return None if state.over else state
        return None

    def save(self) -> None:
        """Write it to disk atomically; after a crash there is the old file or the new one, never an empty one."""
        new = self.folder / "state.new"
        with new.open("w") as file:
            file.write(self.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.folder / "state.json")
