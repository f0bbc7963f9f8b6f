"""xentrace's files: their records, and waits by what ran meanwhile."""

from pathlib import Path

import pytest

from tests.support.refusals import refusal
from tests.unit.xen.traced import BLOCKED, IDLE, OFFLINE, RUNNABLE, RUNNING, change, goes_on, lost, on, record
from virtscope.toolkit.collect import SourceMalformed
from virtscope.xen import model
from virtscope.xen.xentrace_file import Trace, charge, parse

# A second of Xen 4.17 with credit2 on one CPU, Dom0 and three guests; d3 computes all the time.
REAL = Path(__file__).resolve().parents[2] / "fixtures/xentrace/one-cpu-three-guests.bin"
HERTZ = 2_599_997_000


def anywhere(_domid: int, _vcpu: int) -> None:
    return None


def waits(data: bytes, *allowed: int) -> dict[tuple[int, int], float]:
    """Waits by what ran, with all domains restricted to these CPUs."""
    return charge(parse(data), (lambda _domid, _vcpu: frozenset(allowed)) if allowed else anywhere).waits


def test_a_second_of_a_real_host() -> None:
    trace = parse(REAL.read_bytes())
    assert (len(trace.changes), trace.lost, trace.gaps) == (937, 0, [])
    charged = charge(trace, anywhere)
    assert charged.cycles / HERTZ == pytest.approx(0.987, abs=0.001)
    # xenalyze reports 0.21 s runnable for d1 in this file.
    of_d1 = {other: cycles / HERTZ for (domid, other), cycles in charged.waits.items() if domid == 1}
    assert of_d1 == pytest.approx({3: 0.181, 0: 0.023, 2: 0.008, model.IDLE: 0.0004}, abs=0.0005)
    assert charge(trace, lambda _domid, _vcpu: frozenset({0})) == charged


def test_a_wait_is_charged_to_who_ran_and_before_and_after_to_nobody() -> None:
    data = on(
        0,
        change(100, 1, BLOCKED, RUNNABLE),
        change(100, 1, RUNNABLE, RUNNING),
        change(200, 2, BLOCKED, RUNNABLE),
        change(250, 1, RUNNING, BLOCKED),
        change(250, 3, RUNNABLE, RUNNING),
        change(300, 3, RUNNING, RUNNABLE),
        change(310, 2, RUNNABLE, RUNNING),
        change(400, 2, RUNNING, BLOCKED),
        change(400, IDLE, RUNNABLE, RUNNING),
    )
    # Domain 3 waits from before the trace to its end; from 300 on the CPU was between two vCPUs.
    assert waits(data) == {(2, 1): 50, (2, 3): 50, (2, IDLE): 10, (3, 1): 150, (3, 2): 90, (3, IDLE): 10}
    assert waits(on(0, change(0, 2, BLOCKED, RUNNABLE), goes_on(600, 1), goes_on(1000, 1))) == {(2, 1): 1000}


def test_while_a_cpu_is_idle_no_domain_is_charged() -> None:
    busy = on(0, change(0, 1, BLOCKED, RUNNING), goes_on(1000, 1))
    other = on(1, change(0, 2, BLOCKED, RUNNING), change(500, 3, BLOCKED, RUNNABLE), goes_on(900, 2))
    assert waits(busy + other, 0, 1) == {(3, 1): 250, (3, 2): 250}
    assert waits(busy + other, 1) == {(3, 2): 500}, "by hard affinity, or as its CPU pool has no other"
    assert waits(busy + other, 0, 1, 2) == {(3, IDLE): 500}, "CPU 2 has no record: it had nothing to do"
    assert charge(parse(busy + other), lambda _domid, _vcpu: frozenset()).waits == {(3, IDLE): 500}, (
        "it may run nowhere"
    )
    offline = on(1, change(0, 2, OFFLINE, BLOCKED), change(500, 2, BLOCKED, OFFLINE))
    assert waits(busy + offline) == {}


def test_records_of_cpus_are_put_in_order_and_those_at_the_same_time_stay_in_theirs() -> None:
    data = on(1, change(500, 2, RUNNABLE, RUNNING), change(500, 2, RUNNING, BLOCKED)) + on(
        0, change(0, 1, BLOCKED, RUNNING), change(500, 1, RUNNING, BLOCKED)
    )
    assert [record[0] for record in parse(data).changes] == [0, 500, 500, 500]
    assert waits(data, 0) == {(2, 1): 500}


def test_time_in_which_records_were_lost_counts_for_nothing() -> None:
    before = change(0, 1, BLOCKED, RUNNING), change(100, 2, BLOCKED, RUNNABLE), goes_on(200, 1)
    after = change(700, 3, RUNNING, BLOCKED), change(700, 2, RUNNABLE, RUNNING), change(800, 2, RUNNING, BLOCKED)
    trace = parse(on(0, *before, lost(700, 41, since=200), *after))
    assert (trace.lost, trace.gaps) == (41, [(200, 700)])
    # Domain 2 waited from 100 on, but the end isn't known.
    assert charge(trace, anywhere) == ({}, 100 + 100)
    kept = on(0, change(0, 1, BLOCKED, RUNNING), change(50, 2, BLOCKED, RUNNABLE), goes_on(150, 1))
    more = on(0, lost(700, 1, since=200), goes_on(700, 3), goes_on(900, 3))
    assert charge(parse(kept + more), anywhere) == ({(2, 1): 100}, 150 + 200)
    # Records lost before the trace don't matter; that happens if a killed reader left tracing on.
    late = change(1000, 1, BLOCKED, RUNNING), change(1100, 2, BLOCKED, RUNNABLE), goes_on(1500, 1)
    assert charge(parse(on(0, lost(1000, 9, since=5), *late)), anywhere) == ({(2, 1): 400}, 500)


def test_what_is_no_change_of_state_is_passed_over() -> None:
    data = on(
        0,
        record(0x1F002, 1, 2, 3, 4, 5, 6, 7, tsc=1 << 60),  # filler at the end of a buffer, with any time stamp
        record(0x28001, 7),
        change(0, 1, BLOCKED, RUNNING),
        record(0x2800E, 1, 2, 3, tsc=10),
        record(0, tsc=None),
    )
    assert parse(data) == Trace([(0, 0, BLOCKED, RUNNING, 1, 0)], [], 0)
    assert parse(b"") == Trace([], [], 0)
    assert charge(parse(b""), anywhere) == ({}, 0)


def test_what_is_no_trace_is_refused_with_its_bytes() -> None:
    for data, words in {
        REAL.read_bytes()[:-3]: "byte 15096 is cut off",
        b"\x01\x10": "byte 0 is cut off: 0110",
        change(5, 1, BLOCKED, RUNNING): "byte 0 lacks CPU, vCPU or time: ",
        on(0, record(0x21001, 1 << 16)): "byte 12 lacks",
        on(0, record(0x21001, tsc=9)): "byte 12 lacks",
    }.items():
        assert words in str(refusal(SourceMalformed, parse, data))
