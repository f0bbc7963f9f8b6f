"""What panels show of values that change: means over time, caps that were lowered, causes that follow one another."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import yaml

from dashboards.signals import application, consolidation, fleet, host, vserver, xen
from tests.dashboards.promtool import assert_answers

XEN = 'host="xen1",platform="xen"'


def test_a_mean_of_ratios_over_applications_and_time_is_a_sum_divided_by_a_sum(tmp_path: Path) -> None:
    """Two applications for half an hour. In the first half blog is asked nine times as often as shop, and answers in
    0.1 s where shop takes 1.1 s; in the second half there are hardly any requests, all take 2 s, and they cost ten
    times as much. Misses are many where hardly anything is done."""
    answers = 'tier="web",method="GET",status="2xx"'
    history = {
        f"host:consolidation:apps{{{XEN}}}": "2x30",
        f'requests:duration_seconds_count:rate1m{{{XEN},app="blog",{answers}}}': "90x14 0.9x15",
        f'requests:duration_seconds_sum:rate1m{{{XEN},app="blog",{answers}}}': "9x14 1.8x15",
        f'requests:duration_seconds_count:rate1m{{{XEN},app="shop",{answers}}}': "10x14 0.1x15",
        f'requests:duration_seconds_sum:rate1m{{{XEN},app="shop",{answers}}}': "11x14 0.2x15",
        # A fifth of what they use is overhead beside: 0.9 and 0.6 CPUs, 10 and 60 ms for each request.
        f'app:cpu_usage:rate{{{XEN},app="blog"}}': "0.75x14 0.075x15",
        f'app:cpu_usage:rate{{{XEN},app="shop"}}': "0.5x14 0.05x15",
        f"host:guests_cpu_usage:rate{{{XEN}}}": "1.25x14 0.125x15",
        f"host:overhead_cpu:rate{{{XEN}}}": "0.25x14 0.025x15",
        f'app:cpu_per_request:seconds{{{XEN},app="blog"}}': "0.01x14 0.1x15",
        f'app:cpu_per_request:seconds{{{XEN},app="shop"}}': "0.06x14 0.6x15",
        f"host:instructions:rate{{{XEN}}}": "1000000x14 10000x15",
        f"host:llc_misses_per_instruction:ratio{{{XEN}}}": "0.001x14 0.5x15",
    }
    # 15 samples of the one half and 15 of the other, each in its units.
    for name, mean in {
        "Mean response": (20 + 2) / (100 + 1),
        "CPU per request": (1.5 + 0.15) / (100 + 1),
        "LLC MPKI": (1e6 + 5e6) / (1e6 + 1e4),
    }.items():
        (signal,) = (signal for signal in consolidation.AGAINST_APPS if signal.name == f"{name} by apps")
        wanted = {'{apps="2",placement="as found"}': round(mean, 4)}
        assert_answers(tmp_path, f"round({signal.expr}, 0.0001)", 29, wanted, history)


def test_a_cap_that_was_just_lowered_is_not_exceeded(tmp_path: Path) -> None:
    """From minute 3 on it is 1 CPU. In the minute before that 2.8 CPUs were used, which was allowed."""
    batch = f'{XEN},vserver="batch",role="guest"'
    history = {
        f"vserver:cpu_usage:rate{{{batch}}}": "2.8 2.8 2.8 2.8 0.9 0.9 0.9",
        f"vserver:cpu_limit:cpus{{{batch}}}": "3.5 3.5 3.5 1 1 1 1",
    }
    for minute, used in {2: 2.8 / 3.5, 3: 2.8 / 3.5, 4: 0.9, 6: 0.9}.items():
        assert_answers(tmp_path, vserver.LIMIT_USED.expr, minute, {f"{{{batch}}}": used}, history)


def test_domains_are_chosen_as_virtual_servers(tmp_path: Path) -> None:
    """Two living domains of one name, another one, and one that is dying: it is no virtual server any more."""
    domains = {"1": "web", "2": "web", "3": "db", "4": "gone"}
    known_as = {"1": "web/1", "2": "web/2", "3": "db"}
    of = {domid: f'{XEN},domid="{domid}",domain="{name}"' for domid, name in domains.items()}
    history = {f"xen_domain_memory_bytes{{{of[domid]}}}": "7x9" for domid in domains}
    history |= {f'domain:vserver:info{{{of[domid]},vserver="{name}"}}': "1x9" for domid, name in known_as.items()}
    history |= {f'xen_domain_network_receive_packets_total{{{of[domid]},vif="0"}}': "0+60x9" for domid in domains}
    for chosen, shown in {".*": "1234", "web/1": "14", "(web/2|db)": "234"}.items():
        memory = {f'{{domid="{domid}",domain="{domains[domid]}"}}': 7.0 for domid in shown}
        assert_answers(tmp_path, xen.MEMORY.expr, 5, memory, history, variables={"vserver": chosen})
        received = Counter(f'{{domain="{domains[domid]}",vif="0"}}' for domid in shown)
        assert_answers(tmp_path, xen.PACKETS_RECEIVED.expr, 5, received, history, variables={"vserver": chosen})


# An hour. The page fires in the minutes 10 to 29; until minute 19 the application is at its cap, then a neighbour takes
# the CPU. Requests fail from minute 20 on, for no known cause. The last alert is the user's own.
SHOP = f'{XEN},app="shop"'
LATE = 'alertname="ObjectiveBurnsFast",alertstate="firing",severity="critical",objective="latency"'
FAILS = 'alertname="ObjectiveBurnsFast",alertstate="firing",severity="critical",objective="availability"'
OWN = 'alertname="ShopSlow",alertstate="firing",severity="warning",objective="own"'
BREACHES = {
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
    # By what is shown: when it was seen last, and for how long, in minutes.
    rows = {
        f'{{{late},cause="self"}}': (19, 10),
        f'{{{late},cause="neighbour"}}': (29, 10),
        f'{{{fails},cause="unknown"}}': (60, 41),
        '{app="shop",alertname="ShopSlow",objective="own"}': (29, 10),
    }
    ended = {row: 60_000.0 * last for row, (last, _) in rows.items()}
    assert_answers(tmp_path, application.LAST_BREACH.expr, 60, ended, BREACHES)
    seconds = {row: 60.0 * lasted for row, (_, lasted) in rows.items()}
    assert_answers(tmp_path, application.MISSED_FOR.expr, 60, seconds, BREACHES)


def test_the_state_of_an_objective_is_the_cause_of_that_moment(tmp_path: Path) -> None:
    number = {cause: float(number) for number, cause in application.CAUSES.items()}
    late, fails = (f'app="shop",objective="{objective}"' for objective in ("latency", "availability"))
    objectives = {f"app:slo_objective:ratio{{{XEN},{objective}}}": "0.99x60" for objective in (late, fails)}
    for minute, cause, other in ((5, "met", "met"), (15, "self", "met"), (25, "neighbour", "unknown")):
        states = {f"{{{late}}}": number[cause], f"{{{fails}}}": number[other]}
        assert_answers(tmp_path, application.BREACHES.expr, minute, states, BREACHES | objectives)


def test_tables_of_alerts_name_the_cause_and_leave_out_those_for_programs(tmp_path: Path) -> None:
    """One cause, the newer, even where a restart of Prometheus has left another behind."""
    of = f"{SHOP},{LATE}".replace('alertstate="firing",', "")
    down = 'host="xen1",alertname="HostDown",severity="critical"'
    program = f'{SHOP},alertname="ObjectiveCause",severity="none",cause="load"'
    firing = {of: 60, down: 0, program: 0}  # since this second
    active = {f'ALERTS{{{alert},alertstate="firing"}}': "1x10" for alert in firing}
    active |= {f"ALERTS_FOR_STATE{{{alert}}}": f"{since}x10" for alert, since in firing.items()}
    of_objective = f'app:objective_cause:info{{{SHOP},objective="latency",cause='
    active |= {f'{of_objective}"self"}}': "_x3 1x2", f'{of_objective}"load"}}': "_x7 1x3"}
    rows = {f'{{{SHOP},{LATE},cause="load"}}': 8 * 60.0, f'{{{down},alertstate="firing"}}': 9 * 60.0}
    for signal in (host.ALERTS, fleet.ALERTS):
        assert_answers(tmp_path, signal.expr, 9, rows, active)


def test_the_alert_about_overhead_fires_from_where_panels_warn() -> None:
    """The ratio of the panel is the quotient of two sums over the alert's five minutes."""
    file = Path(__file__).resolve().parents[2] / "alerts" / "rules" / "overhead.yml"
    rules = [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]
    (alert,) = (rule["expr"] for rule in rules if rule.get("alert") == "HostOverheadHigh")
    for signal, compared in {
        host.OVERHEAD_RATIO: "sum_over_time(host:overhead_cpu:rate[5m]) / (sum_over_time(host:cpu_usage:rate[5m]) > 0)",
        host.OVERHEAD_CPU: "avg_over_time(host:overhead_cpu:rate[5m])",
    }.items():
        found = re.search(rf"{re.escape(compared)} > ([0-9.]+)", alert)
        assert found, f"HostOverheadHigh does not compare {compared} with a number"
        assert float(found[1]) == signal.high
