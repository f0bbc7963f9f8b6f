"""The report of influence factors: a run with known true values, compared with the study's results."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from lab.factors.scenario import (
    AFFINITY,
    CAPS,
    OVERCOMMIT,
    SERVERS,
    SPARE_CORE,
    VIRTUALISATION,
    WEIGHTS,
    Case,
    Factors,
)
from lab.factors.workloads import BENCHMARKS
from lab.metrics import Measurement
from lab.report.factors import LOSSES, Results, write_up
from lab.report.page import Page
from lab.report.recorded import Recording
from tests.report.recordings import NOISE, assert_whole, recorded

SCENARIO = """\
study: factors
about: Everything.
cpus: 4
overcommit: [1, 2, 3, 4]
caps: [0.25, 0.5]
guests: [{name: a guest, ssh: root@web1, platform: xen, emulated: true}]
"""
# True values of the run below: shares of the performance on a dedicated CPU.
VIRTUAL, GUEST, CROWD, PINNED_CROWD, SPARE, OFF_LAW, OFF_CAP = 0.97, 0.6, 0.8, 0.95, 1.01, 0.96, 0.9


def truth(case: Case) -> float:
    """The share of the base's performance that one virtual server of a case gets."""
    if case.elsewhere:
        return GUEST if case.elsewhere == "guest a guest" else 1.0
    if case.cap is not None:
        return VIRTUAL * case.cap * OFF_CAP
    if case.weights:
        return VIRTUAL / len(case.weights)  # their mean
    if case.servers == 1:
        return VIRTUAL
    if case.pinned:
        return VIRTUAL * PINNED_CROWD * (SPARE if case.servers < case.cpus else 1)
    share = VIRTUAL * (1 - (1 - CROWD) * min(1.0, (case.servers - 1) / (case.cpus - 1)))
    return share / case.overcommit * OFF_LAW if case.overcommit > 1 else share


def measured(scenario: Factors, of: Callable[[Case], float]) -> Iterator[Measurement]:
    for step in scenario.steps:
        for number, benchmark in enumerate(BENCHMARKS[step.workload]):
            base = 1000.0 * (number + 1) * NOISE[step.repetition - 1]
            where = {step.case.name: base * of(step.case)}
            for server, weight in enumerate(step.case.weights):
                where[step.case.of_server(server)] = base * VIRTUAL * weight / sum(step.case.weights)
            guest = step.case.elsewhere == "guest a guest"
            virtualization = "xen" if guest else "none" if step.case.elsewhere else "cgroup"
            for name, value in where.items():
                kind = (name, virtualization, guest, benchmark.name, benchmark.unit, "higher")
                yield Measurement(*kind, repetition=step.repetition, value=value)


def recording(scenario: str = SCENARIO, of: Callable[[Case], float] = truth) -> Recording:
    found = Factors.parse(scenario, "mine.yml")
    return recorded("factors", measured(found, of), len(found.steps), cpus="4")


@pytest.fixture(scope="module")
def document() -> Page:
    return write_up(recording())


def test_what_is_lost_is_found_again_by_factor() -> None:
    results = Results(recording().measurements)
    spare, off_cap = (SPARE - 1) / SPARE, 1 - OFF_CAP
    for factor, test, truth in (
        (VIRTUALISATION, "cpu", {"cgroup": 1 - VIRTUAL, "guest a guest (xen, emulated)": 1 - GUEST}),
        (VIRTUALISATION, "network sent", {"cgroup": 1 - VIRTUAL}),
        (VIRTUALISATION, "network received", {"cgroup": 1 - VIRTUAL}),
        (SERVERS, "disk", {f"{n} on 4 CPUs": (1 - CROWD) * (n - 1) / 3 for n in (2, 3, 4)}),
        (SERVERS, "cpu", {f"{n} on 4 CPUs": (1 - CROWD) * (n - 1) / 3 for n in (2, 3, 4)}),  # at most 4
        (OVERCOMMIT, "memory", dict.fromkeys(("x = 2", "x = 3", "x = 4"), 1 - OFF_LAW)),
        (OVERCOMMIT, "disk", {}),
        (AFFINITY, "cpu", {"1 of 4 CPUs busy": 0, "4 of 4 CPUs busy": (PINNED_CROWD - CROWD) / PINNED_CROWD}),
        (LOSSES[0], "cpu", {"loss, free: 4 virtual servers": 1 - CROWD}),
        (LOSSES[1], "cpu", {"loss, pinned: 4 virtual servers": 1 - PINNED_CROWD}),
        (SPARE_CORE, "cpu", {"3 of 4 CPUs used": spare}),
        (WEIGHTS, "cpu", {"100 of 400": 0, "300 of 400": 0}),
        (CAPS, "cpu", {"cap of 0.25 CPUs": off_cap, "cap of 0.5 CPUs": off_cap}),
    ):
        lost = {one.pair.what: one.lost.value for one in results.of(factor) if one.test == test}
        assert lost == pytest.approx(truth, abs=1e-9), (factor, test)
    one = results.of(SPARE_CORE)[0]  # its interval comes from the repetitions
    assert (one.lost.n, one.lost.differs()) == (5, True)
    low, high = one.lost.ends
    assert low < one.lost.value < high


