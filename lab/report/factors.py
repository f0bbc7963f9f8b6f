"""The report of influence factors: cases that differ in one factor, and their measured and expected performance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.factors import scenario
from lab.factors.scenario import (
    AFFINITY,
    BASE,
    CAPS,
    COMPUTING,
    OVERCOMMIT,
    SERVERS,
    SPARE_CORE,
    VIRTUALISATION,
    WEIGHTS,
    Case,
)
from lab.factors.workloads import BENCHMARKS
from lab.metrics import Measurement
from lab.report.comparison import Comparison, Pair, Values, plus_minus
from lab.report.page import Page, Section, Study, Table, every_value, interval, load_study, page
from lab.report.recorded import Recording
from lab.report.statistics import Estimate
from lab.report.units import SHARE, significant

TESTS = tuple(benchmark.name for workload in scenario.WORKLOADS for benchmark in BENCHMARKS[workload])
ALONE = Case().name  # on its own CPU
LOSSES = ("loss, free", "loss, pinned")  # with as many virtual servers as CPUs, relative to one alone
SECTIONS = {
    "virtualisation": (VIRTUALISATION,),
    "servers": (SERVERS,),
    "overcommit": (OVERCOMMIT,),
    "affinity": (AFFINITY, *LOSSES, SPARE_CORE),
    "shares": (WEIGHTS, CAPS),
}
PEERS = (
    " Of network it is more here: the other ends run on the same CPUs, as the virtual servers have all that there are. "
    "Take fewer `cpus`."
)


class Results:
    """The comparisons of a run, in the order of tests. `cpus` is the number that the virtual servers share."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        cases = {case for one in measurements if (case := Case.parse(one.environment))}
        self.cpus = max((case.cpus for case in cases), default=1)
        pairs = _pairs(measurements, sorted(cases, key=lambda case: (case.servers, case.cap or 0)), self.cpus)
        found = Values.of(measurements).compare(pairs)
        self.comparisons = sorted(found, key=lambda one: TESTS.index(one.test))

    def of(self, factor: str, test: str | None = None) -> list[Comparison]:
        return [one for one in self.comparisons if one.pair.group == factor and test in {None, one.test}]

    def losses(self, test: str) -> list[Comparison]:
        """Free and pinned; empty unless both are known."""
        found = [one for loss in LOSSES for one in self.of(loss, test)]
        return found if len(found) == len(LOSSES) else []


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
    more = {"servers": PEERS} if recording.info.get("cpus") == str(results.cpus) else {}
    head = ("Workload", "", "Of the base", "Should be", "Lacking", "95 % interval", "n", study["source"]["short"])
    sections = []
    for key, factors in SECTIONS.items():
        rows = tuple(_row(one, _printed(one, results.cpus, study)) for factor in factors for one in results.of(factor))
        sections.append(Section(key, Table(head, rows), more=more.get(key, "")))
    values = every_value(recording.measurements)
    emulated = [one.pair.what for one in results.comparisons if one.emulated]
    return page(study, recording, verdict(results, study), sections, values, emulated=emulated)


def _row(one: Comparison, printed: str) -> tuple[str, ...]:
    found = one.lost
    shares = map(SHARE.write, (one.ratio.value, one.pair.should, found.value))
    return one.test, one.pair.what, *shares, interval(found, SHARE.write), str(found.n), printed


def _printed(one: Comparison, cpus: int, study: Study) -> str:
    factor = one.pair.group
    if factor == OVERCOMMIT:
        return f"at most {SHARE.write(study['overcommit']['deviation'])}"
    if factor in {SERVERS, AFFINITY} and one.pair.x != cpus:
        return ""
    found: float | None = study["printed"].get(factor, {}).get(one.test)
    return " ".join([*([] if found is None else [SHARE.write(found)]), *_thumb(one, study, "(rule of thumb {})")])


