"""What a run remembers, so that it can go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab import LabError, scenario
from lab.calibration import Scale
from lab.state import State

TEXT = "about: Two steps.\ninstances: 1\nclients: [2, 3]\nduration: 4s\n"
SCENARIO = scenario.parse(TEXT, "mine.yml")
NOW = datetime(2026, 11, 21, 9, 5, 12, tzinfo=UTC)


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    begun = State.begin(SCENARIO, NOW, tmp_path)
    begun.calibrated(Scale(20.0, 0.006))
    begun.finish_step("1x2-1")
    assert State.unfinished(SCENARIO, tmp_path) == begun

    begun.finish()
    assert State.unfinished(SCENARIO, tmp_path) is None


def test_only_the_latest_run_of_this_very_scenario_goes_on(tmp_path: Path) -> None:
    State.begin(SCENARIO, NOW, tmp_path)
    later = State.begin(SCENARIO, NOW + timedelta(hours=1), tmp_path)
    assert State.unfinished(SCENARIO, tmp_path) == later
    assert State.unfinished(scenario.parse(TEXT + "seed: 2\n", "mine.yml"), tmp_path) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"scale": {"clients": 3}}'])
def test_a_damaged_file_is_said_to_be(tmp_path: Path, content: str) -> None:
    file = State.begin(SCENARIO, NOW, tmp_path).folder / "state.json"
    file.write_text(content)
    with pytest.raises(LabError, match=r"state\.json is damaged.*NEW=1"):
        State.unfinished(SCENARIO, tmp_path)
