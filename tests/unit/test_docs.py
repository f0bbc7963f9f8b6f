"""The generated documentation is what the exporters say today."""

from __future__ import annotations

from tools import metric_reference


def test_the_reference_of_metrics_is_fresh() -> None:
    assert metric_reference.REFERENCE.read_text() == metric_reference.reference(), "run: make docs"
