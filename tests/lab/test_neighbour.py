"""`make lab SCENARIO=neighbour`, shortened: the job that breaks a site's objective is named; stopping it clears the
alert."""

import pytest

from lab import scenario
from tests.lab.conftest import require_servers
from tests.lab.runs import complete, left, report, running_stack
from tests.stack.conftest import Checkout
from tests.support.needs import missing
from tests.support.waiting import wait_for
from tests.telegraf.agent import telegraf

RUN_SECONDS = 1200
JOB = "virtscope/batch"
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]  # Telegraf is built first if it isn't in the cache


def test_the_job_is_named_and_the_alert_clears_when_it_is_stopped(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without the step before the job. The duration until the alert clears can't be shortened."""
    require_servers()
    telegraf()
    text = (scenario.FOLDER / "neighbour.yml").read_text()
    shorter = text.replace("batch: [none, running, stopped]", "batch: [running, stopped]")
    assert shorter != text
    with running_stack(tmp_path_factory.mktemp("s"), shorter) as checkout:
        observe(checkout)


def observe(checkout: Checkout) -> None:
    stack = set(checkout.processes())
    try:
        wait_for(lambda: checkout.query("sched_switches_total"), 30)
    except AssertionError:
        missing(f"sched-exporter counts no waits here: {checkout.query('sched_source_info')}")
    name, _ = complete(checkout, RUN_SECONDS)
    assert left(checkout, stack, "batch") == []

    def during(step: str, record: str) -> list[dict[str, str]]:
        """The series of a record during a step."""
        marks = f'lab_step_info{{run="{name}", step="{step}"}}'
        found = checkout.query(f"last_over_time(({record} and on (host) {marks})[25m:5s])")
        return [series["metric"] for series in found]

    beside, after = "batch-running-1x800-1", "batch-stopped-1x800-1"
    fires = 'ALERTS{alertname="ObjectiveBurnsFast", objective="latency", app="auction-1", alertstate="firing"}'
    assert {series["by"] for series in during(beside, 'app:neighbour:ratio{app="auction-1"}')} == {JOB}
    causes = [series["cause"] for series in during(beside, 'app:breach_cause:info{app="auction-1"}')]
    assert "neighbour" in causes
    assert during(beside, fires)
    at_its_end = f'max(timestamp(lab_step_info{{run="{name}", step="{after}"}}))'
    [end] = checkout.query(f"max_over_time(({at_its_end})[25m:5s])")
    assert checkout.query(f"{fires} @ {float(end['value'][1]):.0f}") == []

    assert f"of that while {JOB} ran" in report(checkout, name)