def _thumb(one: Comparison, study: Study, words: str) -> list[str]:
    """The study's rule of thumb for virtualisation in these words; nothing with emulation, where it doesn't apply."""
    found = study["rule_of_thumb"].get(one.test.split()[0])
    known = one.pair.group == VIRTUALISATION and not one.emulated and found is not None
    return [words.format(SHARE.write(found))] if known else []


# --- Verdict ----------------------------------------------------------------------------------------------------------


def verdict(results: Results, study: Study) -> list[str]:
    said = (
        _overcommit(results.of(OVERCOMMIT), study["overcommit"]["deviation"]),
        _pinning(results),
        _virtualisation(results, study),
    )
    found = [sentence for sentence in said if sentence]
    return found or ["No case was measured together with what it is compared with, so there is nothing to say yet."]


def _overcommit(found: Sequence[Comparison], limit: float) -> str:
    """Whether the law holds: every interval is within the study's deviation; not if one is entirely outside it."""
    if not found:
        return ""
    xs = sorted({one.pair.x for one in found})
    busy = f"With {xs[0]:g}{f' to {xs[-1]:g}' if len(xs) > 1 else ''} busy virtual servers per CPU"
    within = f"within {SHARE.write(limit)} as in the study"
    widest = max(found, key=lambda one: max(map(abs, one.lost.ends)))
    if max(map(abs, widest.lost.ends)) <= limit:
        return f"{busy} each gets 1/x of the performance, as in the study: at most {_off(_furthest(found))}."
    if broken := [one for one in found if one.lost.ends[0] > limit or one.lost.ends[1] < -limit]:
        return f"{busy}, performance is not 1/x {within}, but up to {_off(_furthest(broken))}."
    return (
        f"{busy}, noise hides whether each gets 1/x of the performance {within}: {_off(widest)}. Repeat this with less "
        "other load, or more often."
    )


def _off(one: Comparison) -> str:
    return f"{_away(one)} ({one.test} at {one.pair.x:g})"


def _away(one: Comparison) -> str:
    lost = one.lost
    return f"{plus_minus(lost if lost.value > 0 else lost.mapped(-1))} {'below' if lost.value > 0 else 'above'} it"


def _furthest(of: Sequence[Comparison]) -> Comparison:
    return max(of, key=lambda one: abs(one.lost.value))


def _pinning(results: Results) -> str:
    number, gains = results.cpus, []
    for one in results.of(AFFINITY):
        if one.pair.x == number:
            lost = [loss.lost.value for loss in results.losses(one.test)]
            less = (
                f" (the loss from 1 to {number} is {significant((lost[0] - lost[1]) * 100)} points less)"
                if lost
                else ""
            )
            gains.append(f"{_found(one.lost)} of {one.test}{less}")
    if not gains:
        return ""
    spare = " and ".join(f"{_found(one.lost)} of {one.test}" for one in results.of(SPARE_CORE))
    rest = f"; a spare core gains {spare}" if spare else ""
    return f"With {number} busy virtual servers on {number} CPUs, pinning gains {' and '.join(gains)}{rest}."


def _found(effect: Estimate) -> str:
    """A share with its interval; if none was found, its upper bound."""
    if effect.high is not None and not effect.differs():
        return f"nothing beyond noise (at most {SHARE.write(max(0.0, effect.high))})"
    ends = interval(effect, SHARE.write)
    return f"{SHARE.write(effect.value)}{ends and f' ({ends})'}"


def _virtualisation(results: Results, study: Study) -> str:
    said = []
    for emulated, begin in (
        (False, "What virtualisation costs, beside the study's rule of thumb"),
        (True, "On emulated hardware, so no more than a sign that it works"),
    ):
        where: dict[str, list[str]] = {}
        for one in results.of(VIRTUALISATION):
            if one.emulated is emulated:
                words = [f"{one.test} {_found(one.lost)}", *_thumb(one, study, "there {}")]
                where.setdefault(one.pair.what, []).append(", ".join(words))
        said += [f"{begin}."] * bool(where) + [f"In {what}: {'; '.join(of)}." for what, of in where.items()]
    return " ".join(said)
