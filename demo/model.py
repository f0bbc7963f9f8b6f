"""What a host does in a step, as rates, and its counters at a given time. Pure functions.

A counter is the integral of a rate over the steps, so back-filled and live samples are on the same curve.
"""

import math
import operator
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from alerts.generator.sensors import SCRIPT, sensors_edges
from demo import shop, story, study
from demo.story import Step, instances_on
from demo.study import CHOSEN, MAX_CLIENTS, PUBLISHED, between

EDGES = tuple(float(edge) for edge in sensors_edges((study.CHECKOUT / SCRIPT).read_text()))
HOST = ""  # the host itself as one of its virtual servers: Dom0, or everything outside the containers
IDLE, CAP = "(idle)", "(cap)"


class Work(NamedTuple):
    """Rates or counters of a virtual server: CPU and waiting in seconds, traffic in bytes, events."""

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


_NOTHING = Work(*[0.0] * len(Work._fields))


class Answers(NamedTuple):
    """Rates or counters of an application: requests, the seconds they took, answers within each bucket edge."""

    requests: float
    seconds: float
    within: tuple[float, ...]


class State(NamedTuple):
    """Rates or counters of a host: its virtual servers by name, itself as HOST, and its applications.

    `waits`, where measured, is each virtual server's wait by what ran meanwhile: another server, HOST, IDLE or CAP.
    """

    work: dict[str, Work]
    answers: dict[str, Answers]
    waits: dict[tuple[str, str], float]


_NONE = State({}, {}, {})


class Span(NamedTuple):
    """A part of the hour, in seconds, with constant rates."""

    begin: int
    end: int
    rates: State


class Life(NamedTuple):
    """A virtual server from its start to its end: its number within the hour, and the Unix time of its counters' start.

    The host's own number is 0. Each hour has the same numbers, as exporters replay a recording of one hour.
    """

    number: int
    began: float


def spans(platform: str) -> list[Span]:
    """An hour of a host of this platform."""
    if platform == "kvm":
        return [Span(phase.begin, phase.end, shop_rates(phase)) for phase in shop.PHASES]
    return [Span(step.begin, step.end, rates(platform, step)) for step in story.STEPS]


def memory(vserver: str) -> int:
    """The memory of a virtual server, in bytes."""
    return int(CHOSEN["host_memory_bytes" if vserver == HOST else "guest_memory_bytes"])


def rates(platform: str, step: Step) -> State:
    """Rates of a host of this platform in a step, per second."""
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
    if platform == "base":  # the machine is the only virtual server, and its own host
        work[HOST] = events.work(sum(cpus.values()), waits, requests, HOST, tiers)
    else:
        for app in apps:
            for tier in tiers:
                work[f"{app}-{tier}"] = events.work(cpus[tier], waits, requests, f"{app}-{tier}", [tier])
        work[HOST] = events.work(overhead, waits, 0, HOST, ())
    return State(work, dict.fromkeys(apps, _answers(requests, mean)), {})


def _answers(requests: float, mean: float) -> Answers:
    return Answers(requests, requests * mean, tuple(requests * _share_within(edge, mean) for edge in EDGES))


def _share_within(seconds: float, mean: float) -> float:
    """The share of answers within this time, if distributed as the sum of two equal waits (Erlang, 2 stages)."""
    stages = 2 * seconds / mean
    return 1 - (1 + stages) * math.exp(-stages)


def _tier_cpus(platform: str, tier: str, clients: int) -> float:
    if tier == "db":
        least = PUBLISHED["database_tier_cpus"]["minimum"]
        return between(least, CHOSEN["database_tier_cpus_800_clients"][platform], clients)
    most = {**PUBLISHED["web_tier_cpus_800_clients"], **CHOSEN["web_tier_cpus_800_clients"]}[platform]
    slope = PUBLISHED["web_tier_cpus_per_100_clients"][platform] / 100
    return float(most - slope * (MAX_CLIENTS - clients))


def _overhead_cpus(platform: str, guests: int, clients: int) -> float:
    """Dom0's CPU: linear in the clients, and in the guests between the two published points."""
    if platform != "xen":
        return float(CHOSEN["openvz_host_cpus"])
    one, four = (PUBLISHED["dom0_cpus_800_clients"][f"instances_{number}"] for number in (1, 4))
    return float((one + (four - one) * (guests - 1) / 3) * clients / MAX_CLIENTS)


