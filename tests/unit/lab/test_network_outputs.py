"""Output of a step's script: over a veth pair, iperf3 3.12 or vegeta 12.13, on a machine without event counters."""

from pathlib import Path

import pytest

from lab import LabError
from lab.machine import TICKS
from lab.network import experiment, outputs
from lab.network.scenario import Configuration, Step, WebLoad
from tests.support.refusals import assert_refused

STEP = (Path(__file__).parents[2] / "fixtures/network/veth.txt").read_text()
WEB = (Path(__file__).parents[2] / "fixtures/network/web.txt").read_text()  # the first nine requests of 50 a second
COUNTED = "4710341,,instructions,1000413,100.00,1.05,insn per cycle\n4502113,,cycles,1000413,100.00,,\n"


def test_bytes_and_cpu_time_are_of_the_same_seconds() -> None:
    found = outputs.read(STEP)
    # User, nice, system and softirq of both lines; the others don't count.
    ticks = (972437 + 653972 + 506403 + 18635) - (972395 + 653903 + 506311 + 18615)
    assert found.cpu_seconds == pytest.approx(ticks / TICKS)
    assert found.throughput == pytest.approx(1303614853.5)


def test_events_are_read_where_they_are_counted_and_a_zero_beside_bytes_is_not_believed() -> None:
    for text, events in (
        ("", {}),
        ("<not counted>,,cycles,0,0.00,,\n", {}),
        ("0,,instructions,1000413,100.00,,\n4502113,,cycles,1000413,100.00,,\n", {"cycles": 4502113}),
        (COUNTED, {"instructions": 4710341, "cycles": 4502113}),
    ):
        assert outputs.read(STEP + text).events == events
        assert outputs.read_web(web(answer(0, 1, 0), events=text), rate=10).events == events


def test_a_step_that_does_not_say_all_or_in_which_nothing_arrived_is_refused() -> None:
    first, last = (line for line in STEP.splitlines() if line.startswith("cpu "))
    for text, message in (
        ("", "0 lines of CPU times, not 2"),
        ("cpu  1 2 3\n{}\ncpu  4 5 6\n", "these are no CPU times"),
        (STEP.replace('"bits_per_second"', '"bits"'), "iperf3 gives no result"),
        (f'{first}\n{{"end": {{"sum_received": {{"bits_per_second": 0}}}}}}\n{last}', "iperf3 gives no result"),
    ):
        assert_refused(LabError, message, outputs.read, text)


def test_costs_are_those_of_the_bytes_that_arrived() -> None:
    step = Step(Configuration("veth", "send", 256, "on"), 3)
    counted = outputs.Counted(1e9, 15.0, {"instructions": 2e10})
    found = {one.test: one for one in experiment.values(step, counted, 10)}
    assert {name: one.value for name, one in found.items()} == {
        "throughput": 1e9,
        "CPU": 1.5,
        "CPU per byte": 15.0 / 1e10,
        "instructions": 2e9,
        "instructions per byte": 2e10 / 1e10,
    }
    assert {(one.environment, one.repetition) for one in found.values()} == {("veth, send, 256 bytes, offloads on", 3)}


def answer(sent: float, took: float, number: int, status: int = 200, error: str = "") -> str:
    """A line of vegeta's, with times in milliseconds."""
    at = 1_795_449_381_000_000_000 + round(sent * 1e6)
    return f"{at},{status},{round(took * 1e6)},0,0,{error},,,{number},GET,http://192.0.2.1:8080/1024,\n"


def web(*answers: str, events: str = "") -> str:
    first, last = (line for line in WEB.splitlines(keepends=True) if line.startswith("cpu "))
    return f"{first}{last}{events}{outputs.AFTERWARDS}\n{''.join(answers)}"


def test_requests_and_cpu_time_are_of_the_same_seconds() -> None:
    found = outputs.read_web(WEB, rate=50)
    assert found.cpu_seconds == pytest.approx((2 + 61 + 53) / TICKS)  # user, nice and system
    assert (len(found.latencies), found.failed) == (9, 0)
    assert found.seconds == pytest.approx(8 / 50, abs=0.01)
    assert list(found.latencies) == sorted(found.latencies)
    assert all(0 < one < 0.01 for one in found.latencies)


def test_a_request_that_is_sent_late_has_waited_since_it_was_due() -> None:
    # 10 a second: the second and third one wait for the first, which takes a third of a second.
    answers = answer(0, 300, 0), answer(300, 2, 1), answer(302, 2, 2), answer(304, 2, 3)
    found = outputs.read_web(web(*answers), rate=10)
    assert found.latencies == pytest.approx([0.006, 0.104, 0.202, 0.3])
    assert found.latency(0.5) == pytest.approx(0.104)
    assert found.latency(0.99) == pytest.approx(0.3)
    # A late start of the first request doesn't shorten the others.
    found = outputs.read_web(web(answer(40, 1, 0), answer(100, 1, 1), answer(200, 1, 2)), rate=10)
    assert found.latencies == pytest.approx([0.001, 0.001, 0.041])


def test_failed_requests_are_counted_and_have_no_latency() -> None:
    cut = answer(100, 1, 1, error='"unexpected EOF, after 12 bytes"')
    found = outputs.read_web(web(answer(0, 1, 0), cut, answer(200, 1, 2, status=404, error="404 Not Found")), rate=10)
    assert (len(found.latencies), found.failed) == (1, 2)


def test_a_web_load_without_answers_is_refused() -> None:
    for text, message in (
        ("", "0 lines of CPU times, not 2"),
        (web(), "no request was answered, so nothing is known of its cost: it has sent none"),
        (web(answer(0, 1, 0, 0, "connection refused")), "its cost: connection refused"),
        (web("vegeta: no such file\n"), "these are no results of vegeta: the last is 'vegeta: no such file'"),
        (web(answer(0, 1, 0).replace(",200,", f",{'9' * 400},")), "these are no results of vegeta"),
    ):
        assert_refused(LabError, message, outputs.read_web, text, 10)


def test_costs_of_requests_are_those_of_the_answered_ones() -> None:
    served = outputs.Served([0.001] * 90 + [0.2] * 10, 2.0, 3, 4.0, {"cycles": 1e10})
    step = Step(WebLoad("veth", 1024, 50), 1)
    found = {one.test: one.value for one in experiment.values(step, served, 2)}
    assert found == {
        "requests": 50,
        "failed requests": 3,
        "latency p50": 0.001,
        "latency p99": 0.2,
        "CPU": 2.0,
        "CPU per request": 4.0 / 100,
        "cycles": 5e9,
        "cycles per request": 1e10 / 100,
    }

    slower = experiment.values(step, outputs.Served([0.001] * 100, 4.0, 0, 4.0, {}), 2)  # took longer than planned
    assert next(one.value for one in slower if one.test == "requests") == 25
