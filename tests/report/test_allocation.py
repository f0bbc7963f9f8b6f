"""The report of dynamic allocation: the study's own numbers from its own inputs, and a run whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from lab import LabError
from lab.allocation.scenario import CONTROL, DYNAMIC, STATIC, Allocation, Step, parse
from lab.prometheus import Recorded, Sample
from lab.report.allocation import study
from lab.report.allocation.document import write_up
from lab.report.allocation.groups import Case, Group, groups
from lab.report.allocation.recording import OF_RUN, OF_STEPS, AllocationRun, Recording, query, runs
from lab.report.allocation.steps import Measured, measured, overhead
from lab.report.allocation.verdict import verdict
from lab.report.document import Document
from lab.report.rendering import html, markdown

STUDY = study.load()
RUN = AllocationRun("20261123T090512-mine", "mine", "vm", 1_795_424_712.3, 1_795_432_912.6)
SCENARIO = """\
study: allocation
about: Two containers.
magnitudes: [[0.4, 0.6], [0.2, 0.8]]
intervals: [6s, 10s, 30s]
"""

# What is true of the run below, in seconds and CPUs: the host's law, its split, and the delay.
STATIC_CPU, CALL, REALLOCATION, DELAY = 0.042, 0.063, 0.147, 0.5
TASKS, LOST_TASKS = 2038.0, 58.0
NOISE = (-0.0004, 0.0002, 0.0005, -0.0005, 0.0002)  # of each repetition: CPUs of the host, and a share of the tasks


def test_the_studys_derived_numbers_follow_from_those_that_it_prints() -> None:
    for static, dynamic, printed in ((2038, 1980, 0.03), (2195, 2050, 0.067), (170, 148, 0.13), (170, 130, 0.24)):
        assert overhead(static, dynamic) == pytest.approx(printed, abs=0.006)
    for containers, pinning, cpu_seconds in ((2, "unpinned", 0.21), (4, "unpinned", 0.33), (2, "pinned", None)):
        of = STUDY.of(containers, pinning)
        assert of is not None
        assert of.cpu_of_a_switch == (cpu_seconds and pytest.approx(cpu_seconds, abs=0.0005))
    assert STUDY.of(8, "unpinned") is None


def samples(step: Step, noise: float, attempt: int, seconds: float) -> Iterator[tuple[str, Sample]]:
    """What Prometheus has of a step of this length that obeys the law: its switch costs CPU in its first second."""
    of_step = {"run": RUN.name, "step": step.name, "attempt": str(attempt)}
    facts = {
        "scenario": "mine",
        "containers": str(step.containers),
        "pinning": step.pinning,
        "load": step.load,
        "mode": step.mode,
        "low": f"{step.low:g}",
        "high": f"{step.high:g}",
        "interval": str(step.interval),
        "repetition": str(step.repetition),
    }
    cost = {STATIC: 0.0, CONTROL: CALL, DYNAMIC: CALL + REALLOCATION}[step.mode]
    # Whole intervals, all after a switch, so that the truth is a round number.
    calls = 0 if step.mode == STATIC else seconds / step.interval
    if step.mode == STATIC:
        lengths = {"never": seconds}
    else:
        lengths = {str(second): calls for second in range(5)} | {"later": seconds - 5 * calls}
    lost = LOST_TASKS if (step.mode, step.low, step.interval) == (DYNAMIC, 0.2, 6) else 0.0

    def one(metric: str, value: float, **labels: str) -> tuple[str, Sample]:
        return f"lab_allocation_{metric}", Sample({**of_step, **labels}, value)

    yield one("step_info", 1, **facts)
    yield one("step_planned_seconds", 360)
    for since, length in lengths.items():
        yield one("seconds_total", length, since=since)
        host = (STATIC_CPU + noise) * length + (cost * calls if since == "0" else 0)
        yield one("machine_cpu_seconds_total", host + length, since=since)
        for cap, before in {(step.low, step.high), (step.high, step.low)}:
            both = 1.0 if step.low == step.high else 0.5 * step.containers
            settled = length * cap * both * (step.containers if step.low == step.high else 1)
            late = DELAY * calls * (before - cap) * both if since == "0" else 0.0
            yield one("container_cpu_seconds_total", settled + late, since=since, cap=f"{cap:g}")
    yield one("tasks_total", (TASKS * (1 + noise) - lost) * seconds)
    yield one("calls_total", calls)
    yield one("call_cpu_seconds_total", calls * 0.0002)
    yield one("call_seconds_total", calls * 0.0003)


def recording(
    scenario: Allocation, lengths: Mapping[str, float] | None = None, noise: Sequence[float] = NOISE
) -> Recording:
    """A whole run of a scenario; `lengths` has the seconds of steps that were cut short, by name."""
    given: dict[str, list[Sample]] = {metric: [] for metric in (*OF_RUN, *OF_STEPS)}
    known = {"cpus": "2", "cpu": "A Good CPU", "kernel": "6.1.0", "os": "Debian", "version": "v1"}
    given["lab_run_info"].append(Sample(known, 1))
    given["lab_run_planned_steps"].append(Sample({}, len(scenario.steps)))
    for number, step in enumerate(scenario.steps):
        seconds = (lengths or {}).get(step.name, 360)
        for metric, sample in samples(step, noise[step.repetition - 1], 1_795_424_712 + 370 * number, seconds):
            given[metric].append(sample)
    return Recording(RUN, {metric: query(metric, RUN) for metric in given}, given, asked_at=1_795_440_000)


@pytest.fixture(scope="module")
def whole() -> Recording:
    return recording(parse(SCENARIO, "mine.yml"))


@pytest.fixture(scope="module")
def group(whole: Recording) -> Group:
    [found] = groups(measured(whole))
    return found


@pytest.fixture(scope="module")
def document(whole: Recording) -> Document:
    return write_up(whole, STUDY, "http://127.0.0.1:9090")


class TestTruth:
    def test_the_cost_of_a_switch_is_found_from_the_lines_and_again_from_the_seconds_after_it(
        self, group: Group
    ) -> None:
        line, control = group.host_line(DYNAMIC), group.host_line(CONTROL)
        assert line is not None
        assert control is not None
        assert line.intercept.mean == pytest.approx(STATIC_CPU, abs=1e-9)
        assert line.slope.mean == pytest.approx(CALL + REALLOCATION)
        assert line.slope.differs
        assert line.r_squared is not None
        assert line.r_squared > 0.99
        assert control.slope.mean == pytest.approx(CALL)
        assert group.reallocation is not None
        assert group.reallocation.mean == pytest.approx(REALLOCATION)
        assert group.values(lambda one: one.cpu_of_a_switch, DYNAMIC) == pytest.approx([CALL + REALLOCATION] * 30)
        assert group.values(lambda one: one.cpu_of_a_switch, STATIC) == []
        spike = group.values(lambda one: one.host_in("0"), DYNAMIC)
        assert sum(spike) / len(spike) == pytest.approx(STATIC_CPU + CALL + REALLOCATION)

    def test_the_delay_is_found_for_larger_and_smaller_caps(self, group: Group) -> None:
        switched = [one for one in group.steps if one.step.mode == DYNAMIC]
        assert [one.delay(one.step.high, one.step.low) for one in switched] == pytest.approx([DELAY] * 30)
        assert [one.delay(one.step.low, one.step.high) for one in switched] == pytest.approx([DELAY] * 30)

    def test_performance_is_lost_where_it_was_and_capacity_nowhere(self, group: Group) -> None:
        worst = group.worst(lambda one: one.performance)
        assert worst is not None
        case, lost = worst
        assert case == Case(DYNAMIC, 0.2, 0.8, 6)
        assert lost.mean == pytest.approx(LOST_TASKS / TASKS, rel=1e-3)
        assert lost.n == 5
        unharmed = group.overhead(Case(DYNAMIC, 0.4, 0.6, 6), lambda one: one.performance)
        assert unharmed is not None
        assert not unharmed.differs
        capacity = group.overhead(case, lambda one: one.capacity)
        assert capacity is not None
        assert capacity.mean == pytest.approx(0, abs=1e-9)


class TestAttempts:
    def test_a_step_that_was_cut_short_is_named_and_not_used(self) -> None:
        scenario = parse(SCENARIO, "mine.yml")
        found = write_up(recording(scenario, {"2xstatic-6s-1": 60}), STUDY, "url")
        assert found.remarks == (("2xstatic-6s-1", "cut short: 60 s were measured of 360 s; it isn't used"),)
        assert found.verdict[-1] == "The run is not complete: 59 of its 60 steps are recorded."

    def test_what_a_killed_run_began_gives_way_to_what_was_measured_to_the_end(self) -> None:
        scenario = parse(SCENARIO, "mine.yml")
        of_both = recording(scenario)
        again = scenario.steps[0]
        for metric, sample in samples(again, noise=0.5, attempt=1_795_400_000, seconds=66):
            of_both.given[metric].append(sample)  # type: ignore[attr-defined]
        steps = measured(of_both)
        assert len(steps) == len(scenario.steps)
        assert all(one.whole for one in steps)

    def test_nothing_measured_is_said(self) -> None:
        short = dict.fromkeys((step.name for step in parse(SCENARIO, "mine.yml").steps), 6.0)
        found = write_up(recording(parse(SCENARIO, "mine.yml"), short), STUDY, "url")
        assert found.verdict[0] == "No step was measured to its end, so there is nothing to compare."
        assert "nothing to compare" in html(found)

    def test_a_series_that_is_not_the_labs_is_named(self, whole: Recording) -> None:
        info = Sample({"step": "x", "attempt": "soon"}, 1)
        given = {**whole.given, "lab_allocation_step_info": [info]}
        with pytest.raises(LabError, match="lab_allocation_step_info with a label missing or wrong"):
            measured(replace(whole, given=given))


class TestWords:
    def test_the_answer_comes_first_and_losses_are_not_confused_with_noise(self, document: Document) -> None:
        first, call, lost, effect = document.verdict[:4]
        said = "2 containers, unpinned: switching the caps once costs 210 ms of CPU (95 % interval 2"
        assert first.startswith(said)
        assert first.endswith("every 22 s or less often it is below 1 % of a CPU.")
        assert call == "2 containers, unpinned: writing the caps took 0.2 ms of CPU each time."
        assert "the containers lost CPU beyond noise in none of 6 cases (at most 0 %) and " in lost
        assert "tasks beyond noise in 1 of 6 cases, most with [0.2, 0.8] every 6 s: 2.85 % ± " in lost
        assert effect.endswith("a larger cap took effect after 500 ms, a smaller one after 500 ms.")

    def test_on_a_full_machine_no_limit_of_the_cost_is_claimed(self, group: Group) -> None:
        [cost, *_] = verdict([group], cpus=1)
        assert cost == (
            "2 containers, unpinned: what switching the caps costs could not show, as 1.05 of the machine's 1 CPUs "
            "were used; repeat this with less other load."
        )
        assert "could not show" not in " ".join(verdict([group], cpus=2))

    def test_containers_that_did_not_get_what_they_may_use_are_named(self, group: Group) -> None:
        def starved(one: Measured) -> Measured:
            return replace(one, container_cpu={at: 0.5 * cpu for at, cpu in one.container_cpu.items()})

        said = verdict([replace(group, steps=tuple(map(starved, group.steps)))], cpus=2)
        assert "the containers used only 0.5 of the one CPU that they may use" in said[-1]
        assert not any("relative to static caps" in sentence for sentence in said)
        assert not any("may use" in sentence for sentence in verdict([group], cpus=2))

    def test_a_delay_below_the_caps_period_is_not_resolved(self, group: Group) -> None:
        def at_once(one: Measured) -> Measured:
            settled = {
                (since, cap): one.seconds[since]
                * cap
                * one.step.containers
                / (2 if one.step.low < one.step.high else 1)
                for since, cap in one.container_cpu
            }
            return replace(one, container_cpu=settled)

        prompt = replace(group, steps=tuple(map(at_once, group.steps)))
        effect = verdict([prompt], cpus=2)[-1]
        assert effect.endswith("a larger cap took effect within 20 ms, a smaller one within 20 ms.")

    def test_what_was_not_found_has_a_limit_and_one_repetition_no_interval(self) -> None:
        noisy = recording(parse(SCENARIO, "mine.yml"), noise=(0.0, 0.2, 0.4, 0.3, 0.1))
        [cost, *_] = write_up(noisy, STUDY, "url").verdict
        assert "no cost of switching the caps was found; it is at most " in cost
        once = recording(parse(SCENARIO + "repetitions: 1\n", "mine.yml"))
        assert "2 containers, unpinned" in markdown(write_up(once, STUDY, "url"))

    def test_the_studys_numbers_stand_beside_ours(self, document: Document) -> None:
        assert document.overview is not None
        rows = {row[1]: row[2:] for row in document.overview.rows}
        assert rows["Host's own CPU, static"][0] == "0.042 CPU"
        assert rows["Host's own CPU, static"][-1] == "0.042 CPU"
        assert rows["Host's own CPU, switched every 6 s"][-1] == "0.077 CPU"
        [fitted] = [
            cells for what, cells in rows.items() if what.startswith("CPU of a switch, from the fitted line (R²")
        ]
        assert (fitted[0], fitted[-1]) == ("210 ms", "210 ms")
        assert rows["of it the call, from the control's line"][-1] == "30 %"
        assert rows["Delay until a larger cap takes effect"][-1] == "1 s to 2 s"

    def test_every_query_has_its_time_and_is_in_both_formats(self, document: Document, whole: Recording) -> None:
        asked = {text for part in document.parts for of in part.asked for text in of.queries}
        assert asked == set(whole.asked.values())
        assert all(text.endswith(" @ 1795432913)") for text in asked)
        page, text = html(document), markdown(document)
        for part in document.parts:
            assert part.title.replace("'", "&#39;") in page
            assert part.title in text
        for one in asked:
            assert one in text


def test_runs_are_found_newest_first_over_all_their_series() -> None:
    def series(run: str, *times: float) -> Recorded:
        labels = {"run": run, "scenario": "mine", "host": "vm", "step": str(times[0])}
        return Recorded(labels, tuple((time, 1.0) for time in times))

    found = runs([series("old", 10, 20), series("new", 100, 105), series("old", 30, 40)])
    assert [(run.name, run.start, run.end) for run in found] == [("new", 100, 105), ("old", 10, 40)]
    assert query("lab_allocation_tasks_total", found[1]) == (
        'last_over_time(lab_allocation_tasks_total{run="old"}[31s] @ 40)'
    )
