"""The report of dynamic allocation: the study's results from its own inputs, and a run with known true values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from lab.allocation.results import CAPACITY, NEVER, Sample, Sums, measurements
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, Allocation, Step
from lab.report.allocation import Group, groups, verdict, write_up
from lab.report.page import Page
from lab.report.recorded import Recording
from tests.report.recordings import assert_whole, recorded

SCENARIO = """\
study: allocation
about: Two containers.
magnitudes: [[0.4, 0.6], [0.2, 0.8]]
intervals: [6s, 10s, 30s]
"""

# True values of the run below, in seconds and CPUs: the host's CPU model, its parts, and the delay.
STATIC_CPU, CALL, REALLOCATION, DELAY = 0.042, 0.063, 0.147, 0.5
TASKS, LOST_TASKS, SECONDS = 2038, 58, 360
NOISE = (-0.0004, 0.0002, 0.0005, -0.0005, 0.0002)  # per repetition: CPUs of the host, and a share of the tasks


def sums(step: Step, noise: float) -> Sums:
    """A step that follows the model: its switch costs CPU in its first second."""
    cost = {STATIC: 0.0, CONTROL: CALL, DYNAMIC: CALL + REALLOCATION}[step.mode]
    # Whole intervals after a switch, so that the true value is a round number.
    calls = 0 if step.mode == STATIC else SECONDS // step.interval
    found = Sums(calls=calls, call_cpu=calls * 0.0002, call_seconds=calls * 0.0003)
    lost = LOST_TASKS if (step.mode, step.low, step.interval) == (DYNAMIC, 0.2, 6) else 0.0
    lengths = {since: float(calls) for since in range(5)} | {5: SECONDS - 5.0 * calls} if calls else {NEVER: SECONDS}
    caps = [step.cap(container, 0) for container in range(step.containers)]
    for since, length in lengths.items():
        late = [DELAY * calls * (step.low + step.high - 2 * cap) if since == 0 else 0.0 for cap in caps]
        used = [length * cap + more for cap, more in zip(caps, late, strict=True)]
        host = (STATIC_CPU + noise) * length + (cost * calls if since == 0 else 0)
        tasks = round((TASKS * (1 + noise) - lost) * length)
        found.add(Sample(0, 0, [0.0] * len(caps), 0), Sample(length, host + sum(used), used, tasks), since, caps)
    return found


def recording(scenario: str = SCENARIO, noise: Sequence[float] = NOISE, finished: int | None = None) -> Recording:
    """A complete run of a scenario."""
    steps = Allocation.parse(scenario, "mine.yml").steps
    found = [
        one
        for step in steps
        for one in measurements(step, sums(step, noise[step.repetition - 1]), "cgroup", emulated=False)
    ]
    return recorded("allocation", found, len(steps), finished)


@pytest.fixture(scope="module")
def group() -> Group:
    [found] = groups(recording())
    return found


@pytest.fixture(scope="module")
def document() -> Page:
    return write_up(recording())


def changed(group: Group, change: Callable[[Step, str, float], float]) -> Group:
    """The same steps with other values."""
    steps: Mapping[Step, Mapping[str, float]] = {
        step: {test: change(step, test, value) for test, value in of.items()} for step, of in group.steps.items()
    }
    return replace(group, steps=steps)


def test_what_was_used_is_in_the_second_in_which_it_was_and_with_the_cap_of_then() -> None:
    found = Sums()
    found.add(Sample(10, 100, [5, 6], 1000), Sample(11, 101.5, [5.2, 6.8], 1500), NEVER, [0.2, 0.8])
    found.add(Sample(11, 101.5, [5.2, 6.8], 1500), Sample(12, 103, [5.9, 7.1], 2100), 0, [0.8, 0.2])
    found.add(Sample(12, 103, [5.9, 7.1], 2100), Sample(13, 104, [6.7, 7.3], 2600), 0, [0.8, 0.2])
    found.add(Sample(13, 104, [6.7, 7.3], 2600), Sample(15, 104, [6.7, 7.3], 2600), 17, [0.8, 0.2])
    assert found.seconds == {NEVER: 1, 0: 2, 5: 2}
    assert found.machine_cpu == {NEVER: 1.5, 0: 2.5, 5: 0}
    assert found.container_cpu[0, 0.8] == pytest.approx(1.5)
    assert found.container_cpu[0, 0.2] == pytest.approx(0.5)
    assert found.tasks == 1600
    assert found.host(0) == pytest.approx((2.5 - 2) / 2)
    assert found.host() == pytest.approx((4 - 3) / 5)


def test_a_steps_environment_is_read_back() -> None:
    for step in Allocation.parse(SCENARIO, "mine.yml").steps:
        assert Step.parse(step.environment, step.repetition) == step
    assert Step.parse("veth, send, 256 bytes, offloads on") is None


def test_an_unfinished_run_says_so_and_an_empty_one_that_there_is_nothing() -> None:
    assert not any("not complete" in sentence for sentence in write_up(recording()).verdict)
    assert write_up(recording(finished=59)).verdict[-1] == "The run is not complete: 59 of its 60 steps are recorded."
    found = write_up(replace(recording(), measurements=()))
    assert found.verdict[0] == "No step was measured to its end, so there is nothing to compare."
    assert "nothing to compare" in found.html()


def test_the_answer_comes_first_and_losses_are_not_confused_with_noise(document: Page) -> None:
    first, call, cpu, tasks, effect = document.verdict
    said = "2 containers, unpinned: switching the caps once costs 210 ms of CPU (95 % interval 2"
    assert first.startswith(said)
    assert first.endswith("every 22 s or less often it is below 1 % of a CPU.")
    assert call == "2 containers, unpinned: writing the caps took 0.2 ms of CPU each time."
    assert "the containers lost nothing beyond noise (at most 0 %) of CPU with " in cpu
    assert tasks.startswith("2 containers, unpinned: relative to static caps the containers lost 2.85 % (2.8")
    assert tasks.endswith(" of tasks with [0.2, 0.8] every 6 s.")
    assert effect.endswith("a larger cap took effect after 500 ms, a smaller one after 500 ms.")
    assert_whole(document, recording())


def test_what_can_not_be_judged_is_not_claimed(group: Group) -> None:
    [cost, *_] = verdict([group], cpus=1)
    assert cost == (
        "2 containers, unpinned: what switching the caps costs could not show, as 1.05 of the machine's 1 CPUs "
        "were used; repeat this with less other load."
    )
    calm = " ".join(verdict([group], cpus=2))
    assert "could not show" not in calm
    assert "may use" not in calm
    starved = changed(group, lambda _, test, value: value / 2 if test == CAPACITY else value)
    said = verdict([starved], cpus=2)
    assert "the containers used only 0.5 of the one CPU that they may use" in said[-1]
    assert not any("relative to static caps" in sentence for sentence in said)
    prompt = changed(group, lambda _, test, value: 0.001 if test.startswith("delay") else value)
    effect = verdict([prompt], cpus=2)[-1]
    assert effect.endswith("a larger cap took effect within 20 ms, a smaller one within 20 ms.")
    [cost, *_] = write_up(recording(noise=(0.0, 0.2, 0.4, 0.3, 0.1))).verdict
    assert "no cost of switching the caps was found; it is at most " in cost
    once = recording(SCENARIO + "repetitions: 1\n")
    assert "2 containers, unpinned" in write_up(once).markdown()


def test_the_studys_numbers_are_beside_ours(document: Page) -> None:
    assert document.overview is not None
    rows = {row[1].partition(":")[0]: (row[2], row[-1]) for row in document.overview.rows}
    assert rows["Host's own CPU, static"] == ("0.042 CPU", "0.042 CPU")
    assert rows["CPU of a switch, from the fitted line"] == ("210 ms", "210 ms")
    ours = {
        "of it the call, from the control's line": "63 ms",
        "CPU of a switch, from its first seconds": "210 ms",
        "Host's own CPU in the second of a switch": "0.252 CPU",
        "Delay until a larger cap takes effect": "500 ms",
        "Delay until a smaller cap takes effect": "500 ms",
        "Largest performance overhead": "2.85 %",
        "Largest capacity overhead": "0 %",
    }
    assert {what: rows[what][0] for what in ours} == ours
    [performance] = [part.table for part in document.sections if part.key == "performance" and part.table]
    lost = {row[1:3]: row[-2:] for row in performance.rows}
    assert lost["switched, [0.4, 0.6]", "6 s"][1].startswith("-"), "an interval around 0"
    assert lost["static", "6 s"] == ("", "")
    for what, theirs in {
        "Host's own CPU, switched every 6 s": "0.077 CPU",
        "of it the call, from the control's line": "30 %",
        "Delay until a larger cap takes effect": "1 s to 2 s",
    }.items():
        assert rows[what][1] == theirs