class _Events:
    """Instructions and misses per second of CPU time in a step, the same for everything on the host."""

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
            two = PUBLISHED["misses_per_instruction_1_to_2_instances"][platform]
            four = two * CHOSEN["misses_per_instruction_2_to_4_instances"][platform]
            one = CHOSEN["misses_per_instruction_over_base"][f"{platform}_1_instance"]
            self._misses = base_misses * one * {1: 1.0, 2: two, 4: four}[instances]
            factor = self._instructions_beyond_cpu(instances)
        # So that instructions match those published for both tiers on one node and 800 clients.
        full = {tier: _tier_cpus("base", tier, MAX_CLIENTS) for tier in ("web", "db")}
        here = sum(_tier_cpus(platform, tier, MAX_CLIENTS) for tier in full) + _overhead_cpus(platform, 2, MAX_CLIENTS)
        self._per_cpu = base_per_cpu * over["instructions"] * sum(full.values()) / here * factor

    def _instructions_beyond_cpu(self, instances: int) -> float:
        """How many more instructions per CPU second several instances run: published for two on Xen."""
        if self._platform != "xen" or instances == 1:
            return 1.0
        instructions = (
            PUBLISHED["misses_1_to_2_instances"]["xen"] / PUBLISHED["misses_per_instruction_1_to_2_instances"]["xen"]
        )
        one, two = (
            count * _tier_cpus("xen", "web", MAX_CLIENTS) + _overhead_cpus("xen", count, MAX_CLIENTS)
            for count in (1, 2)
        )
        return float(instructions / (two / one))

    def work(self, cpu: float, waits: float, requests: float, vserver: str, tiers: Collection[str]) -> Work:
        """Rates of a virtual server with these tiers, given its CPU, and its wait per CPU second."""
        over = CHOSEN["tlb_misses_over_base"][
            "xen_host" if (self._platform, vserver) == ("xen", HOST) else self._platform
        ]
        tlb = {cache: misses * over[cache] for cache, misses in CHOSEN["base_tlb_misses_per_instruction"].items()}
        misses = {"llc": self._misses, **tlb}
        per_cpu = self._per_cpu, CHOSEN["clock_hertz"]
        return _work(cpu, per_cpu, misses, wait=cpu * waits, **_bytes(requests, tiers))


def _work(cpu: float, per_cpu: tuple[float, float], misses: Mapping[str, float], **others: float) -> Work:
    """per_cpu: instructions and cycles in a second of CPU time; misses: of each cache for an instruction."""
    instructions, cycles = (cpu * each for each in per_cpu)
    missed = {f"{cache}_misses": instructions * each for cache, each in misses.items()}
    return Work(cpu=cpu, instructions=instructions, cycles=cycles, **missed, **others)


def shop_rates(phase: shop.Phase) -> State:
    """Rates of demo-kvm in a phase, per second. A guest's CPU is its guest time."""
    cpus = {**phase.cpus, HOST: shop.CHOSEN["host_cpus"]}
    waits: dict[tuple[str, str], float] = {}
    for guest, own in phase.cpus.items():
        # In proportion to CPU use; a guest's own vCPU seldom runs where another one waits.
        running = {**cpus, guest: own / 10, IDLE: 0.01}
        waited = own * phase.waits[guest] / sum(running.values())
        waits |= {(guest, by): waited * share for by, share in running.items()}
        if guest in phase.throttled:
            waits[guest, CAP] = phase.throttled[guest]
    work = {}
    usual, hertz = shop.CHOSEN["misses_per_instruction"], shop.CHOSEN["clock_hertz"]
    per_cpu = hertz * shop.CHOSEN["instructions_per_cycle"], hertz
    for name, own in cpus.items():
        tier = name.removeprefix(f"{shop.APP}-") if name.startswith(f"{shop.APP}-") else ""
        moved = {way: own * each for way, each in shop.CHOSEN["bytes_per_cpu_second"].get(name, {}).items()}
        wait = sum(seconds for (waiting, _), seconds in waits.items() if waiting == name)
        misses = {**usual, "llc": usual["llc"] * phase.misses}
        work[name] = _work(
            own, per_cpu, misses, wait=wait, **{**_bytes(phase.requests, [tier] if tier else []), **moved}
        )
    return State(work, {shop.APP: _answers(phase.requests, phase.mean)}, waits)


