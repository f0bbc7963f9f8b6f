"""The report of network costs: a run with known true values, compared with the study's results."""

from dataclasses import replace
from typing import Any

import pytest

from lab.metrics import Measurement
from lab.network.experiment import values
from lab.network.outputs import Counted, Served
from lab.network.scenario import Configuration, Network, WebLoad
from lab.report.network import Results, write_up
from lab.report.page import Page
from lab.report.recorded import Recording
from tests.report.recordings import NOISE, assert_whole, recorded

SCENARIO = "study: network\nabout: Everything.\n"
SECONDS = 10
THROUGHPUT = {"loopback": 2e9, "veth": 1.8e9, "bridge": 1.25e9}
CPU = {"loopback": 1.6, "veth": 1.584, "bridge": 1.5}  # per second: a byte costs 1, 1.1 and 1.5 times as much
SMALL, WITHOUT = 40.0, 6.0  # times a byte's cost, through lower throughput
MAX_RATE = 2_000  # requests per second of the fastest path
GUESTS = """\
guests:
  - {name: web 1, ssh: root@web1, platform: kvm}
  - {name: trial, ssh: root@trial, platform: xen, emulated: true}
"""


def counted(of: Configuration, noise: float, *, events: bool) -> Counted:
    less = (SMALL if of.size == 256 else 1.0) * (WITHOUT if of.offloads == "off" else 1.0)
    cpu = CPU.get(of.path, 6.0) * SECONDS
    # Twice the instructions per CPU second over a bridge.
    instructions = cpu * 2e9 * (2 if of.path == "bridge" else 1)
    return Counted(
        THROUGHPUT.get(of.path, 1e9) / less * noise,
        cpu,
        {"instructions": instructions, "cycles": cpu * 3e9} if events else {},
    )


def served(of: WebLoad, noise: float) -> Served:
    """A request costs 1, 1.1 and 1.5 times as much, like a byte; p99 is ten times the median."""
    answered = min(of.rate, MAX_RATE) * SECONDS
    cost = CPU.get(of.path, 6.0) / THROUGHPUT.get(of.path, 1e9) * 1e6
    median = 0.0005 * noise
    latencies = [median] * round(0.98 * answered) + [10 * median] * (answered - round(0.98 * answered))
    return Served(latencies, float(SECONDS), of.rate * SECONDS - answered, cost * answered * noise, {})


def recording(scenario: str = SCENARIO, *, events: bool = False) -> Recording:
    found: list[Measurement] = []
    parsed = Network.parse(scenario, "mine.yml")
    guests = {f"guest {guest.name}": guest for guest in parsed.guests}
    for step in parsed.steps:
        what, noise = step.configuration, NOISE[step.repetition - 1]
        used = served(what, noise) if isinstance(what, WebLoad) else counted(what, noise, events=events)
        found += values(step, used, SECONDS, guests.get(what.path))
    return recorded("network", found, len(parsed.steps))


def document(of: Recording | None = None) -> Page:
    return write_up(of or recording())


def test_only_the_thing_in_question_differs() -> None:
    results = Results(recording(SCENARIO + GUESTS + "web_rates: [500, 1000]\n").measurements)
    for one in [*results.of("paths"), *results.of("requests")]:
        assert one.baseline == replace(one.load, **{"path": "loopback"} | differing(one.load))
        assert one.cost is not None
        low, high = one.cost.ends
        assert low < one.cost.value < high < low + 0.02 * one.cost.value
        assert (one.throughput.n, one.event) == (5, "CPU")
    for group, here, there in (("offloads", "offloads off", "offloads on"), ("sizes", " 256 ", " 131072 ")):
        assert all(one.load.name == one.baseline.name.replace(there, here) for one in results.of(group))
    without = Results(recording(SCENARIO + "paths: [bridge, veth]\n").measurements)
    assert {(one.load.path, one.baseline.path) for one in without.of("paths")} == {("bridge", "veth")}


def differing(load: Configuration | WebLoad) -> dict[str, Any]:
    """What else differs to loopback: guests are compared with offloads."""
    return {"offloads": "on"} if isinstance(load, Configuration) and load.offloads == "unchanged" else {}


def test_a_cost_ratio_is_of_means_with_the_relative_interval_of_the_repetitions_costs() -> None:
    def values_of(path: str, test: str, *found: float) -> list[Measurement]:
        name = Configuration(path, "send", 256, "on").name
        return [Measurement(name, "none", False, test, "x", "lower", n, value) for n, value in enumerate(found, 1)]

    of = [
        *values_of("loopback", "throughput", 2, 2), *values_of("veth", "throughput", 1, 3),
        *values_of("loopback", "CPU", 4, 4), *values_of("veth", "CPU", 6, 6),
        *values_of("loopback", "CPU per byte", 2, 2), *values_of("veth", "CPU per byte", 6, 2),
    ]  # fmt: skip
    [one] = Results(of).of("paths")
    cost = one.cost
    assert cost is not None
    assert cost.value == pytest.approx(1.5)  # not (6 + 2) / (2 + 2)
    assert cost.high == pytest.approx(1.5 * (1 + 12.706 * 2 / 4))  # half of the costs: t * sqrt(8 / 2) of 4


