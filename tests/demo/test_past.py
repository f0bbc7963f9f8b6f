"""When the alerts of the demo's past fire, as in Prometheus, and the order of its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demo import past
from demo.past import Alert, Past, Rule, records


def test_an_alert_waits_fires_and_goes_on_firing() -> None:
    """True at minutes 1 to 3, 5, and 10: `for` a minute, then two minutes more, in which it is true again once."""
    alert = Alert("A", "a", seconds=60, keep=120, labels={})
    states = [(at // 60, state, since // 60) for at, state, since in alert.states({60, 120, 180, 300, 600}, 720)]
    assert states == [
        (1, "pending", 1),
        *((minute, "firing", 1) for minute in range(2, 8)),
        (10, "pending", 10),
    ]


def test_one_without_either_fires_while_it_is_true() -> None:
    alert = Alert("A", "a", seconds=0, keep=0, labels={})
    assert list(alert.states({60, 180}, 240)) == [(60, "firing", 60), (180, "firing", 180)]


def test_two_series_that_are_one_record_are_written_in_the_order_of_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of `started or sum(others)`, whose series differ in their names only."""
    answer: list[dict[str, Any]] = [
        {"metric": {"__name__": "started", "host": "h"}, "values": [(3540, "1")]},
        {"metric": {"host": "h"}, "values": [(3420, "3"), (3480, "2"), (3600, "0")]},
    ]
    monkeypatch.setattr(past, "_evaluated", lambda *_: [answer])
    ((name, samples),) = records([Rule("used", "", {})], Past(Path(), Path(), 3400, 3600))
    assert (name, list(samples)) == ('used{host="h"}', [(3420, "3"), (3480, "2"), (3540, "1"), (3600, "0")])
