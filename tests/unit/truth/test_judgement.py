"""Who was named against who it was: what counts as right, late and false, and when a bar is missed."""

from __future__ import annotations

import json

import pytest

from tests.support.pages import Page
from truth import table
from truth.chain import WINDOW, scaled, why_absent
from truth.judgement import Judgement, Observed, as_document, bars, from_document, judge

LIMIT = 25.0


def observed(
    *named: tuple[float, str],
    to_name: tuple[str, ...] = ("batch",),
    disturbed: bool = True,
    strangers: tuple[str, ...] = (),
    charged: float = 2.0,
    delayed: float = 2.0,
    kind: str = "one culprit",
) -> Observed:
    return Observed(1, kind, frozenset(to_name), disturbed, named, frozenset(strangers), charged, delayed)


RIGHT = observed((11.0, "batch"), (16.0, "batch"))
CONTROL = observed(to_name=(), disturbed=False, kind="nobody", charged=0.1, delayed=0.1)


def missed(*of: Observed) -> list[str]:
    return [bar.what.split()[0] for bar in bars(judge(of, LIMIT)) if bar.holds is False]


def test_all_is_well() -> None:
    assert missed(RIGHT, CONTROL) == []
    assert [bar.holds for bar in bars(judge([RIGHT, CONTROL], LIMIT))] == [True] * 5


def test_one_that_is_named_once_and_wrongly_is_false() -> None:
    found = judge([observed((11.0, "batch"), (16.0, "blog"), (21.0, "batch"))], LIMIT)
    assert (found.right, found.false, found.precision) == (1, 1, 0.5)


def test_of_two_culprits_each_is_to_be_named() -> None:
    found = judge([observed((11.0, "batch"), to_name=("batch", "blog"))], LIMIT)
    assert (found.precision, found.recall) == (1.0, 0.5)


def test_a_late_name_is_right_and_not_found() -> None:
    found = judge([observed((26.0, "batch"))], LIMIT)
    assert (found.precision, found.recall, found.late) == (1.0, 0.0, 1)
    assert missed(observed((26.0, "batch"))) == ["recall", "named"]


def test_a_false_name_in_a_control_is_a_bar_of_its_own() -> None:
    wrong = observed((3.0, "blog"), to_name=(), disturbed=False)
    assert missed(*[RIGHT] * 200, CONTROL, wrong) == ["no"]


def test_of_many_nobody_is_to_be_named() -> None:
    many = observed(to_name=(), kind="many")
    assert missed(RIGHT, many) == []
    assert missed(RIGHT, observed((5.0, "wiki"), to_name=(), kind="many")) == ["precision"]
    assert len(judge([RIGHT, many, CONTROL], LIMIT).controls) == 1


@pytest.mark.parametrize(("charged", "missing"), [(1.95, []), (2.05, []), (1.93, ["charged"]), (2.07, ["charged"])])
def test_what_was_charged_is_what_the_kernel_counted(charged: float, missing: list[str]) -> None:
    assert missed(observed((9.0, "batch"), charged=charged)) == missing


def test_who_waits_next_to_nothing_says_nothing_of_coverage() -> None:
    assert judge([observed(charged=0.1, delayed=0.4)], LIMIT).coverage is None


def test_an_episode_that_strangers_disturb_does_not_count() -> None:
    disturbed = observed(strangers=("virtscope/auction-1-web",))
    assert judge([RIGHT, disturbed], LIMIT) == judge([RIGHT], LIMIT)


def test_what_was_observed_outlives_the_process() -> None:
    for each in (RIGHT, CONTROL, observed(strangers=("elsewhere",))):
        assert from_document(json.loads(json.dumps(as_document(each)))) == each


def test_the_table_has_a_row_for_each_kind_and_the_bars() -> None:
    wrong = observed((3.0, "blog"), to_name=(), disturbed=False, kind="nobody")
    found = judge([RIGHT, CONTROL, wrong, observed((30.0, "batch"))], LIMIT)
    lines = table.text(found, WINDOW, ["Without KVM guests: none here."]).splitlines()
    assert lines[2:5] == [
        "| one culprit | 2 | 2 | 1 | 1 | 0 | 20, at most 30 | 100.0% (100.0% to 100.0%) |",
        "| nobody | 2 | 0 | 0 | 0 | 1 |  | 100.0% (100.0% to 100.0%) |",
        "| all | 4 | 2 | 1 | 1 | 1 | 20, at most 30 | 100.0% (100.0% to 100.0%) |",
    ]
    assert [line.split(" | ")[-1] for line in lines if " MISSED" in line] == ["MISSED |"] * 4
    assert lines[-1] == "Without KVM guests: none here."


def test_nothing_measured_misses_no_bar_and_shows_as_that() -> None:
    nothing = Judgement((), LIMIT)
    assert table.holds(bars(nothing))
    assert table.text(nothing, WINDOW, []).count("not measured") == 5


def test_the_line_of_an_episode_says_what_is_wrong() -> None:
    assert table.line(RIGHT, LIMIT) == "   1 one culprit: named batch after 11 s; charged 100.0%"
    wrong = observed((9.0, "blog"), delayed=0.1, strangers=("x",))
    assert table.line(wrong, LIMIT) == (
        "   1 one culprit: named blog after 9 s; NOT NAMED IN TIME: batch; FALSE: blog; disturbed by x, doesn't count"
    )


def test_rates_of_waiting_are_over_the_window_and_other_rules_are_refused() -> None:
    rules = "(a unless a offset 1m)\n/ 60\nor\nrate(a[1m])\n"
    assert scaled(rules) == f"(a unless a offset {WINDOW}s)\n/ {WINDOW}\nor\nrate(a[{WINDOW}s])\n"
    with pytest.raises(ValueError, match=r"has no '\[1m\]'"):
        scaled("rate(a[2m])")


def test_the_exporters_own_words_say_why_it_counts_no_waits() -> None:
    info = 'sched_source_info{{source="bpf",detail="{}"}} 1\n'
    assert why_absent(Page.parse(info.format("absent: this kernel has no BTF"))) == "this kernel has no BTF"
    assert why_absent(Page.parse(info.format("loaded"))) == ""
