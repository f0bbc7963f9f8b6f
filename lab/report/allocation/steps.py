"""What each step measured: from the samples to the study's own quantities, capacity, performance and the host's CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab import LabError
from lab.allocation.metrics import FOLLOWED, LATER
from lab.allocation.scenario import Step
from lab.prometheus import Sample
from lab.report.allocation.recording import Recording

SETTLED = 2  # seconds after a switch, in which it takes effect; the study saw 1 to 2
FIRST = tuple(str(second) for second in range(SETTLED))
AFTER = (*(str(second) for second in range(SETTLED, FOLLOWED)), LATER)
SHORT_SECONDS = 1.5  # a step that lacks more than this has not been measured to its end


@dataclass(frozen=True)
class Measured:
    """One attempt at a step. Times are in seconds, by `since`: the whole seconds since the caps were last written."""

    step: Step
    attempt: int
    """The Unix time at which it began."""
    planned: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    machine_cpu: Mapping[str, float] = field(default_factory=dict)
    container_cpu: Mapping[tuple[str, float], float] = field(default_factory=dict)
    """By `since` and cap, of all containers that had it."""
    tasks: float = 0.0
    calls: float = 0.0
    call_cpu: float | None = None
    """None of another host's guests: there the commands' CPU is the host's own."""
    call_seconds: float = 0.0

    @property
    def duration(self) -> float:
        """How long it was measured."""
        return sum(self.seconds.values())

    @property
    def whole(self) -> bool:
        """Whether it was measured to its end."""
        return self.duration > 0 and self.duration >= self.planned - SHORT_SECONDS

    @property
    def capacity(self) -> float:
        """CPUs that all containers together used."""
        return sum(self.container_cpu.values()) / self.duration

    @property
    def performance(self) -> float:
        """Tasks that all containers together finished in a second."""
        return self.tasks / self.duration

    @property
    def host(self) -> float:
        """CPUs that everything outside of the containers used."""
        return sum(self.machine_cpu.values()) / self.duration - self.capacity

    def host_in(self, *since: str) -> float | None:
        """The same in only these seconds since a switch; None if there were none."""
        if not (seconds := sum(self.seconds.get(when, 0) for when in since)):
            return None
        contained = sum(cpu for (when, _), cpu in self.container_cpu.items() if when in since)
        return (sum(self.machine_cpu.get(when, 0) for when in since) - contained) / seconds

    def container_in(self, cap: float, *since: str) -> float | None:
        """CPUs that one container with this cap used in these seconds since a switch; None if there were none."""
        if not (seconds := sum(self.seconds.get(when, 0) for when in since)):
            return None
        share = 1 if self.step.low == self.step.high else 0.5  # of the containers, as half of them have each cap
        used = sum(cpu for (when, of), cpu in self.container_cpu.items() if when in since and of == cap)
        return used / (seconds * self.step.containers * share)

    @property
    def cpu_of_a_switch(self) -> float | None:
        """CPU seconds outside of the containers in the first seconds after a switch, beyond what is used later.

        A second way to the cost of a switch, from within one step: drift between steps doesn't matter to it.
        """
        settled, first = self.host_in(*AFTER), [self.host_in(when) for when in FIRST]
        if settled is None or None in first:
            return None
        return sum((cpu or 0) - settled for cpu in first)  # each for one second

    def delay(self, cap: float, before: float) -> float | None:
        """Seconds until a cap has taken effect, on average over its switches from the cap `before`; None if unknown.

        A container that goes on as before for d seconds uses d * (before - now) more than one that changes at once.
        What it used in the first seconds, compared with what containers of both caps use later, gives d; at most
        `SETTLED`. It doesn't depend on how fine the samples are, and may be a little below 0 by their noise.
        """
        settled, settled_before = self.container_in(cap, *AFTER), self.container_in(before, *AFTER)
        first = [self.container_in(cap, when) for when in FIRST]
        if settled is None or settled_before is None or None in first or settled == settled_before:
            return None
        return sum((cpu or 0) - settled for cpu in first) / (settled_before - settled)


def overhead(static: float, dynamic: float) -> float:
    """The study's overhead: what is lost relative to static allocation, of CPU (capacity) or of tasks (performance).

    >>> round(overhead(2038, 1980), 4)
    0.0285
    """
    return (static - dynamic) / static


def measured(recording: Recording) -> list[Measured]:
    """The steps of a run, in the order in which they ran; of each its longest attempt, of equal ones the last.

    Raises `LabError`, naming the series, if a label is missing or isn't what it should be.
    """
    of: dict[str, list[Measured]] = {}
    for sample in recording.given["lab_allocation_step_info"]:
        of.setdefault(sample.labels.get("step", ""), []).append(_measured(sample, recording))
    longest = [max(attempts, key=lambda one: (round(one.duration), one.attempt)) for attempts in of.values()]
    return sorted(longest, key=lambda one: one.attempt)


def _measured(info: Sample, recording: Recording) -> Measured:
    try:
        step = Step(
            containers=int(info.labels["containers"]),
            pinning=info.labels["pinning"],
            interval=int(info.labels["interval"]),
            mode=info.labels["mode"],
            low=float(info.labels["low"]),
            high=float(info.labels["high"]),
            repetition=int(info.labels["repetition"]),
            load=info.labels["load"],
        )
        attempt = int(info.labels["attempt"])
    except (KeyError, ValueError) as error:
        raise LabError(f"lab_allocation_step_info with a label missing or wrong ({error}): {info.labels}") from error
    of_step = _OfStep(recording, info.labels["step"], info.labels["attempt"])
    try:
        return Measured(
            step,
            attempt,
            planned=of_step.total("step_planned_seconds"),
            seconds={labels["since"]: value for labels, value in of_step.given("seconds_total")},
            machine_cpu={labels["since"]: value for labels, value in of_step.given("machine_cpu_seconds_total")},
            container_cpu={
                (labels["since"], float(labels["cap"])): value
                for labels, value in of_step.given("container_cpu_seconds_total")
            },
            tasks=of_step.total("tasks_total"),
            calls=of_step.total("calls_total"),
            call_cpu=of_step.total("call_cpu_seconds_total") or None,
            call_seconds=of_step.total("call_seconds_total"),
        )
    except (KeyError, ValueError) as error:
        raise LabError(f"a series of step {step.name} has a label missing or wrong: {error}") from error


@dataclass(frozen=True)
class _OfStep:
    """The samples of one attempt at a step."""

    recording: Recording
    step: str
    attempt: str

    def given(self, metric: str) -> list[tuple[Mapping[str, str], float]]:
        """The labels and values of a metric, without its prefix."""
        return [
            (sample.labels, sample.value)
            for sample in self.recording.given[f"lab_allocation_{metric}"]
            if (sample.labels.get("step"), sample.labels.get("attempt")) == (self.step, self.attempt)
        ]

    def total(self, metric: str) -> float:
        """Of all its samples; 0 without any."""
        return sum(value for _, value in self.given(metric))
