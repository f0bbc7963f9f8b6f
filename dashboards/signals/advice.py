"""Advice on placement: whether the predictions of advise come true."""

from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, on_hosts

_of_advise = partial(Signal, absent="No prediction has been checked: docs/advise.md, Calibration.")
_BY = "host"

CALIBRATION = [
    _of_advise(
        "Within 90 %", f"max by ({_BY}) ({on_hosts('monitor:advice_inside:ratio')})", units.PercentUnit, low=0.5
    ),
    _of_advise("Error", f"max by ({_BY}) ({on_hosts('advise_prediction_error_ratio')})", units.PercentUnit, high=0.5),
    _of_advise("Predictions", f"sum by ({_BY}) ({on_hosts('advise_predictions')})", units.Short),
    _of_advise("Withheld", f"max by ({_BY}) ({on_hosts('advise_withheld')})", units.BoolYesNo, high=1),
]