def test_the_answer_comes_first(document: Page) -> None:
    law, pinning, spare, cgroup, guest = document.verdict
    assert re.search("each gets 1/x of the performance, .* at most 4 % ± .* below it [(]cpu at 2[)]", law)
    assert re.search("pinning gains 15.8 % [(]15.[4-9] % to 1.* %[)] of cpu and ", pinning)
    assert spare.startswith("A spare core gains 0.99")
    assert re.match("Virtualisation costs in cgroup 3 % [(]2.* %[)] of cpu, 3 % ", cgroup)
    assert guest.startswith("On emulated hardware, a sign that it works: in guest a guest (xen, emulated) 40 % (")
    assert [what for what, _ in document.remarks] == ["guest a guest (xen, emulated)"]
    assert_whole(document, recording())


def test_a_law_that_does_not_hold_is_not_claimed_and_one_that_noise_hides_is_not_denied() -> None:
    unfair = recording(of=lambda case: truth(case) * (0.8 if case.overcommit == 3 else 1))
    [law, *_] = write_up(unfair).verdict
    assert re.search("performance is not 1/x within 10 % .* below it [(]cpu at 3[)]", law)
    noisy = list(recording().measurements)
    for number, one in enumerate(noisy):
        if (one.test, one.environment) == ("memory", "8 servers on 4 CPUs, free"):
            noisy[number] = replace(one, value=one.value * (1 + 0.3 * (one.repetition - 3)))
    [law, *_] = write_up(replace(recording(), measurements=tuple(noisy))).verdict
    assert re.search("noise hides whether each gets 1/x of the performance within 10 % .*[(]memory at 2[)]", law)


def test_gains_that_are_none_are_not_reported_as_such() -> None:
    of = write_up(recording(of=lambda case: 0.9 if case.servers in {3, 4} else truth(case)))
    _, affinity, spare, *_ = of.verdict
    assert affinity.startswith("With 4 busy virtual servers on 4 CPUs, pinning gains nothing beyond noise (at most 0.2")
    assert spare.startswith("A spare core gains nothing beyond noise")
    once = write_up(recording(SCENARIO + "repetitions: 1\n"))
    assert once.verdict[0].endswith("at most 4 % below it (cpu at 2).")
    assert "beyond noise" not in " ".join(once.verdict), "one repetition has no interval"


def test_the_studys_numbers_are_beside_ours(document: Page) -> None:
    rows = {
        (section.key, *row[:2]): row[2:] for section in document.sections if section.table for row in section.table.rows
    }
    for key, theirs in {
        ("virtualisation", "cpu", "cgroup"): "0.83 % (rule of thumb 5 %)",
        ("affinity", "cpu", "4 of 4 CPUs busy"): "9.56 %",
        ("affinity", "memory", "4 of 4 CPUs busy"): "18.8 %",
        ("affinity", "cpu", "1 of 4 CPUs busy"): "",
        ("affinity", "memory", "loss, pinned: 4 virtual servers"): "28 %",
        ("overcommit", "cpu", "x = 2"): "at most 10 %",
    }.items():
        assert rows[key][-1] == theirs
    assert rows["overcommit", "cpu", "x = 2"][:3] == ("48 %", "50 %", "4 %")
    assert rows["shares", "cpu", "cap of 0.25 CPUs"][1:3] == ("25 %", "10 %")


def test_a_single_cpu_has_a_law_but_no_affinity() -> None:
    single = SCENARIO.replace("cpus: 4", "cpus: 1") + "factors: [overcommit, caps]\n"
    found = write_up(recording(single, lambda case: VIRTUAL / case.overcommit * (case.cap or 1)))
    assert found.verdict[0].startswith("With 2 to 4 busy virtual servers per CPU each gets 1/x")
    assert "pinning" not in " ".join(found.verdict)
    assert {part.key for part in found.sections} == {"overcommit", "shares"}

    only = tuple(one for one in recording().measurements if one.environment == "base")
    assert write_up(replace(recording(), measurements=only)).verdict[0].startswith("No case was measured together")
