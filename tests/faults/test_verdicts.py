"""What counts as a missed bar."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from faults import table
from faults.catalogue import Fault
from faults.observer import OLD, Alerts, Outcome, Status, lost

PARTS = "PART        STATE    SINCE\nprometheus  {}  2026-11-23 03:00:00\n\n"
WELL = Status(0, PARTS.format("running"), frozenset(), True)


@pytest.mark.parametrize(
    ("times", "count"),
    [
        pytest.param([0, 5, 10, 15], 0, id="none"),
        pytest.param([0, 5, 20, 25], 2, id="two"),
        pytest.param([0, 5.4, 9.8, 15.2], 0, id="late"),
        pytest.param([0, 5, 12, 17], 0, id="begun at another moment"),
        pytest.param([-20, -5, 0, 5], 0, id="before the fault"),
    ],
)
def test_scrapes_lost_are_the_gaps_between_those_that_succeeded(times: list[float], count: int) -> None:
    assert lost(times, 1.0) == count


@pytest.mark.parametrize(
    ("status", "lies"),
    [
        pytest.param(WELL, False, id="well"),
        pytest.param(WELL._replace(wrong=frozenset({"alertmanager"})), True, id="well, without a part"),
        pytest.param(WELL._replace(code=1), True, id="not well, and nothing is wrong"),
        pytest.param(WELL._replace(code=1, certain=False), False, id="not well, and something changes"),
        pytest.param(WELL._replace(code=1, wrong=frozenset({"prometheus"})), True, id="a part that hangs runs"),
        pytest.param(
            Status(1, PARTS.format("running, no answer"), frozenset({"prometheus"}), True), False, id="it hangs"
        ),
        pytest.param(WELL._replace(wrong=frozenset({OLD})), False, id="samples are some seconds old"),
    ],
)
def test_status_lies(status: Status, lies: bool) -> None:
    assert bool(status.lie()) is lies


FAULT = Fault("prometheus: kill -9", lambda _: nullcontext(), loses="node of a", raises=("True",))


def outcome(seconds: float | None = 5.0, **other: object) -> Outcome:
    made = Outcome(seconds, statuses=[WELL])
    for name, value in other.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        pytest.param(outcome(), "", id="well"),
        pytest.param(outcome(None), "is not back", id="never back"),
        pytest.param(outcome(31.0), "back after 31 s instead of 30", id="late"),
        pytest.param(outcome(lost={"node of a": 2}), "", id="two samples"),
        pytest.param(outcome(lost={"node of a": 3}), "3 samples lost of node of a instead of 2", id="three samples"),
        pytest.param(outcome(lost={"node of b": 1}), "1 samples lost of node of b", id="another's sample"),
        pytest.param(outcome(forgotten=1), "1 stored samples are gone", id="stored"),
        pytest.param(outcome(alerts=Alerts(frozenset({"True of a"}), frozenset())), "", id="true alert"),
        pytest.param(outcome(alerts=Alerts(frozenset({"Any of a"}), frozenset())), "false Any of a", id="false alert"),
        pytest.param(outcome(alerts=Alerts(frozenset(), frozenset({"Any of a"}))), "cleared Any of a", id="cleared"),
    ],
)
def test_a_bar_is_missed(found: Outcome, missed: str) -> None:
    assert "; ".join(table.row(FAULT, found, "").missed) == missed


def test_the_table_has_a_row_for_each_and_says_what_was_missed() -> None:
    rows = [table.row(FAULT, outcome(), ""), table.row(FAULT, outcome(None), ""), table.skipped(FAULT, "no clock")]
    lines = table.text(rows).splitlines()
    assert [line.split("|")[-2].strip() for line in lines[2:5]] == ["ok", "MISSED", "skipped"]
    assert lines[-1] == "prometheus: kill -9: is not back"
