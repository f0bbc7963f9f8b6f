"""The plan of a run: the loads of each episode, and so the expected names. Pure, from a seed.

The victim repeatedly computes for some milliseconds or reads a block of a disk, and sleeps, like a server. Culprits and
decoys compute, or read and write, in square waves of the same period and duty cycle, so that their usage doesn't
distinguish them; only culprits do so where the victim wants to: on its CPU or its disk.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tests.proofs.truth.judgement import Culprit, Resource

LEAD_SECONDS = 5.0  # the victim without culprits
WITHOUT_SECONDS = 25.0  # an episode without culprits
CAPPED_CPUS = 0.25
GUEST = "guest"
"""The application whose only virtual server is a KVM guest; it is the same one in all such episodes."""
GUESTS_TENTHS = 4  # duty cycle as in tests.kvm.guests.duty
BUSY_GUEST = "busy-guest"
_NAMES = ("batch", "blog", "mail", "wiki")
_STAY, _FREE = 0.0, -1.0

DiskName = Literal["serial", "other", "parallel"]
"""Disks of a run: two that serve one request after the other, and one that serves many side by side."""


@dataclass(frozen=True)
class Load:
    """A container's load as implemented by worker.c; `cpus` are indexes into the list of CPUs used by a run.

    Attributes:
        work, nap: CPU seconds of work, then seconds of sleep, repeated while the wave is on; `nap` 0: never sleeps.
        disk: after the work, each thread reads a random block of this disk, past the page cache.
        writes: it writes the block instead.
        file_mib: instead, it reads the next MiB of a file of this size, by the page cache.
        floods: instead of all this, it sends packets that this CPU receives.
        move: 0: each thread stays on its CPU; positive: all move to the next CPU at this interval in seconds;
            negative: on any of them.
    """

    work: float
    nap: float
    period: float
    duty: float
    phase: float
    cpus: tuple[int, ...]
    threads: int = 1
    move: float = _STAY
    disk: DiskName | None = None
    writes: bool = False
    file_mib: int = 0
    floods: int | None = None

    @property
    def resource(self) -> Resource:
        """Where it is in others' way."""
        if self.floods is not None:
            return "interrupts"
        return "disk" if self.disk else "memory" if self.file_mib else "cpu"

    def words(self, cpus: Sequence[int], devices: Mapping[DiskName, str], counters: str, file: str) -> list[str]:
        """The arguments of worker.c, with this machine's CPUs and disks; `counters` and `file` are its files."""
        numbers = (self.work, self.nap, self.threads, self.period, self.duty, self.phase, self.move)
        disk = ["write" if self.writes else "read", devices[self.disk]] if self.disk else ["none", ""]
        if self.file_mib:
            disk = ["cache", file]
        return [*map(str, numbers), counters, *disk, *(str(cpus[cpu]) for cpu in self.cpus)]


@dataclass(frozen=True)
class Scene:
    """The loads of an episode.

    Attributes:
        victim: its load; None for the guest, whose load never changes.
        culprits, decoys: loads by name; culprits start after `LEAD_SECONDS`, all others immediately.
        cap: the victim's, in CPUs.
        memory_mib: all loads share this much memory.
        busy_guest: the other guest runs too, and is a culprit.
        blamed: whether culprits should be named; they shouldn't if there are many with a small part each.
    """

    victim: Load | None
    culprits: Mapping[str, Load]
    decoys: Mapping[str, Load]
    cap: float | None = None
    memory_mib: int = 0
    busy_guest: bool = False
    blamed: bool = True


@dataclass(frozen=True)
class Episode:
    """An episode of a run; the victim is the only virtual server of application `app`."""

    number: int
    kind: str
    app: str
    scene: Scene

    @property
    def to_name(self) -> frozenset[Culprit]:
        """The culprits that should be named, by their names in the scene."""
        if not self.scene.blamed:
            return frozenset()
        loads = (Culprit(load.resource, name) for name, load in self.scene.culprits.items())
        return frozenset({*loads, *([Culprit("cpu", BUSY_GUEST)] if self.scene.busy_guest else [])})

    @property
    def disks(self) -> frozenset[DiskName]:
        """The disks that it uses."""
        loads = (*self.scene.culprits.values(), *self.scene.decoys.values(), self.scene.victim)
        return frozenset(load.disk for load in loads if load and load.disk)

    @property
    def guests(self) -> tuple[str, ...]:
        """The guests that run in it."""
        return (*([] if self.scene.victim else [GUEST]), *([BUSY_GUEST] if self.scene.busy_guest else []))

    @property
    def disturbed(self) -> bool:
        """Whether any load delays the victim."""
        return bool(self.scene.culprits) or self.scene.busy_guest

    def seconds(self, limit: float) -> float:
        """Its duration, if culprits must be named within `limit` seconds."""
        return LEAD_SECONDS + limit + 2 if self.disturbed else WITHOUT_SECONDS