def test_the_first_sentence_is_the_answer() -> None:
    of = document(recording(SCENARIO + "web_rates: 500\n"))
    for said in (
        "Over veth, a byte costs up to 1.10 times as much CPU time as over loopback (veth, ",
        "Over bridge, a byte costs up to 1.50 times as much CPU time as over loopback (bridge, ",
        "Over bridge, a request costs up to 1.50 times as much CPU time as over loopback (bridge, web, ",
        "Without segmentation offloads, a byte costs up to 6.00 times",
        "In small messages, a byte costs up to 40.00 times",
        "This machine counted no instructions, so costs are CPU seconds",
    ):
        assert any(one.startswith(said) for one in of.verdict), said
    assert not any(one.startswith("Not all requests") for one in of.verdict)
    [guest] = [
        one for one in document(recording(SCENARIO + GUESTS)).verdict if one.startswith("To and from guest web 1")
    ]
    assert guest.startswith("To and from guest web 1, a byte costs up to 7.50 times as much CPU time as over loopback ")
    loads = "| veth, web, 1024 bytes, 500 requests/s | 500 requests/s | 0 requests | 0.5 ms | 5 ms | "
    assert loads in assert_whole(of, recording())
    counting = document(recording(events=True))
    said = "Over bridge, a byte costs up to 3.00 times as many instructions as "
    assert any(one.startswith(said) for one in counting.verdict)
    assert not any("CPU seconds" in one for one in counting.verdict)
    ratios = "| 0.625 | 0.624 to 0.626 | instructions | 1.875 | 3.000 | 2.993 to 3.007 | 5 |"
    row = f"| bridge, send, 256 bytes, offloads on | loopback, send, 256 bytes, offloads on {ratios}"
    assert row in counting.markdown()
    alone = "study: network\nabout: One.\npaths: veth\nsizes: 256\noffloads: on\ndirections: send\n"
    assert list(document(recording(alone)).verdict) == [
        "No configuration was measured together with one to compare it with, so there is nothing to say yet."
    ]


def test_what_is_beyond_noise_is_said_before_greater_noise() -> None:
    of = recording("study: network\nabout: Two sizes.\noffloads: on\ndirections: send\n")
    noisy = {1: 9.0, 2: 0.1, 3: 8.0, 4: 0.2, 5: 1.0}  # by repetition: small messages over veth
    measured = tuple(
        replace(one, value=one.value * noisy[one.repetition])
        if one.test == "CPU per byte" and "veth" in one.environment and " 256 " in one.environment
        else one
        for one in of.measurements
    )
    assert measured != of.measurements
    first, *_ = document(replace(of, measurements=measured)).verdict
    assert first.startswith("Over veth, a byte costs up to 1.10 times")
    assert "131072 bytes" in first
    assert not first.endswith("noise.")


def test_guests_alone_are_compared_with_the_first() -> None:
    only = [one for one in recording(SCENARIO + GUESTS).measurements if one.environment.startswith("guest")]
    assert {(one.load.path, one.baseline.path) for one in Results(only).of("paths")} == {("guest web 1", "guest trial")}
    of = replace(recording(SCENARIO + GUESTS), measurements=tuple(only))
    first, *rest = document(of).verdict
    assert first.startswith("In small messages, a byte ")
    assert any(one.startswith("On emulated hardware, so no more than a sign that it works. To and ") for one in rest)


def test_an_emulated_guest_is_marked_wherever_it_is_and_never_the_answer() -> None:
    of = document(recording(SCENARIO + GUESTS + f"web_rates: {2 * MAX_RATE}\n"))
    *before, first = [one for one in of.verdict if "trial" in one]
    assert first.startswith(
        "On emulated hardware, so no more than a sign that it works. To and from guest trial, a byte "
    )
    assert "To and from guest trial, a request costs " in first
    assert of.verdict.index(first) > of.verdict.index(next(one for one in of.verdict if "Over bridge" in one))
    [not_reached] = before
    assert f"guest trial, web, 1024 bytes, {2 * MAX_RATE} requests/s (emulated): " in not_reached
    page = of.markdown()
    lines = [line for line in page.splitlines() if line.startswith("| guest trial, ")]
    assert {line.split(", ")[1] for line in lines} == {"send", "receive", "web"}
    assert all("(emulated)" in line for line in lines)
    assert "guest trial: runs on emulated hardware" in page.replace("**", "")
    assert "| guest web 1, send, 256 bytes, offloads unchanged | " in page
