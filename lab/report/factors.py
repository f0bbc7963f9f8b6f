"""The report of influence factors: cases that differ in one factor, and their measured and expected performance."""

from collections.abc import Iterator, Sequence
from typing import Any

from lab.factors.scenario import BASE, COMPUTING, FACTORS, WORKLOADS, Case
from lab.factors.workloads import BENCHMARKS
from lab.metrics import Measurement
from lab.report.comparison import Comparison, Pair, Values, beyond_noise
from lab.report.page import Columns, Page, Section, Study, load_study, table
from lab.report.recorded import Recording
from lab.report.statistics import interval
from lab.report.units import SHARE

VIRTUALISATION, SERVERS, OVERCOMMIT, AFFINITY, SPARE_CORE, WEIGHTS, CAPS = FACTORS
TESTS = tuple(benchmark.name for workload in WORKLOADS for benchmark in BENCHMARKS[workload])
ALONE = Case().name  # on its own CPU
LOSSES = ("loss, free", "loss, pinned")  # with as many virtual servers as CPUs, relative to one alone
SECTIONS = {
    "virtualisation": (VIRTUALISATION,),
    "servers": (SERVERS,),
    "overcommit": (OVERCOMMIT,),
    "affinity": (AFFINITY, *LOSSES, SPARE_CORE),
    "shares": (WEIGHTS, CAPS),
}


class Results:
    """The comparisons of a run, in the order of tests. `cpus` is the number that the virtual servers share."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        cases = {case for one in measurements if (case := Case.parse(one.environment))}
        self.cpus = max((case.cpus for case in cases), default=1)
        pairs = _pairs(measurements, sorted(cases, key=lambda case: (case.servers, case.cap or 0)), self.cpus)
        self._compared = sorted(Values(measurements).compare(pairs), key=lambda one: TESTS.index(one.test))

    def of(self, *factors: str) -> list[Comparison]:
        return [one for factor in factors for one in self._compared if one.pair.group == factor]


def _pairs(measurements: Sequence[Measurement], cases: Sequence[Case], many: int) -> Iterator[Pair]:
    def pair(factor: str, what: str, case: Case | str, base: Case | str, **more: Any) -> Pair:
        of, under = (one if isinstance(one, str) else one.name for one in (case, base))
        return Pair(factor, of, under, what, **({"tests": COMPUTING} | more))

    yield pair(VIRTUALISATION, "cgroup", ALONE, BASE, tests=None)
    guests = {one.environment: one for one in measurements if one.virtualization not in {"none", "cgroup"}}
    for name, one in guests.items():
        kind = f"{one.virtualization}{', emulated' if one.emulated else ''}"
        yield pair(VIRTUALISATION, f"{name} ({kind})", name, BASE, tests=None)
    for case in cases:
        if case.cpus == many and not case.pinned and case.servers > 1:
            # Beyond the CPUs, the law of overcommitment only applies to computing.
            tests = None if case.servers <= many else set(TESTS) - set(COMPUTING)
            what, alone = f"{case.servers} on {many} CPUs", Case(1, many, pinned=False)
            yield pair(SERVERS, what, case, alone, x=case.servers, tests=tests)
            if (x := case.overcommit) > 1:
                yield pair(OVERCOMMIT, f"x = {x:g}", case, Case(many, many, pinned=False), should=1 / x, x=x)
        for server, weight in enumerate(case.weights):
            whole = sum(case.weights)
            yield pair(WEIGHTS, f"{weight} of {whole}", case.of_server(server), ALONE, should=weight / whole)
        if case.cap is not None:
            yield pair(CAPS, f"cap of {case.cap:g} CPUs", case, ALONE, should=case.cap)
    if many == 1:
        return
    for servers in (1, many):
        free, pinned = (Case(servers, many, pinned=pinned) for pinned in (False, True))
        yield pair(AFFINITY, f"{servers} of {many} CPUs busy", free, pinned, x=servers)
    for loss in LOSSES:
        several, alone = (Case(servers, many, pinned="pinned" in loss) for servers in (many, 1))
        yield pair(loss, f"{loss}: {many} virtual servers", several, alone)
    yield pair(SPARE_CORE, f"{many - 1} of {many} CPUs used", Case(many, many), Case(many - 1, many))


def write_up(recording: Recording) -> Page:
    study, results = load_study("factors"), Results(recording.measurements)
    columns: Columns[Comparison] = (
        ("Workload", lambda one: one.test),
        ("Case", lambda one: one.pair.what),
        ("Of the base", lambda one: SHARE.write(one.ratio.value)),
        ("Should be", lambda one: SHARE.write(one.pair.should)),
        ("Lacking", lambda one: SHARE.write(one.lost.value)),
        ("95 % interval", lambda one: interval(one.lost, SHARE.write)),
        ("n", lambda one: str(one.lost.n)),
        (study["source"]["short"], lambda one: _printed(one, results.cpus, study)),
    )
    sections = [Section(key, table(results.of(*factors), columns)) for key, factors in SECTIONS.items()]
    emulated = [one.pair.what for one in results.of(VIRTUALISATION) if one.emulated]
    return Page(recording, verdict(results, study["overcommit"]["deviation"]), sections, emulated=emulated)


def _printed(one: Comparison, cpus: int, study: Study) -> str:
    """The study's result for a comparison; its rule of thumb doesn't apply to emulated hardware."""
    factor = one.pair.group
    if factor == OVERCOMMIT:
        return f"at most {SHARE.write(study['overcommit']['deviation'])}"
    if factor in {SERVERS, AFFINITY} and one.pair.x != cpus:
        return ""
    said, thumb = study["printed"].get(factor, {}).get(one.test), study["rule_of_thumb"].get(one.test.split()[0])
    found = [] if said is None else [SHARE.write(said)]
    if thumb is not None and factor == VIRTUALISATION and not one.emulated:
        found.append(f"(rule of thumb {SHARE.write(thumb)})")
    return " ".join(found)


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, limit: float) -> list[str]:
    """`limit` is the study's deviation from the law of overcommitment."""
    number = results.cpus
    pinned = [one for one in results.of(AFFINITY) if one.pair.x == number]
    found = _overcommit(results.of(OVERCOMMIT), limit) + [
        f"{begin} {' and '.join(f'{beyond_noise(one.lost)} of {one.test}' for one in of)}."
        for begin, of in (
            (f"With {number} busy virtual servers on {number} CPUs, pinning gains", pinned),
            ("A spare core gains", results.of(SPARE_CORE)),
        )
        if of
    ]
    for emulated, begin in ((False, "Virtualisation costs"), (True, "On emulated hardware, a sign that it works:")):
        where: dict[str, list[str]] = {}
        for one in (one for one in results.of(VIRTUALISATION) if one.emulated is emulated):
            where.setdefault(one.pair.what, []).append(f"{beyond_noise(one.lost)} of {one.test}")
        found += [f"{begin} in {what} {', '.join(costs)}." for what, costs in where.items()]
    return found or ["No case was measured together with what it is compared with, so there is nothing to say yet."]


