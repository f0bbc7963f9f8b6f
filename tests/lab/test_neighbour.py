"""`make lab SCENARIO=neighbour` and `disk-neighbour`, shortened: the job that breaks a site's objective is named with
the resource, and the alert clears when the job is stopped or throttled."""

import pytest

from lab import scenario, slow_disk
from tests.lab.conftest import require_servers
from tests.lab.runs import complete, finished_steps, left, report, running_stack
from tests.stack.conftest import Checkout
from tests.support.needs import missing
from tests.support.waiting import wait_for
from tests.telegraf.agent import telegraf

RUN_SECONDS = 1800
pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]  # Telegraf is built first if it isn't in the cache


@pytest.mark.parametrize(
    ("name", "end", "resource", "job"),
    [
        pytest.param("neighbour", "stopped", "cpu", "batch", id="cpu"),
        pytest.param("disk-neighbour", "throttled", "disk", "backup", id="disk"),
    ],
)
def test_the_job_is_named_and_the_alert_clears_at_its_end(
    tmp_path_factory: pytest.TempPathFactory, name: str, end: str, resource: str, job: str
) -> None:
    """Without the step before the job. The duration until the alert clears can't be shortened."""
    require_servers()
    if resource == "disk" and (reason := slow_disk.why_not_here()):
        missing(reason)
    telegraf()
    text = (scenario.FOLDER / f"{name}.yml").read_text()
    shorter = text.replace(f"batch: [none, running, {end}]", f"batch: [running, {end}]")
    assert shorter != text
    with running_stack(tmp_path_factory.mktemp("s"), shorter) as checkout:
        observe(checkout, resource, job)


def observe(checkout: Checkout, resource: str, job: str) -> None:
    stack = set(checkout.processes())
    try:
        wait_for(lambda: checkout.query("sched_switches_total"), 30)
    except AssertionError:
        missing(f"sched-exporter counts no waits here: {checkout.query('sched_source_info')}")
    name, _ = complete(checkout, RUN_SECONDS)
    assert left(checkout, stack, job) == []

    def during(step: str, record: str) -> list[dict[str, str]]:
        """The series of a record during a step."""
        marks = f'lab_step_info{{run="{name}", step="{step}"}}'
        found = checkout.query(f"last_over_time(({record} and on (host) {marks})[25m:5s])")
        return [series["metric"] for series in found]

    [[disturbed, over]] = finished_steps(checkout)
    fires = 'ALERTS{alertname="ObjectiveBurnsFast", objective="latency", app="auction-1", alertstate="firing"}'
    named = during(disturbed, f'app:neighbour:ratio{{resource="{resource}"}}')
    assert {series["by"] for series in named} == {f"virtscope/{job}"}
    causes = [series["cause"] for series in during(disturbed, 'app:breach_cause:info{app="auction-1"}')]
    assert "neighbour" in causes
    assert during(disturbed, fires)
    at_its_end = f'max(timestamp(lab_step_info{{run="{name}", step="{over}"}}))'
    [at_end] = checkout.query(f"max_over_time(({at_its_end})[25m:5s])")
    assert checkout.query(f"{fires} @ {float(at_end['value'][1]):.0f}") == []

    assert f"of that for virtscope/{job} at " in report(checkout, name)