# --- The kinds ---

OTHER, VICTIMS = 0, 1  # indexes of the CPUs
BOTH = (OTHER, VICTIMS)


@dataclass(frozen=True)
class _Dice:
    """The random values of an episode: the wave shared by its culprits and decoys, and phases."""

    thrown: random.Random
    period: float
    duty: float

    def wave(self, cpu: int, phase: float | None = None, duty: float | None = None) -> Load:
        at = self.thrown.random() if phase is None else phase
        return Load(0.001, 0.0, self.period, duty or self.duty, round(at, 3), (cpu,))

    def requests(self, disk: DiskName, threads: int, *, writes: bool = False) -> Load:
        """A wave of requests to a disk, from the CPU where no victim is."""
        return replace(self.wave(OTHER), work=0.0, threads=threads, disk=disk, writes=writes)

    def names(self, count: int) -> list[str]:
        return self.thrown.sample(_NAMES, count)


_SERVES = Load(0.002, 0.004, 1.0, 1.0, 0.0, (VICTIMS,))
# It wants most of a CPU, so that its cap throttles it all the time.
_WANTS_MORE = Load(0.004, 0.001, 1.0, 1.0, 0.0, (VICTIMS,))


def _undisturbed(dice: _Dice) -> Scene:
    return Scene(_SERVES, {}, {name: dice.wave(OTHER) for name in dice.names(2)})


def _capped(dice: _Dice) -> Scene:
    return replace(_undisturbed(dice), victim=_WANTS_MORE, cap=CAPPED_CPUS)


def _own_threads(dice: _Dice) -> Scene:
    """More threads than it has CPUs, so that it waits for itself."""
    return replace(_undisturbed(dice), victim=replace(_SERVES, threads=4))


def _many(dice: _Dice) -> Scene:
    """Four, shifted by a quarter of a period, so that they have equal parts."""
    waves = {name: dice.wave(VICTIMS, place / 4, 0.25) for place, name in enumerate(dice.names(4))}
    return Scene(_SERVES, waves, {}, blamed=False)


def _one(dice: _Dice) -> Scene:
    culprit, *decoys = dice.names(3)
    return Scene(_SERVES, {culprit: dice.wave(VICTIMS)}, {name: dice.wave(OTHER) for name in decoys})


def _in_phase(dice: _Dice) -> Scene:
    culprit, in_phase, decoy = dice.names(3)
    wave = dice.wave(VICTIMS)
    return Scene(_SERVES, {culprit: wave}, {in_phase: dice.wave(OTHER, wave.phase), decoy: dice.wave(OTHER)})


def _two(dice: _Dice) -> Scene:
    one, other, decoy = dice.names(3)
    return Scene(_SERVES, {one: dice.wave(VICTIMS), other: dice.wave(VICTIMS)}, {decoy: dice.wave(OTHER)})


# On both CPUs, in the same half of each second as the victim or in the other half.
_HALF = Load(0.002, 0.004, 1.0, 0.5, 0.0, BOTH, threads=2)
_IN_THE_WAY = Load(0.001, 0.0, 1.0, 0.42, 0.0, BOTH)
_WHILE_IT_RESTS = Load(0.001, 0.0, 1.0, 0.4, 0.46, BOTH, threads=2)


def _moving(dice: _Dice) -> Scene:
    culprit, decoy = dice.names(2)
    moves = replace(_IN_THE_WAY, move=float(dice.thrown.randint(1, 3)))
    return Scene(_HALF, {culprit: moves}, {decoy: _WHILE_IT_RESTS})


def _free(dice: _Dice) -> Scene:
    """All loads unpinned."""
    culprit, *decoys = dice.names(3)
    return Scene(
        replace(_HALF, nap=0.002, move=_FREE),
        {culprit: replace(_IN_THE_WAY, threads=2, move=_FREE)},
        {name: replace(_WHILE_IT_RESTS, move=_FREE) for name in decoys},
    )


def _one_beside_a_cap(dice: _Dice) -> Scene:
    return replace(_one(dice), victim=_WANTS_MORE, cap=CAPPED_CPUS)


def _of_a_guest(dice: _Dice) -> Scene:
    return replace(_one(dice), victim=None)


