"""What a host does in a step, as rates, and what its counters have come to at a moment. Pure functions.

A counter is a rate summed up over the steps, so back-filled and live samples are of one curve, whoever asks and when.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from alerts.histograms import sensors_histogram
from demo import story, study
from demo.story import Step, instances_on
from demo.study import CHOSEN, MOST, PUBLISHED, between

EDGES = tuple(
    float(edge)
    for edge in sensors_histogram(
        (study.CHECKOUT / "telegraf/access_log.pl").read_text(), "telegraf/access_log.pl"
    ).edges
)
# On OpenVZ the host's own share is what is left of the last minute when the guests' is taken away. Who wasn't yet there
# at the sample before, or has just gone, would be in what is left: so a container is there, idle, for some seconds
# before its clients come, and when they have gone.
_EARLY = 35
_LINGER = 75
HOST = ""  # the host itself among its virtual servers: Dom0, or what is used beside the containers


class Work(NamedTuple):
    """Of a virtual server, each per second or up to a moment: CPU and waiting in seconds, traffic in bytes, events."""

    cpu: float
    wait: float
    received: float
    sent: float
    read: float
    written: float
    instructions: float
    cycles: float
    llc_misses: float
    dtlb_misses: float
    itlb_misses: float


class Answers(NamedTuple):
    """Of an application, each per second or up to a moment: requests, seconds they took, answers within each edge."""

    requests: float
    seconds: float
    within: tuple[float, ...]


class State(NamedTuple):
    """A host: its virtual servers by name, itself as HOST, and its applications; rates or counters."""

    work: dict[str, Work]
    answers: dict[str, Answers]


def rates(platform: str, step: Step) -> State:
    """What a host of this platform does in a step, per second."""
    apps = [f"rubis-{number}" for number in range(1, instances_on(platform, step) + 1)]
    mean = study.mean_response(platform, step.placement, len(apps), step.clients)
    requests = step.clients / (CHOSEN["think_seconds"] + mean)
    tiers = ("web", "db") if step.placement == "one node" else ("web",)
    cpus = {tier: _tier_cpus(platform, tier, step.clients) for tier in tiers}
    overhead = _overhead_cpus(platform, len(apps) * len(tiers), step.clients)
    events = _Events(platform, step, len(apps))
    utilisation = (len(apps) * sum(cpus.values()) + overhead) / CHOSEN["cpus"]
    waits = utilisation / (1 - utilisation)
    work: dict[str, Work] = {}
    if platform == "base":  # the machine is the one virtual server, and its own host
        work[HOST] = events.work(sum(cpus.values()), waits, requests, HOST, tiers)
    else:
        for app in apps:
            for tier in tiers:
                work[f"{app}-{tier}"] = events.work(cpus[tier], waits, requests, f"{app}-{tier}", [tier])
        work[HOST] = events.work(overhead, waits, 0, HOST, ())
    within = tuple(requests * _share_within(edge, mean) for edge in EDGES)
    return State(work, {app: Answers(requests, requests * mean, within) for app in apps})


def _share_within(seconds: float, mean: float) -> float:
    """The share of answers that took no longer, if they are spread as the sum of two equal waits: Erlang, 2 stages."""
    stages = 2 * seconds / mean
    return 1 - (1 + stages) * math.exp(-stages)


def _tier_cpus(platform: str, tier: str, clients: int) -> float:
    if tier == "db":
        least = PUBLISHED["database_tier_cpus"]["minimum"]
        return between(least, CHOSEN["database_tier_cpus_800_clients"][platform], clients)
    most = {**PUBLISHED["web_tier_cpus_800_clients"], **CHOSEN["web_tier_cpus_800_clients"]}[platform]
    slope = PUBLISHED["web_tier_cpus_per_100_clients"][platform] / 100
    return float(most - slope * (MOST - clients))


def _overhead_cpus(platform: str, guests: int, clients: int) -> float:
    """Dom0: linear in the clients, and in the guests through the two published points."""
    if platform != "xen":
        return float(CHOSEN["openvz_host_cpus"])
    one, four = (PUBLISHED["dom0_cpus_800_clients"][f"instances_{number}"] for number in (1, 4))
    return float((one + (four - one) * (guests - 1) / 3) * clients / MOST)


class _Events:
    """Instructions and misses of a host's CPU time in a step: for each second of it, alike for all on the host."""

    def __init__(self, platform: str, step: Step, instances: int) -> None:
        self._platform = platform
        base_per_cpu = CHOSEN["clock_hertz"] * CHOSEN["base_instructions_per_cycle"]
        base_misses = CHOSEN["base_misses_per_instruction"]
        if platform == "base":
            self._per_cpu, self._misses = base_per_cpu, base_misses
            return
        over = PUBLISHED["events_over_base"][platform]
        if step.placement == "one node":
            self._misses = base_misses * over["misses"] / over["instructions"]
            factor = 1.0
        else:
            grown = {
                1: 1.0,
                2: PUBLISHED["misses_per_instruction_1_to_2_instances"][platform],
                4: PUBLISHED["misses_per_instruction_1_to_2_instances"][platform]
                * CHOSEN["misses_per_instruction_2_to_4_instances"][platform],
            }[instances]
            self._misses = base_misses * CHOSEN["misses_per_instruction_over_base"][f"{platform}_1_instance"] * grown
            factor = self._instructions_beyond_cpu(instances)
        # So that with both tiers on one node and 800 clients, instructions are what is published of them.
        full = {tier: _tier_cpus("base", tier, MOST) for tier in ("web", "db")}
        here = sum(_tier_cpus(platform, tier, MOST) for tier in full) + _overhead_cpus(platform, 2, MOST)
        self._per_cpu = base_per_cpu * over["instructions"] * sum(full.values()) / here * factor

    def _instructions_beyond_cpu(self, instances: int) -> float:
        """How much more a second of CPU does with several instances: of Xen it is published for two."""
        if self._platform != "xen" or instances == 1:
            return 1.0
        instructions = (
            PUBLISHED["misses_1_to_2_instances"]["xen"] / PUBLISHED["misses_per_instruction_1_to_2_instances"]["xen"]
        )
        one, two = (count * _tier_cpus("xen", "web", MOST) + _overhead_cpus("xen", count, MOST) for count in (1, 2))
        return float(instructions / (two / one))

    def work(self, cpu: float, waits: float, requests: float, vserver: str, tiers: Iterable[str]) -> Work:
        """What a virtual server with these tiers does, with so much CPU, and as long a wait for each second of it."""
        instructions = cpu * self._per_cpu
        if self._platform == "base":
            tlb_over = {"data": 1, "instruction": 1}
        elif self._platform == "xen":
            tlb_over = CHOSEN["tlb_misses_over_base"]["xen_host" if vserver == HOST else "xen_guest"]
        else:
            tlb_over = CHOSEN["tlb_misses_over_base"]["openvz"]
        tlb = CHOSEN["base_tlb_misses_per_instruction"]
        web, db = "web" in tiers, "db" in tiers
        traffic = {
            way: requests * (web * CHOSEN["request_bytes"][way] + db * CHOSEN["query_bytes"][way])
            for way in ("received", "sent")
        }
        disk = {
            way: requests * sum(CHOSEN["disk_bytes_per_request"][tier][way] for tier in tiers)
            for way in ("read", "written")
        }
        return Work(
            cpu=cpu,
            wait=cpu * waits,
            **traffic,
            **disk,
            instructions=instructions,
            cycles=cpu * CHOSEN["clock_hertz"],
            llc_misses=instructions * self._misses,
            dtlb_misses=instructions * tlb["data"] * tlb_over["data"],
            itlb_misses=instructions * tlb["instruction"] * tlb_over["instruction"],
        )


