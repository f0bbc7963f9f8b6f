"""Texts of alerts about objectives: numbers, window and evidence."""

import re

from alerts.generator.words import PAGE, TICKET, Judged, burning, over_ceiling

FAST = Judged("latency", 0.999, "breaks an objective", "requests", "took longer than 0.3 s")


def test_the_budget_is_what_a_person_would_write() -> None:
    budgets = {0.999: 0.001, 0.99: 0.01, 0.9: 0.1, 0.99999: 0.00001, 0.999999999999: 1e-12}
    assert {share: Judged("errors", share, "", "", "").budget for share in budgets} == budgets


def test_the_summary_says_the_objective_in_percent() -> None:
    assert burning("A shop", FAST, PAGE).summary.endswith("took longer than 0.3 s; objective: at most 0.1%.")
    assert over_ceiling("A shop", 0.25).summary.endswith(" s exceeds its limit of 0.25 s.")


def test_the_short_window_and_its_words_agree() -> None:
    for alert in (PAGE, TICKET):
        said = burning("A shop", FAST, alert).description
        assert re.findall(r"sli_error:ratio_rate(\w+)\{", said) == [alert.window]
        assert f"No requests were counted in the last {alert.in_words}:" in said


def test_what_the_application_is_is_a_sentence() -> None:
    for about, sentence in {"A shop": "A shop.", "A shop.": "A shop.", "A shop!": "A shop!"}.items():
        for text in (burning(about, FAST, PAGE), over_ceiling(about, 0.25)):
            assert f" {sentence} " in text.description
            assert f"{sentence}." not in text.description