def _of_a_guest_by_another(dice: _Dice) -> Scene:
    return replace(_undisturbed(dice), victim=None, busy_guest=True)


# It computes little between two requests.
_READS = Load(0.0003, 0.004, 1.0, 1.0, 0.0, (VICTIMS,), disk="serial")
# As often on its CPU as at its disk.
_SERVES_AND_READS = replace(_READS, work=0.002, nap=0.002)


def _disk_undisturbed(dice: _Dice) -> Scene:
    """One decoy keeps the other disk busy; one computes on the other CPU."""
    reader, busy = dice.names(2)
    return Scene(_READS, {}, {reader: dice.requests("other", dice.thrown.randint(2, 6)), busy: dice.wave(OTHER)})


def _disk_own_requests(dice: _Dice) -> Scene:
    """More requests than its disk serves at once, so that it waits for itself."""
    return replace(_disk_undisturbed(dice), victim=replace(_READS, threads=4))


def _disk_side_by_side(dice: _Dice) -> Scene:
    """They use the victim's disk, which serves three side by side as fast as it would one (but not seven)."""
    return Scene(replace(_READS, disk="parallel"), {}, {name: dice.requests("parallel", 1) for name in dice.names(2)})


def _disk_many(dice: _Dice) -> Scene:
    """Four, each with one request at a time."""
    waves = {name: replace(dice.requests("serial", 1), duty=1.0) for name in dice.names(4)}
    return Scene(_READS, waves, {}, blamed=False)


def _disk_one(dice: _Dice) -> Scene:
    culprit, reader, busy = dice.names(3)
    load = dice.requests("serial", dice.thrown.randint(2, 6))
    return Scene(_READS, {culprit: load}, {reader: replace(load, disk="other"), busy: dice.wave(OTHER)})


def _disk_one_writes(dice: _Dice) -> Scene:
    scene = _disk_one(dice)
    [(culprit, load)] = scene.culprits.items()
    return replace(scene, culprits={culprit: replace(load, writes=True)})


def _disk_two(dice: _Dice) -> Scene:
    one, other, decoy = dice.names(3)
    threads = dice.thrown.randint(2, 4)
    culprits = {name: replace(dice.requests("serial", threads), duty=0.8) for name in (one, other)}
    return Scene(_READS, culprits, {decoy: dice.requests("other", threads)})


def _one_of_each(dice: _Dice) -> Scene:
    """One is in its way on the CPU, another one at the disk."""
    runs, reads, decoy = dice.names(3)
    culprits = {runs: dice.wave(VICTIMS), reads: dice.requests("serial", 4)}
    return Scene(_SERVES_AND_READS, culprits, {decoy: dice.requests("other", 4)})


_COMPUTES = Load(0.002, 0.001, 1.0, 1.0, 0.0, (VICTIMS,))


def _flood(receives: int) -> Load:
    return Load(0.0, 0.0, 1.0, 1.0, 0.0, (OTHER,), floods=receives)


def _packets_elsewhere(dice: _Dice) -> Scene:
    """The other CPU receives the packets."""
    floods, busy = dice.names(2)
    return Scene(_COMPUTES, {}, {floods: _flood(OTHER), busy: dice.wave(OTHER)})


def _packets(dice: _Dice) -> Scene:
    culprit, floods, busy = dice.names(3)
    return Scene(_COMPUTES, {culprit: _flood(VICTIMS)}, {floods: _flood(OTHER), busy: dice.wave(OTHER)})


MEMORY_MIB = 64
# It needs its pages less often than a culprit evicts them.
_KEEPS = Load(0.0002, 0.001, 1.0, 1.0, 0.0, (VICTIMS,), file_mib=40)


def _memory_suffices(dice: _Dice) -> Scene:
    small, busy = dice.names(2)
    return Scene(
        _KEEPS, {}, {small: replace(dice.wave(OTHER), file_mib=8), busy: dice.wave(OTHER)}, memory_mib=MEMORY_MIB
    )


def _memory(dice: _Dice) -> Scene:
    culprit, *others = dice.names(3)
    scene = _memory_suffices(dice)
    reads = replace(dice.wave(OTHER, duty=0.9), work=0.0, file_mib=dice.thrown.randint(100, 200))
    decoys = dict(zip(others, scene.decoys.values(), strict=True))
    return replace(scene, culprits={culprit: reads}, decoys=decoys)


@dataclass(frozen=True)
class Kind:
    """A kind of episodes: how its scenes are generated, and how many of `ALL` episodes it has."""

    scene: Callable[[_Dice], Scene]
    share: int
    resource: Resource = "cpu"


