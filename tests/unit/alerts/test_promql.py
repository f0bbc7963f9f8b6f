"""Texts from files are used literally, and reach Prometheus unchanged."""

from alerts.generator.histograms import Source, sensors_histogram
from alerts.generator.names import decimal
from alerts.generator.requests import request_rules


def test_a_threshold_has_all_digits_of_its_bucket() -> None:
    """A rounded `le` would match no bucket, and the objective would never be judged."""
    assert [decimal(edge) for edge in (0.001953125, 0.3, 1.0)] == ["0.001953125", "0.3", "1"]


def test_a_constant_label_is_neither_expanded_nor_the_end_of_a_string() -> None:
    sensors = sensors_histogram((0.1, 1.0))
    constant = sensors.model_copy(update={"app": Source.model_validate({"is": 'a"$1\nb'})})
    _measured, bucket, *_ = request_rules([constant], sensors)
    assert r'"to_app", "a\"$$1\nb", "", ""' in bucket["expr"]
