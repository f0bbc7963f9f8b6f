"""When the alerts of the demo's past fire, as Prometheus would have had it."""

from __future__ import annotations

from demo.past import Alert


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