KINDS: Mapping[str, Kind] = {
    "nobody": Kind(_undisturbed, 40),
    "nobody, capped": Kind(_capped, 8),
    "nobody, own threads": Kind(_own_threads, 4),
    "many, none of them for half": Kind(_many, 4),
    "one culprit": Kind(_one, 10),
    "one, a decoy in phase": Kind(_in_phase, 8),
    "two culprits": Kind(_two, 8),
    "one that moves between CPUs": Kind(_moving, 8),
    "one, all free on both CPUs": Kind(_free, 4),
    "one, the victim capped": Kind(_one_beside_a_cap, 6),
    "one, the victim a KVM guest": Kind(_of_a_guest, 4),
    "a KVM guest, by another": Kind(_of_a_guest_by_another, 4),
    "disk: nobody": Kind(_disk_undisturbed, 26, "disk"),
    "disk: nobody, own requests": Kind(_disk_own_requests, 8, "disk"),
    "disk: nobody, served side by side": Kind(_disk_side_by_side, 16, "disk"),
    "disk: many, none of them for half": Kind(_disk_many, 4, "disk"),
    "disk: one culprit": Kind(_disk_one, 20, "disk"),
    "disk: one that writes": Kind(_disk_one_writes, 8, "disk"),
    "disk: two culprits": Kind(_disk_two, 8, "disk"),
    "one at the CPU, one at the disk": Kind(_one_of_each, 8, "disk"),
    "interrupts: nobody, packets elsewhere": Kind(_packets_elsewhere, 10, "interrupts"),
    "interrupts: one culprit": Kind(_packets, 10, "interrupts"),
    "memory: nobody, it suffices": Kind(_memory_suffices, 10, "memory"),
    "memory: one culprit": Kind(_memory, 10, "memory"),
}
SHORT = ("one culprit", "nobody", "two culprits", "nobody, capped", "disk: one culprit", "disk: nobody")


def of(resources: Iterable[Resource]) -> dict[str, Kind]:
    """The kinds of episodes about these resources."""
    return {name: kind for name, kind in KINDS.items() if kind.resource in resources}


def shares(kinds: Mapping[str, Kind]) -> int:
    """How many episodes a run of these kinds has."""
    return sum(kind.share for kind in kinds.values())


def counts(kinds: Mapping[str, Kind], episodes: int) -> dict[str, int]:
    """The number of episodes of each kind in proportion to their shares; the largest remainders get one more."""
    exact = {name: kind.share * episodes / shares(kinds) for name, kind in kinds.items()}
    found = {name: int(value) for name, value in exact.items()}
    by_remainder = sorted(kinds, key=lambda name: found[name] - exact[name])
    for name in by_remainder[: episodes - sum(found.values())]:
        found[name] += 1
    return found


def plan(seed: int, kinds: Mapping[str, Kind], episodes: int) -> list[Episode]:
    """This many episodes in the order in which they run.

    Two episodes with the same guest have another one between them, so that its rate window passes.
    """
    thrown = random.Random(seed)
    names = [name for name, count in counts(kinds, episodes).items() for _ in range(count)]
    thrown.shuffle(names)
    return [_episode(number, kind, thrown) for number, kind in enumerate(_apart(names), 1)]


def short(seed: int) -> list[Episode]:
    """One of each of some kinds."""
    thrown = random.Random(seed)
    return [_episode(number, kind, thrown) for number, kind in enumerate(SHORT, 1)]


def _apart(kinds: Sequence[str]) -> list[str]:
    """The same kinds, with those of the guest spread evenly."""
    guests = [kind for kind in kinds if _is_of_guests(kind)]
    others = [kind for kind in kinds if not _is_of_guests(kind)]
    if len(guests) > len(others):
        raise ValueError(f"{len(guests)} episodes of one guest need as many others between them, not {len(others)}")
    for place, kind in enumerate(guests):
        others.insert(place * len(kinds) // len(guests), kind)
    return others


def _is_of_guests(kind: str) -> bool:
    return KINDS[kind].scene in {_of_a_guest, _of_a_guest_by_another}


def _episode(number: int, kind: str, thrown: random.Random) -> Episode:
    dice = _Dice(thrown, round(thrown.uniform(0.6, 2.0), 3), round(thrown.uniform(0.3, 0.5), 3))
    app = GUEST if _is_of_guests(kind) else str(number)
    return Episode(number, kind, app, KINDS[kind].scene(dice))
