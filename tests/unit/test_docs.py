"""The generated documentation is what the exporters and the rules say today."""

from __future__ import annotations

from tools import metric_reference, vocabulary_reference


def test_the_reference_of_metrics_is_fresh() -> None:
    assert metric_reference.REFERENCE.read_text() == metric_reference.reference(), "run: make docs"


def test_the_page_of_the_vocabulary_is_fresh() -> None:
    page = vocabulary_reference.PAGE.read_text()
    assert page == vocabulary_reference.reference(page), "run: make docs"
