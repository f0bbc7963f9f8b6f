"""A run's state on disk, so that it can be resumed after a crash."""

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from deploy.programs import CHECKOUT
from lab import LabError
from lab.calibration import Scale
from lab.keys import Scenario

RUNS = CHECKOUT / ".stack" / "lab" / "runs"


@dataclass
class State:
    run: str  # sorts by time, such as "20261121T090512-scale"
    digest: str  # of the scenario's file
    folder: Path
    scale: Scale | None = None  # None: not calibrated yet
    finished: list[str] = field(default_factory=list)  # steps, by name
    over: bool = False

    @classmethod
    def begin(cls, scenario: Scenario, now: datetime, runs: Path = RUNS) -> Self:
        run = f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{scenario.name}"
        state = cls(run, scenario.digest, runs / run)
        state.folder.mkdir(parents=True)
        state.save()
        return state

    @classmethod
    def unfinished(cls, scenario: Scenario, runs: Path = RUNS) -> Self | None:
        """The latest run of exactly this scenario, if it isn't complete; raises `LabError` if it can't be read."""
        for file in sorted(runs.glob(f"*-{scenario.name}/state.json"), reverse=True):
            try:
                content = json.loads(file.read_text())
                scale = None if content["scale"] is None else Scale(**content["scale"])
                known = content["digest"], file.parent, scale, content["finished"], content["over"]
            except (ValueError, KeyError, TypeError):
                raise LabError(f"{file} is damaged, so its run can't continue; start over with NEW=1") from None
            state = cls(file.parent.name, *known)
            if state.digest == scenario.digest:
                return None if state.over else state
        return None

    def save(self) -> None:
        """Write it to disk atomically; after a crash there is the old file or the new one, never an empty one."""
        scale = None if self.scale is None else asdict(self.scale)
        content = {"digest": self.digest, "scale": scale, "finished": self.finished, "over": self.over}
        new = self.folder / "state.new"
        with new.open("w") as file:
            file.write(json.dumps(content, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.folder / "state.json")