def _overcommit(found: Sequence[Comparison], limit: float) -> list[str]:
    """Whether the law holds: every interval is within the limit; not if one is entirely outside it."""
    if not found:
        return []
    xs = sorted({one.pair.x for one in found})
    busy = f"With {xs[0]:g}{f' to {xs[-1]:g}' if len(xs) > 1 else ''} busy virtual servers per CPU"
    within = f"within {SHARE.write(limit)} as in the study"
    widest = max(found, key=lambda one: max(map(abs, one.lost.ends)))
    if max(map(abs, widest.lost.ends)) <= limit:
        return [f"{busy} each gets 1/x of the performance, as in the study: at most {_furthest(found)}."]
    if broken := [one for one in found if one.lost.ends[0] > limit or one.lost.ends[1] < -limit]:
        return [f"{busy}, performance is not 1/x {within}, but up to {_furthest(broken)}."]
    hides = f"{busy}, noise hides whether each gets 1/x of the performance {within}: {_furthest([widest])}."
    return [f"{hides} Repeat this with less other load, or more often."]


def _furthest(of: Sequence[Comparison]) -> str:
    one = max(of, key=lambda one: abs(one.lost.value))
    lost, where = (one.lost, "below") if one.lost.value > 0 else (one.lost.mapped(-1), "above")
    spread = "" if lost.half is None else f" ± {SHARE.write(lost.half)}"
    return f"{SHARE.write(lost.value)}{spread} {where} it ({one.test} at {one.pair.x:g})"
