"""What an alert about an objective says: its numbers, its windows and where they belong."""

from __future__ import annotations

import re

import pytest

from alerts.generator.words import PAGE, TICKET, Judged, Windows, burning, over_ceiling

FAST = Judged("latency", 0.999, "breaks an objective", "requests", "took longer than 0.3 s")


def test_the_budget_is_what_a_person_would_write() -> None:
    budgets = {0.999: 0.001, 0.99: 0.01, 0.9: 0.1, 0.99999: 0.00001, 0.999999999999: 1e-12}
    assert {share: Judged("errors", share, "", "", "").budget for share in budgets} == budgets


@pytest.mark.parametrize(
    ("windows", "short", "long", "since"),
    [
        (PAGE, ("5m", "five minutes"), ("1h", "hour"), ("6h:30s", "six hours")),
        (TICKET, ("2h", "two hours"), ("1d", "day"), ("3d:10m", "three days")),
    ],
)
def test_ranges_and_their_words_agree(
    windows: Windows, short: tuple[str, str], long: tuple[str, str], since: tuple[str, str]
) -> None:
    said = burning("A shop", FAST, windows).description
    ranges = re.findall(r"(slo:sli_error:ratio_rate\w+)\{.*?% of the last (.+?)\{\{", said)
    assert ranges == [(f"slo:sli_error:ratio_rate{of}", words) for of, words in (short, long)]
    assert f"timestamp(slo:sli_error:ratio_rate{short[0]}{{%s}} <= 0.001)[{since[0]}])" in said
    assert f"It has not met its objective in the last {since[1]}." in said


def test_it_says_the_objective_in_percent_and_asks_by_the_share() -> None:
    text = burning("A shop", FAST, PAGE)
    assert text.summary.endswith("% of its requests took longer than 0.3 s; objective: at most 0.1%.")
    assert '"vector(%g) / 0.001"' in text.description
    for about, sentence in {"A shop": "A shop.", "A shop!": "A shop!"}.items():
        assert f" {sentence} " in burning(about, FAST, PAGE).description


def test_a_mean_is_judged_by_its_ceiling() -> None:
    text = over_ceiling("A shop", 0.25)
    assert text.summary.endswith(" s exceeds its limit of 0.25 s.")
    assert "<= 0.25)[6h:30s])" in text.description
