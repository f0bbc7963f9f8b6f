"""A run that was interrupted goes on after its last episode, and only with the plan that it began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from truth import episodes
from truth.__main__ import finished
from truth.judgement import Observed, as_document

PLAN = episodes.plan(1, 12)


def written(folder: Path, count: int) -> Path:
    """The results of a run's first episodes."""
    file = folder / "results.jsonl"
    observed = [Observed(of.number, of.kind, of.to_name, of.disturbed, (), frozenset(), 0.0, 0.0) for of in PLAN]
    file.write_text("".join(f"{json.dumps(as_document(each))}\n" for each in observed[:count]))
    return file


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (1, 1), (11, 11), (12, 0)])
def test_all_that_is_over_is_kept_until_the_run_is_complete(tmp_path: Path, count: int, kept: int) -> None:
    found = finished(PLAN, written(tmp_path, count))
    assert [each.number for each in found] == [*range(1, kept + 1)]


def test_another_plan_starts_over(tmp_path: Path) -> None:
    assert finished(episodes.plan(2, 12), written(tmp_path, 6)) == []


def test_a_line_that_was_cut_off_starts_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, 6)
    file.write_text(file.read_text()[:-20])
    assert finished(PLAN, file) == []
    assert "damaged" in capsys.readouterr().err


def test_without_results_it_starts(tmp_path: Path) -> None:
    assert finished(PLAN, tmp_path / "none.jsonl") == []
