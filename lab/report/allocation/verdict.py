"""The answer in sentences: what a switch costs, what the containers lose, how soon it takes effect."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lab.allocation.scenario import DYNAMIC, STATIC
from lab.cgroups import CAP_PERIOD
from lab.report.allocation.groups import Case, Group
from lab.report.allocation.tables import delays, interval
from lab.report.loads import count
from lab.report.statistics import Estimate, estimate
from lab.report.units import CPU_TIME, RESPONSE, SHARE, significant

NEGLIGIBLE = 0.01  # of a CPU
# Of the machine's CPUs. Beyond, what a switch costs is taken from other load: CPU use can't rise, nor show a limit.
FULL = 0.95
EMULATED = "Measured on an emulated machine: this proves that it works, and its values are no more than that."
SATURATED = 0.95  # of the one CPU that all caps add up to: below, caps weren't all that limited the containers


def verdict(groups: Sequence[Group], cpus: float | None, *, emulated: bool = False) -> list[str]:
    """For readers who read no further: the cost of a switch first. `cpus` is how many the machine has, if known."""
    if not groups:
        return ["No step was measured to its end, so there is nothing to compare."]
    found = [EMULATED] if emulated else []
    found += [f"{group.name}: {_cost(group, cpus)}" for group in groups]
    for group in groups:
        disturbed = _disturbed(group)
        judged = (disturbed,) if disturbed else (_lost(group), _effect(group))
        found += [f"{group.name}: {sentence}" for sentence in (_writing(group), *judged) if sentence]
    return found


def _cost(group: Group, cpus: float | None) -> str:
    if cpus and group.used > FULL * cpus:
        return (
            f"what switching the caps costs could not show, as {significant(group.used)} of the machine's "
            f"{cpus:g} CPUs were used; repeat this with less other load."
        )
    line = group.host_line(DYNAMIC)
    slope = line.slope if line else None
    most = slope.high if slope else None
    if slope is None or most is None:
        return "too few steps to say what switching the caps costs."
    if most <= 0:
        return (
            "the rest of the machine used less CPU the more often caps were switched, which no cost explains: its "
            "other load changed meanwhile."
        )
    if slope.differs:
        found = f"{CPU_TIME.write(slope.mean)} of CPU (95 % interval {interval(slope, CPU_TIME)})"
        cost = f"switching the caps once costs {found}"
    else:
        cost = f"no cost of switching the caps was found; it is at most {CPU_TIME.write(most)} of CPU a time"
    seldom = max(1, math.ceil(most / NEGLIGIBLE))
    return f"{cost}, so that every {seldom} s or less often it is below {NEGLIGIBLE * 100:g} % of a CPU."


def _disturbed(group: Group) -> str:
    static = estimate(group.values(lambda one: one.capacity, STATIC))
    if static is None or static.mean >= SATURATED:
        return ""
    return (
        f"with static caps the containers used only {significant(static.mean)} of the one CPU that they may use: other "
        "load took it from them, so neither what they lost by switching nor its delay can be judged."
    )


def _writing(group: Group) -> str:
    cpu = group.per_call(lambda one: one.call_cpu, DYNAMIC)
    if cpu:
        return f"writing the caps took {CPU_TIME.write(cpu.mean)} of CPU each time."
    seconds = group.per_call(lambda one: one.call_seconds, DYNAMIC)
    return f"the commands for a switch took {RESPONSE.write(seconds.mean)} each time." if seconds else ""


def _lost(group: Group) -> str:
    parts = [
        part
        for what, of in (("CPU", lambda one: one.capacity), (group.unit, lambda one: one.performance))
        if (part := _beyond_noise(what, group.lost(of)))
    ]
    return f"relative to static caps the containers lost {' and '.join(parts)}." if parts else ""


def _beyond_noise(what: str, lost: Sequence[tuple[Case, Estimate]]) -> str:
    """In how many cases more was lost than noise explains, and how much at most; empty without repetitions."""
    ends = [found.high for _, found in lost if found.high is not None]
    if not ends:
        return ""
    real = [(case, found) for case, found in lost if found.differs and found.mean > 0]
    if not real:
        return f"{what} beyond noise in none of {count(len(lost), 'case')} (at most {SHARE.write(max(0.0, *ends))})"
    case, most = max(real, key=lambda one: one[1].mean)
    at = f"{case.magnitude} every {case.interval} s"
    spread = f"{SHARE.write(most.mean)} ± {SHARE.write(most.half)}"
    return f"{what} beyond noise in {len(real)} of {count(len(lost), 'case')}, most with {at}: {spread}"


def _effect(group: Group) -> str:
    raised, cut = delays(group)
    if raised is None or cut is None:
        return ""
    return f"a larger cap took effect {_after(raised)}, a smaller one {_after(cut)}."


def _after(delay: Estimate) -> str:
    """No sooner than within a period of the cap: in its first one a container still has what the kernel refills."""
    most = delay.mean if delay.high is None else delay.high
    if most <= CAP_PERIOD or not delay.differs:
        return f"within {RESPONSE.write(max(CAP_PERIOD, most))}"
    return f"after {RESPONSE.write(max(CAP_PERIOD, delay.mean))}"