class Counters:
    """A host's counters, which are 0 at `origin` in Unix time and grow by its story."""

    def __init__(self, host: str, origin: float) -> None:
        self.platform = story.PLATFORMS[host]
        self.origin = origin
        self._rates = [rates(self.platform, step) for step in story.STEPS]
        # Of the step asked for last: when it began, and the counters of then.
        self._at_step: tuple[float, State] = (-1, State({}, {}))
        self._before = list(accumulate(map(_over, self._rates, story.STEPS), _plus, initial=State({}, {})))

    def at(self, seconds: float) -> State:
        """The counters of those virtual servers and applications that there are at this Unix time."""
        total = self._total(seconds)
        number = story.STEPS.index(story.step_at(seconds))
        living = self._rates[number]
        names = set(living.work)
        phase, step = seconds % story.CYCLE, story.STEPS[number]
        if self.platform == "openvz" and step.end - phase < _EARLY:
            names |= set(self._rates[(number + 1) % len(self._rates)].work)
        if self.platform == "openvz" and phase - step.begin < _LINGER:
            names |= set(self._rates[number - 1].work)
        return State({name: total.work[name] for name in names}, {app: total.answers[app] for app in living.answers})

    def machine_at(self, seconds: float) -> Work:
        """The counters of the machine as a whole, with all that was ever done on it."""
        return Work(*map(sum, zip(*self._total(seconds).work.values(), strict=True)))

    def rates_at(self, seconds: float) -> State:
        """What it does at this Unix time, per second."""
        return self._rates[story.STEPS.index(story.step_at(seconds))]

    def _total(self, seconds: float) -> State:
        number = story.STEPS.index(story.step_at(seconds))
        began = seconds // story.CYCLE * story.CYCLE + story.STEPS[number].begin
        if self._at_step[0] != began:
            cycles = seconds // story.CYCLE - self.origin // story.CYCLE
            since_origin = _plus(_times(self._before[-1], cycles), _times(self._phase(self.origin), -1))
            self._at_step = began, _plus(self._before[number], since_origin)
        return _plus(self._at_step[1], _times(self._rates[number], seconds - began))

    def _phase(self, seconds: float) -> State:
        """What the current cycle has brought up to this Unix time."""
        phase = seconds % story.CYCLE
        number = story.STEPS.index(story.step_at(seconds))
        return _plus(self._before[number], _times(self._rates[number], phase - story.STEPS[number].begin))


def _over(state: State, step: Step) -> State:
    return _times(state, step.end - step.begin)


def _times(state: State, factor: float) -> State:
    return State(
        {name: Work(*(factor * figure for figure in work)) for name, work in state.work.items()},
        {
            app: Answers(factor * a.requests, factor * a.seconds, tuple(factor * count for count in a.within))
            for app, a in state.answers.items()
        },
    )


def _plus(one: State, other: State) -> State:
    work, answers = dict(one.work), dict(one.answers)
    for name, more in other.work.items():
        work[name] = Work(*map(sum, zip(work[name], more, strict=True))) if name in work else more
    for app, its in other.answers.items():
        had = answers.get(app, Answers(0, 0, (0,) * len(its.within)))
        within = tuple(map(sum, zip(had.within, its.within, strict=True)))
        answers[app] = Answers(had.requests + its.requests, had.seconds + its.seconds, within)
    return State(work, answers)