def _bytes(requests: float, tiers: Collection[str]) -> dict[str, float]:
    """Bytes that this number of requests per second moves through these tiers' networks and disks."""
    web, db = "web" in tiers, "db" in tiers
    return {
        way: requests * (web * CHOSEN["request_bytes"][way] + db * CHOSEN["query_bytes"][way])
        for way in ("received", "sent")
    } | {
        way: requests * sum(CHOSEN["disk_bytes_per_request"][tier][way] for tier in tiers)
        for way in ("read", "written")
    }


class Counters:
    """A host's counters. A guest's counters start at 0 and end with it; all others were 0 at `origin`, in Unix time."""

    def __init__(self, host: str, origin: float) -> None:
        self.platform = story.PLATFORMS[host]
        self.origin = origin
        self._spans = spans(self.platform)
        self._rates = [span.rates for span in self._spans]
        self._before = [_NONE]
        for span in self._spans:
            self._before.append(_plus(self._before[-1], span.rates, span.end - span.begin))
        self._births = list(self._births_by_span())
        lives = {(begin, name) for births in self._births for name, begin in births.items()}
        for_ever = {(0, name) for state in self._rates for name in state.work} - {(0, name) for _, name in lives}
        self._numbers = {life: number for number, life in enumerate([*sorted(for_ever), *sorted(lives)])}
        self._at_origin = self._phase(origin)
        self._done = lru_cache(1000)(self._totals)  # for the starts of virtual servers

    def at(self, seconds: float) -> State:
        """The counters of the virtual servers and applications that exist at this Unix time."""
        rates, done = self._rates[self._number(seconds)], self._done(seconds)
        work = {name: self._since(self.life(name, seconds).began, name, seconds) for name in rates.work}
        return State(work, {app: done.answers[app] for app in rates.answers}, done.waits)

    def machine_at(self, seconds: float) -> Work:
        """The counters of the machine as a whole, including everything that has ended."""
        return Work(*map(sum, zip(*self._done(seconds).work.values(), strict=True)))

    def life(self, vserver: str, seconds: float) -> Life:
        """The life of a virtual server that exists at this Unix time."""
        begin = self._births[self._number(seconds)].get(vserver)
        began = self.origin if begin is None else seconds // story.CYCLE * story.CYCLE + begin
        return Life(self._numbers[begin or 0, vserver], began)

    def _number(self, seconds: float) -> int:
        phase = seconds % story.CYCLE
        return next(number for number, span in enumerate(self._spans) if phase < span.end)

    def _births_by_span(self) -> Iterator[dict[str, int]]:
        """When the virtual servers of each span were started, in seconds of the hour; not those that always exist."""
        alive: dict[str, int] = {}
        for number, span in enumerate(self._spans):
            alive = {name: begin for name, begin in alive.items() if name in span.rates.work}
            alive |= dict.fromkeys(span.rates.work.keys() - self._rates[number - 1].work.keys(), span.begin)
            yield alive

    def _since(self, began: float, vserver: str, seconds: float) -> Work:
        """What a virtual server has used since a Unix time, since `origin` at the earliest."""
        then = self._done(began).work.get(vserver, _NOTHING) if began != self.origin else _NOTHING
        return Work(*map(operator.sub, self._done(seconds).work[vserver], then))

    def _totals(self, seconds: float) -> State:
        """Totals from `origin` until this Unix time, by virtual server."""
        cycles = seconds // story.CYCLE - self.origin // story.CYCLE
        return _plus(_plus(self._phase(seconds), self._before[-1], cycles), self._at_origin, -1)

    def _phase(self, seconds: float) -> State:
        """Totals in the current cycle until this Unix time."""
        number = self._number(seconds)
        since = seconds % story.CYCLE - self._spans[number].begin
        return _plus(self._before[number], self._rates[number], since)


def _plus(one: State, other: State, times: float) -> State:
    """The first one, and so many times the other."""
    work, answers = dict(one.work), dict(one.answers)
    for name, more in other.work.items():
        work[name] = Work(*(was + times * value for was, value in zip(work.get(name, _NOTHING), more, strict=True)))
    for app, its in other.answers.items():
        had = answers.get(app, Answers(0, 0, (0,) * len(EDGES)))
        within = tuple(was + times * value for was, value in zip(had.within, its.within, strict=True))
        answers[app] = Answers(had.requests + times * its.requests, had.seconds + times * its.seconds, within)
    pairs = dict.fromkeys([*one.waits, *other.waits])
    return State(work, answers, {pair: one.waits.get(pair, 0) + times * other.waits.get(pair, 0) for pair in pairs})
