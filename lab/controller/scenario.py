"""Scenarios of the controller (docs/lab.md): the loads of sites, phase by phase, and who sets their caps."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from deploy.documents import KeyProblem
from lab import keys
from lab.keys import OneOrMore, Seconds, WholeSeconds, rotated
from lab.scenario import Consolidation

Caps = Literal["none", "equal", "predicted"]
NONE, EQUAL, PREDICTED = get_args(Caps)
ENVIRONMENTS = {NONE: "no caps", EQUAL: "equal caps", PREDICTED: "caps by prediction"}
ONE_NODE = "one node"
MAX_LOAD = 0.9  # of the CPU, by all sites
Load = Annotated[float, Field(ge=0.02, le=MAX_LOAD)]
"""CPUs that a site is to use."""


@dataclass(frozen=True)
class Step:
    """All phases with one kind of caps."""

    caps: str
    repetition: int

    @property
    def name(self) -> str:
        """Unique in its run, such as "predicted-2"."""
        return f"{self.caps}-{self.repetition}"

    @property
    def environment(self) -> str:
        return ENVIRONMENTS[self.caps]


class Controller(keys.Scenario):
    study: Literal["controller"]
    loads: Annotated[tuple[tuple[Load, ...], ...], Field(min_length=1)]  # by phase and site
    phase: Annotated[WholeSeconds, Field(ge=20, le=3_600)] = 90
    interval: Annotated[WholeSeconds, Field(ge=3, le=600)] = 10  # between changes of caps
    objective: Annotated[float, Field(ge=2, le=100)] = 10.0  # of the mean response, in CPU times of a request
    caps: OneOrMore[Caps] = (NONE, EQUAL, PREDICTED)
    warm_up: Annotated[Seconds, Field(ge=5, le=3_600)] = 20.0
    think_time: Annotated[Seconds, Field(ge=0.1, le=600)] = 2.0
    timeout: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0
    seed: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    calibration: Annotated[Seconds, Field(ge=5, le=600)] = 30.0

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for number, phase in enumerate(self.loads):
            if not 1 <= len(phase) <= 8 or len(phase) != self.sites:
                raise KeyProblem("every phase needs one load for each site, 1 to 8", "loads", number)
            if sum(phase) > MAX_LOAD:
                problem = f"{sum(phase):g} CPUs exceed {MAX_LOAD:g}, the most for all sites together"
                raise KeyProblem(problem, "loads", number)
        if self.phase < 2 * self.interval or self.phase % self.interval:
            raise KeyProblem(f"{self.phase} s are not two or more intervals of {self.interval} s", "phase")
        return self

    @property
    def sites(self) -> int:
        return len(self.loads[0])

    @property
    def intervals(self) -> int:
        """In each phase."""
        return self.phase // self.interval

    @property
    def steps(self) -> tuple[Step, ...]:
        """Rotated by repetition, so that the first one varies."""
        return tuple(
            Step(caps, repetition)
            for repetition in range(1, self.repetitions + 1)
            for caps in rotated(self.caps, repetition - 1)
        )

    @property
    def stage(self) -> Consolidation:
        """The sites, as `lab.stage` takes them."""
        return Consolidation.model_construct(
            instances=(self.sites,),
            placement=(ONE_NODE,),
            think_time=self.think_time,
            timeout=self.timeout,
            seed=self.seed,
            calibration=self.calibration,
        )
