"""Alerts have no label of their cause; panels join the one that applied at each moment."""

from __future__ import annotations

from pathlib import Path

from dashboards.signals import application, fleet, host
from tests.dashboards.promtool import assert_answers

# An hour, a step a minute. The page fires in the minutes 10 to 29; until minute 19 the application is at its cap, then
# a neighbour takes the CPU. Requests fail from minute 20 on, for no known cause. The last alert is the user's own.
SHOP = 'host="xen1",platform="xen",app="shop"'
LATE = 'alertname="ObjectiveBurnsFast",alertstate="firing",severity="critical",objective="latency"'
FAILS = 'alertname="ObjectiveBurnsFast",alertstate="firing",severity="critical",objective="availability"'
OWN = 'alertname="ShopSlow",alertstate="firing",severity="warning",objective="own"'
HISTORY = {
    f"ALERTS{{{SHOP},{LATE}}}": "_x10 1x19 stale",
    f"ALERTS{{{SHOP},{FAILS}}}": "_x20 1x40",
    f"ALERTS{{{SHOP},{OWN}}}": "_x20 1x9 stale",
    f'app:objective_cause:info{{{SHOP},objective="latency",cause="self"}}': "1x19 stale",
    f'app:objective_cause:info{{{SHOP},objective="latency",cause="neighbour"}}': "_x20 1x40",
    f'app:objective_cause:info{{{SHOP},objective="availability",cause="unknown"}}': "1x60",
}


def test_a_breach_is_shown_with_each_cause_that_stood_while_it_lasted(tmp_path: Path) -> None:
    late = 'app="shop",alertname="ObjectiveBurnsFast",objective="latency"'
    fails = 'app="shop",alertname="ObjectiveBurnsFast",objective="availability"'
    own = '{app="shop",alertname="ShopSlow",objective="own"}'
    ended = {
        f'{{{late},cause="self"}}': 1000 * 19 * 60,
        f'{{{late},cause="neighbour"}}': 1000 * 29 * 60,
        f'{{{fails},cause="unknown"}}': 1000 * 60 * 60,
        own: 1000 * 29 * 60,
    }
    assert_answers(tmp_path, application.LAST_BREACH.expr, 60, ended, HISTORY)
    seconds = {
        f'{{{late},cause="self"}}': 600.0,
        f'{{{late},cause="neighbour"}}': 600.0,
        f'{{{fails},cause="unknown"}}': 41 * 60.0,
        own: 600.0,
    }
    assert_answers(tmp_path, application.MISSED_FOR.expr, 60, seconds, HISTORY)


def test_the_state_of_an_objective_is_the_cause_of_that_moment(tmp_path: Path) -> None:
    number = {cause: float(number) for number, cause in application.CAUSES.items()}
    late, fails = '{app="shop",objective="latency"}', '{app="shop",objective="availability"}'
    objectives = {
        f'app:slo_objective:ratio{{{SHOP},objective="{objective}"}}': "0.99x60"
        for objective in ("latency", "availability")
    }
    for minute, states in {
        5: {late: number["met"], fails: number["met"]},
        15: {late: number["self"], fails: number["met"]},
        25: {late: number["neighbour"], fails: number["unknown"]},
    }.items():
        assert_answers(tmp_path, application.BREACHES.expr, minute, states, HISTORY | objectives)


def test_tables_of_alerts_name_the_cause_and_leave_out_those_for_programs(tmp_path: Path) -> None:
    """One cause, the newer, even where a restart of Prometheus has left another behind."""
    active = {
        f"ALERTS{{{SHOP},{LATE}}}": "1x10",
        f"ALERTS_FOR_STATE{{{SHOP},{LATE}}}".replace('alertstate="firing",', ""): "60x10",
        'ALERTS{host="xen1",alertname="HostDown",alertstate="firing",severity="critical"}': "1x10",
        'ALERTS_FOR_STATE{host="xen1",alertname="HostDown",severity="critical"}': "0x10",
        f'ALERTS{{{SHOP},alertname="ObjectiveCause",alertstate="firing",severity="none",cause="load"}}': "1x10",
        f'ALERTS_FOR_STATE{{{SHOP},alertname="ObjectiveCause",severity="none",cause="load"}}': "0x10",
        f'app:objective_cause:info{{{SHOP},objective="latency",cause="self"}}': "_x3 1x2",
        f'app:objective_cause:info{{{SHOP},objective="latency",cause="load"}}': "_x7 1x3",
    }
    rows = {
        f'{{{SHOP},{LATE},cause="load"}}': 8 * 60.0,
        '{host="xen1",alertname="HostDown",alertstate="firing",severity="critical"}': 9 * 60.0,
    }
    for signal in (host.ALERTS, fleet.ALERTS):
        assert_answers(tmp_path, signal.expr, 9, rows, active)
